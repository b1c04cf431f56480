//! TATP's rows: their columns and their initial contents.

use bytemuck::{Pod, Zeroable};

use ebbtide_structures::hash::mix;

/// Fifteen decimal digits, zero-padded: a `sub_nbr` or a `numberx`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Digits(pub [u8; 15]);

impl Digits {
    /// Returns the digits of `number` modulo 10¹⁵.
    pub fn new(number: u64) -> Digits {
        let mut rest = number;
        let mut text = [0; 15];
        for digit in text.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Digits(text)
    }

    /// Returns the number with these digits; `None` if a byte is not a digit.
    pub fn number(self) -> Option<u64> {
        self.0.iter().try_fold(0, |number, &digit| {
            digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
        })
    }
}

/// A subscriber's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberRow {
    /// The subscriber, from 1.
    pub s_id: u64,
    /// `s_id` in digits.
    pub sub_nbr: Digits,
    /// bit_1 to bit_10 from bit 0.
    pub bits: u16,
    /// hex_1 to hex_10, in 4 bits each from bit 0.
    pub hexes: [u8; 5],
    /// byte2_1 to byte2_10.
    pub byte2: [u8; 10],
    /// The location of the subscriber's switching centre.
    pub msc_location: u32,
    /// The subscriber's location.
    pub vlr_location: u32,
}

/// An access-information row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessData {
    /// A random number.
    pub data1: u8,
    /// Another random number.
    pub data2: u8,
    /// Letters.
    pub data3: [u8; 3],
    /// More letters.
    pub data4: [u8; 5],
}

/// The contents of a subscriber's row before a transaction changed it. They differ for all changes
/// of a subscriber, which gives the order of the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Before {
    /// `subscriber.bit_1`.
    pub bit_1: bool,
    /// `subscriber.vlr_location`.
    pub vlr_location: u32,
    /// Number of earlier transactions that changed each special facility, modulo 2¹⁶.
    pub commits: [u16; 4],
    /// Number of earlier transactions that changed each facility's call forwardings, modulo 16.
    /// Each number has 4 bits, the first from bit 0.
    pub forwarding_commits: u16,
}

/// A subscriber's first line, which transactions change and search, without latch and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Subscriber {
    pub s_id: u64,
    /// How many transactions have changed each special facility, modulo 2¹⁶.
    pub commits: [u16; 4],
    pub msc_location: u32,
    pub vlr_location: u32,
    /// bit_1 to bit_10 from bit 0.
    pub bits: u16,
    /// How many transactions have changed each facility's call forwardings, modulo 16, in 4 bits
    /// each from bit 0.
    pub forwarding_commits: u16,
    /// hex_1 to hex_10, in 4 bits each from bit 0.
    pub hexes: [u8; 5],
    /// `s_id` in digits.
    pub sub_nbr: Digits,
}

impl Subscriber {
    /// The row's columns.
    pub(super) fn row(&self, rest: &SubscriberRest) -> SubscriberRow {
        let Subscriber { s_id, sub_nbr, bits, hexes, msc_location, vlr_location, .. } = *self;
        let [byte2 @ .., _, _, _, _, _, _] = rest.byte2;
        SubscriberRow { s_id, sub_nbr, bits, hexes, byte2, msc_location, vlr_location }
    }

    /// The contents before a change.
    pub(super) fn before(&self) -> Before {
        let Subscriber { vlr_location, commits, forwarding_commits, .. } = *self;
        Before { bit_1: self.bit_1(), vlr_location, commits, forwarding_commits }
    }

    pub(super) fn bit_1(&self) -> bool {
        self.bits & 1 == 1
    }

    pub(super) fn set_bit_1(&mut self, bit_1: bool) {
        self.bits = self.bits & !1 | u16::from(bit_1);
    }

    /// The count of one facility in `forwarding_commits`.
    pub(super) fn forwarding_commits_of(&self, sf_type: u64) -> u8 {
        (self.forwarding_commits >> (4 * (sf_type - 1)) & 0xf) as u8
    }

    pub(super) fn set_forwarding_commits(&mut self, sf_type: u64, commits: u8) {
        let shift = 4 * (sf_type - 1);
        self.forwarding_commits =
            self.forwarding_commits & !(0xf << shift) | u16::from(commits & 0xf) << shift;
    }
}

/// A subscriber's second line: the columns that transactions only read, without latch and checksum.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SubscriberRest {
    pub s_id: u64,
    /// byte2_1 to byte2_10, and six unused bytes.
    pub byte2: [u8; 16],
    pub spare: [u64; 3],
}

/// A special-facility row without its checksum. Absent rows have one too, with `exists` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Facility {
    pub s_id: u64,
    pub sf_type: u8,
    pub exists: u8,
    pub is_active: u8,
    pub error_cntrl: u8,
    pub data_a: u8,
    pub spare: [u8; 3],
    pub data_b: [u8; 5],
    pub spare_2: u8,
    /// How many transactions have changed this row, modulo 2¹⁶.
    pub commits: u16,
}

/// An access-information row without its checksum. Absent rows have one too, with `exists` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct AccessInfo {
    pub s_id: u64,
    pub ai_type: u8,
    pub exists: u8,
    pub data1: u8,
    pub data2: u8,
    pub data3: [u8; 3],
    pub data4: [u8; 5],
    pub spare: [u8; 4],
}

impl AccessInfo {
    /// Its columns, if it exists.
    pub(super) fn data(&self) -> Option<AccessData> {
        let AccessInfo { exists, data1, data2, data3, data4, .. } = *self;
        (exists != 0).then_some(AccessData { data1, data2, data3, data4 })
    }
}

/// A call-forwarding row without its key, which is its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Forwarding {
    pub numberx: Digits,
    /// 1 to 24; 0 when there is no such row.
    pub end_time: u8,
}

impl Forwarding {
    pub(super) const NONE: Forwarding = Forwarding { numberx: Digits([b'0'; 15]), end_time: 0 };

    pub(super) fn exists(&self) -> bool {
        self.end_time != 0
    }
}

/// The call forwardings of one facility: a line without its checksum. It has no latch, since the
/// subscriber's covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Forwardings {
    s_id_low: u32,
    s_id_high: u16,
    pub sf_type: u8,
    /// How many transactions have changed this line, modulo 16.
    pub commits: u8,
    /// For start_time 0, 8 and 16.
    pub rows: [Forwarding; 3],
}

/// The initial contents of the tables. Every column is a function of the seed and the key, with the
/// distributions of the TATP description (§4).
#[derive(Debug, Clone, Copy)]
pub(super) struct Population {
    pub seed: u64,
}

impl Population {
    pub(super) fn subscriber(self, s_id: u64) -> Subscriber {
        let random = self.random(s_id, 32);
        let more = mix(random);
        let [_, _, _, h @ ..] = random.to_le_bytes();
        Subscriber {
            s_id,
            commits: [0; 4],
            msc_location: more as u32,
            vlr_location: (more >> 32) as u32,
            bits: (random & 0x3ff) as u16,
            forwarding_commits: 0,
            hexes: h,
            sub_nbr: Digits::new(s_id),
        }
    }

    pub(super) fn subscriber_rest(self, s_id: u64) -> SubscriberRest {
        let random = mix(mix(self.random(s_id, 32)));
        let mut byte2 = [0; 16];
        byte2[..8].copy_from_slice(&mix(random).to_le_bytes());
        byte2[8..10].copy_from_slice(&random.to_le_bytes()[..2]);
        SubscriberRest { s_id, byte2, spare: [0; 3] }
    }

    pub(super) fn facility(self, s_id: u64, sf_type: u64) -> Facility {
        let random = mix(self.random(s_id, 16) ^ sf_type);
        let [active, error_cntrl, data_a, b @ ..] = random.to_le_bytes();
        Facility {
            s_id,
            sf_type: sf_type as u8,
            exists: self.facility_types(s_id) >> (sf_type - 1) & 1,
            // Active with probability 0.85.
            is_active: u8::from(active < 218),
            error_cntrl,
            data_a,
            spare: [0; 3],
            data_b: b.map(letter),
            spare_2: 0,
            commits: 0,
        }
    }

    pub(super) fn access_info(self, s_id: u64, ai_type: u64) -> AccessInfo {
        let random = mix(self.random(s_id, 8) ^ ai_type);
        let [data1, data2, _, b @ ..] = random.to_le_bytes();
        let [_, _, _, c @ ..] = mix(random).to_le_bytes();
        AccessInfo {
            s_id,
            ai_type: ai_type as u8,
            exists: one_to_four_of_four(self.random(s_id, 24)) >> (ai_type - 1) & 1,
            data1,
            data2,
            data3: [b[0], b[1], b[2]].map(letter),
            data4: c.map(letter),
            spare: [0; 4],
        }
    }

    /// The call forwardings of a facility: none if it does not exist, else 0 to 3, where subsets of
    /// one size are equally likely.
    pub(super) fn forwardings(self, s_id: u64, sf_type: u64) -> Forwardings {
        let random = mix(self.random(s_id, 40) ^ sf_type);
        let exists = self.facility_types(s_id) >> (sf_type - 1) & 1 == 1;
        let times = if exists { none_to_three_of_three(random) } else { 0 };
        let row = |i: usize| {
            let random = mix(random.wrapping_add(i as u64));
            let end_time = 8 * i as u8 + 1 + (random >> 61) as u8;
            match times >> i & 1 {
                0 => Forwarding::NONE,
                _ => Forwarding { numberx: Digits::new(random), end_time },
            }
        };
        Forwardings {
            s_id_low: s_id as u32,
            s_id_high: (s_id >> 32) as u16,
            sf_type: sf_type as u8,
            commits: 0,
            rows: std::array::from_fn(row),
        }
    }

    /// The types of facilities of subscriber `s_id`, one bit each.
    fn facility_types(self, s_id: u64) -> u8 {
        one_to_four_of_four(self.random(s_id, 48))
    }

    /// Random bits for a subscriber. `rotation` differs for each use.
    fn random(self, s_id: u64, rotation: u32) -> u64 {
        mix(s_id ^ self.seed.rotate_left(rotation))
    }
}

/// A random subset of four with 1 to 4 members, one bit each; subsets of one size are equally
/// likely.
fn one_to_four_of_four(random: u64) -> u8 {
    match random % 4 {
        0 => one_of(random, &[0b0001, 0b0010, 0b0100, 0b1000]),
        1 => one_of(random, &[0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100]),
        2 => one_of(random, &[0b0111, 0b1011, 0b1101, 0b1110]),
        _ => 0b1111,
    }
}

/// A random subset of three with 0 to 3 members, one bit each; subsets of one size are equally
/// likely.
fn none_to_three_of_three(random: u64) -> u8 {
    match random % 4 {
        0 => 0b000,
        1 => one_of(random, &[0b001, 0b010, 0b100]),
        2 => one_of(random, &[0b011, 0b101, 0b110]),
        _ => 0b111,
    }
}

fn one_of(random: u64, masks: &[u8]) -> u8 {
    masks[((random >> 8) % masks.len() as u64) as usize]
}

fn letter(byte: u8) -> u8 {
    b'A' + byte % 26
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_fifteen_and_read_back() {
        assert_eq!(&Digits::new(1_203).0, b"000000000001203");
        for number in [0, 1, 9, 10, 357_000_000, 999_999_999_999_999] {
            assert_eq!(Digits::new(number).number(), Some(number));
        }
        assert_eq!(Digits::new(10u64.pow(15) + 7), Digits::new(7));
        assert_eq!(Digits(*b"00000000000120x").number(), None);
    }

    #[test]
    fn counts_of_forwardings_do_not_touch_each_other() {
        let mut subscriber = Population { seed: 1 }.subscriber(1);
        for sf_type in 1..=4 {
            subscriber.set_forwarding_commits(sf_type, 16 + 10 + sf_type as u8);
        }
        let counts = [1, 2, 3, 4].map(|sf_type| subscriber.forwarding_commits_of(sf_type));
        assert_eq!(counts, [11, 12, 13, 14]);
    }

    #[test]
    fn rows_come_as_often_as_the_description_says() {
        let population = Population { seed: 3 };
        let (mut facilities, mut active, mut access, mut forwardings) = (0, 0, 0, [0; 4]);
        let subscribers = 20_000;
        for s_id in 1..=subscribers {
            for of_type in 1..=4 {
                let facility = population.facility(s_id, of_type);
                facilities += u32::from(facility.exists);
                active += u32::from(facility.exists & facility.is_active);
                access += u32::from(population.access_info(s_id, of_type).exists);
                let rows = population.forwardings(s_id, of_type).rows;
                let count = rows.iter().filter(|row| row.exists()).count();
                assert!(count == 0 || facility.exists == 1);
                forwardings[count] += u32::from(facility.exists);
                for (start_time, row) in (0..).step_by(8).zip(rows) {
                    let ends = start_time + 1..=start_time + 8;
                    assert!(!row.exists() || ends.contains(&row.end_time));
                }
            }
        }
        let close = |found: u32, of: u32, share: f64| {
            let found = f64::from(found) / f64::from(of);
            assert!((found - share).abs() < 0.01, "{found} against {share}");
        };
        close(facilities, 4 * subscribers as u32, 0.625);
        close(access, 4 * subscribers as u32, 0.625);
        close(active, facilities, 0.85);
        forwardings.iter().for_each(|&count| close(count, facilities, 0.25));
    }
}
