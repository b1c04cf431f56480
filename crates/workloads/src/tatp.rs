//! [`Tatp`]: the telecom benchmark's UPDATE_SUBSCRIBER_DATA (AstriFlash, HPCA'23 §V-A).

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, PageId, latch};
use rand::RngExt;

use crate::keys::{Places, Ranks, job_rng, share};
use crate::line::{Line, SEALED, Seals, broken, fill};
use crate::permutation::mix;
use crate::program::{Kind, Named, Shape};
use crate::{Workload, Wrong};

const ROW_BYTES: u64 = 128;
const ROWS_PER_PAGE: u64 = PAGE_BYTES as u64 / ROW_BYTES;
const FACILITY_BYTES: u64 = 32;

/// TATP's subscriber and special-facility tables; a job is one UPDATE_SUBSCRIBER_DATA.
///
/// The transaction (TATP benchmark description, §5.3; the only one AstriFlash runs): for a
/// subscriber and one of four facility types, set `subscriber.bit_1` and
/// `special_facility.data_a`. A subscriber has 1 to 4 facilities of distinct types, so the row
/// exists 62.5% of the time; when it does not, nothing changes, and the job is done all the same.
///
/// A subscriber is two lines: what the transaction needs, with a latch, and the columns it leaves
/// alone. Its four possible facilities are rows of 32 bytes, side by side on two lines of another
/// page. `s_id` is dense, so the primary indexes are arithmetic. The subscriber's latch covers its
/// facilities too, which makes transactions serialisable; both rows are touched before it is
/// taken, so that no miss is waited for with the latch held.
///
/// Both rows count the transactions that changed them, the subscriber for each type apart: if half
/// of a transaction were lost, with a page that came back old, the counts would differ.
#[derive(Debug, Clone)]
pub struct Tatp {
    pages_per_table: u64,
    ranks: Ranks,
    /// Rank to subscriber, from 0.
    places: Places,
    seals: Seals,
    seed: u64,
    work: u64,
}

/// The arguments of one UPDATE_SUBSCRIBER_DATA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateSubscriberData {
    /// The subscriber, from 1.
    pub s_id: u64,
    /// The facility's type, 1 to 4.
    pub sf_type: u64,
    /// The new `subscriber.bit_1`.
    pub bit_1: bool,
    /// The new `special_facility.data_a`.
    pub data_a: u8,
}

/// What a transaction that committed found before it wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updated {
    /// `subscriber.bit_1`.
    pub bit_1: bool,
    /// `special_facility.data_a`.
    pub data_a: u8,
    /// How many transactions had changed each of the subscriber's facilities, modulo 2¹⁶.
    pub commits: [u16; 4],
}

/// A subscriber and its facilities at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberData {
    /// `subscriber.bit_1`.
    pub bit_1: bool,
    /// `special_facility.data_a` of each type that exists.
    pub data_a: [Option<u8>; 4],
    /// How many transactions have changed each facility, modulo 2¹⁶.
    pub commits: [u16; 4],
}

/// The subscriber's first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Subscriber {
    s_id: u64,
    /// `s_id` in 15 decimal digits.
    sub_nbr: [u8; 16],
    /// bit_1 to bit_10 from bit 0, hex_1 to hex_10 from bit 16.
    bits_and_hexes: u64,
    msc_location: u32,
    vlr_location: u32,
    commits: [u16; 4],
}

/// The subscriber's second line.
#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct SubscriberRest {
    s_id: u64,
    /// byte2_1 to byte2_10.
    byte2: [u8; 16],
    spare: [u64; 3],
}

/// A special-facility row, less its seal; it is there for absent ones too, and says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Facility {
    s_id: u64,
    sf_type: u8,
    exists: u8,
    is_active: u8,
    error_cntrl: u8,
    data_a: u8,
    spare: [u8; 3],
    data_b: [u8; 5],
    spare_2: u8,
    commits: u16,
}

impl Tatp {
    /// How many subscribers there are: `s_id` is `1..=subscribers()`.
    pub fn subscribers(&self) -> u64 {
        self.pages_per_table * ROWS_PER_PAGE
    }

    /// The transaction that is job `job`.
    #[inline]
    pub fn job(&self, job: u64) -> UpdateSubscriberData {
        let mut rng = job_rng(self.seed, job);
        let s_id = self.places.place(self.ranks.draw(&mut rng)) + 1;
        let bits: u64 = rng.random();
        UpdateSubscriberData {
            s_id,
            sf_type: bits % 4 + 1,
            bit_1: bits >> 8 & 1 == 1,
            data_a: (bits >> 16) as u8,
        }
    }

    /// Runs the transaction in one atomic step. Gives what it found, or `None` if there is no such
    /// subscriber or facility; then nothing changes.
    ///
    /// # Errors
    /// [`Wrong`] when the rows are not what they must be; then nothing is stored.
    pub fn update<M: Memory>(
        &self,
        memory: &mut M,
        update: UpdateSubscriberData,
    ) -> Result<Option<Updated>, Wrong> {
        if !self.may_exist(update.s_id, update.sf_type) {
            return Ok(None);
        }
        let latch = self.subscriber_address(update.s_id);
        latch::write(memory, latch, |memory| self.apply(memory, update))
    }

    /// The transaction itself, for arguments in range. Not atomic: the caller holds the
    /// subscriber's latch.
    pub fn apply<M: Memory>(
        &self,
        memory: &mut M,
        update: UpdateSubscriberData,
    ) -> Result<Option<Updated>, Wrong> {
        let UpdateSubscriberData { s_id, sf_type, bit_1, data_a } = update;
        let mut subscriber = self.read_subscriber(memory, s_id)?;
        let mut facility = self.read_facility(memory, s_id, sf_type)?;
        let commits = &mut subscriber.commits[sf_type as usize - 1];
        if *commits != facility.commits {
            return Err(half(s_id));
        }
        if facility.exists == 0 {
            return Ok(None);
        }
        facility.commits = facility.commits.wrapping_add(1);
        let found = Updated {
            bit_1: subscriber.bits_and_hexes & 1 == 1,
            data_a: facility.data_a,
            commits: subscriber.commits,
        };
        subscriber.commits[sf_type as usize - 1] = facility.commits;
        subscriber.bits_and_hexes = subscriber.bits_and_hexes & !1 | u64::from(bit_1);
        facility.data_a = data_a;
        let at = self.subscriber_address(s_id);
        memory.store(at + SEALED, self.seals.close(at, subscriber));
        let at = self.facility_address(s_id, sf_type);
        memory.store(at, self.close_facility(at, facility));
        Ok(Some(found))
    }

    /// A subscriber and its facilities, read in one atomic step; `None` if there is none.
    ///
    /// # Errors
    /// [`Wrong`] when the rows are not what they must be.
    pub fn get<M: Memory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<Option<SubscriberData>, Wrong> {
        if !self.may_exist(s_id, 1) {
            return Ok(None);
        }
        let latch = self.subscriber_address(s_id);
        latch::read(memory, latch, |memory| self.read(memory, s_id).map(Some))
    }

    /// Reads it without the latch.
    fn read<M: Memory>(&self, memory: &mut M, s_id: u64) -> Result<SubscriberData, Wrong> {
        let subscriber = self.read_subscriber(memory, s_id)?;
        let mut data_a = [None; 4];
        for (sf_type, data_a) in (1..).zip(&mut data_a) {
            let facility = self.read_facility(memory, s_id, sf_type)?;
            if facility.commits != subscriber.commits[sf_type as usize - 1] {
                return Err(half(s_id));
            }
            *data_a = (facility.exists != 0).then_some(facility.data_a);
        }
        let bit_1 = subscriber.bits_and_hexes & 1 == 1;
        Ok(SubscriberData { bit_1, data_a, commits: subscriber.commits })
    }

    fn may_exist(&self, s_id: u64, sf_type: u64) -> bool {
        (1..=self.subscribers()).contains(&s_id) && (1..=4).contains(&sf_type)
    }

    fn read_subscriber<M: Memory>(&self, memory: &mut M, s_id: u64) -> Result<Subscriber, Wrong> {
        let at = self.subscriber_address(s_id);
        self.seals.open(at, memory.line(at))
    }

    fn read_facility<M: Memory>(
        &self,
        memory: &mut M,
        s_id: u64,
        sf_type: u64,
    ) -> Result<Facility, Wrong> {
        let at = self.facility_address(s_id, sf_type);
        let [a, b, c, seal]: [u64; 4] = memory.load(at);
        if self.seals.seal(at, &[a, b, c]) != seal {
            return Err(broken(at));
        }
        Ok(bytemuck::cast([a, b, c]))
    }

    #[inline]
    fn close_facility(&self, at: Addr, facility: Facility) -> [u64; 4] {
        let words: [u64; 3] = bytemuck::cast(facility);
        let [a, b, c] = words;
        [a, b, c, self.seals.seal(at, &words)]
    }

    /// The subscriber's first line, and its latch.
    #[inline]
    fn subscriber_address(&self, s_id: u64) -> Addr {
        Addr((s_id - 1) * ROW_BYTES)
    }

    #[inline]
    fn facility_address(&self, s_id: u64, sf_type: u64) -> Addr {
        let first = PageId(self.pages_per_table).start() + (s_id - 1) * ROW_BYTES;
        first + (sf_type - 1) * FACILITY_BYTES
    }

    /// The first or second line of subscriber `s_id`.
    fn image_of_subscriber(&self, s_id: u64, second: bool) -> Line {
        let random = mix(s_id ^ self.seed.rotate_left(32));
        let more = mix(random);
        let at = self.subscriber_address(s_id);
        if second {
            let mut byte2 = [0; 16];
            byte2[..8].copy_from_slice(&mix(more).to_le_bytes());
            byte2[8..10].copy_from_slice(&more.to_le_bytes()[..2]);
            let rest = SubscriberRest { s_id, byte2, spare: [0; 3] };
            return self.seals.line(at + LINE_BYTES as u64, rest);
        }
        let subscriber = Subscriber {
            s_id,
            sub_nbr: digits(s_id),
            bits_and_hexes: random & 0x3ff | random >> 24 << 16,
            msc_location: more as u32,
            vlr_location: (more >> 32) as u32,
            commits: [0; 4],
        };
        self.seals.line(at, subscriber)
    }

    /// The facility row of a type, as it is at first.
    fn image_of_facility(&self, s_id: u64, sf_type: u64) -> Facility {
        let random = mix(mix(s_id ^ self.seed.rotate_left(16)) ^ sf_type);
        let [active, error_cntrl, data_a, b @ ..] = random.to_le_bytes();
        let exists = self.facility_types(s_id) >> (sf_type - 1) & 1;
        Facility {
            s_id,
            sf_type: sf_type as u8,
            exists,
            // TATP: active with probability 0.85.
            is_active: u8::from(active < 218),
            error_cntrl,
            data_a,
            spare: [0; 3],
            data_b: b.map(|byte| b'A' + byte % 26),
            spare_2: 0,
            commits: 0,
        }
    }

    /// Which types subscriber `s_id` has, a bit each: 1 to 4 of them, all choices alike.
    fn facility_types(&self, s_id: u64) -> u8 {
        let random = mix(s_id ^ self.seed.rotate_left(48));
        let one_of = |masks: &[u8]| masks[((random >> 8) % masks.len() as u64) as usize];
        match random % 4 {
            0 => one_of(&[0b0001, 0b0010, 0b0100, 0b1000]),
            1 => one_of(&[0b0011, 0b0101, 0b1001, 0b0110, 0b1010, 0b1100]),
            2 => one_of(&[0b0111, 0b1011, 0b1101, 0b1110]),
            _ => 0b1111,
        }
    }
}

/// `number` in 15 decimal digits, zero-padded: TATP's `sub_nbr`.
fn digits(number: u64) -> [u8; 16] {
    let mut rest = number;
    let mut text = [0; 16];
    for digit in text[..15].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text
}

#[cold]
fn half(s_id: u64) -> Wrong {
    Wrong(format!("subscriber {s_id} and its facilities disagree on the transactions they saw"))
}

impl Named for Tatp {
    const NAME: &'static str = "tatp";
    const DESCRIPTION: &'static str = "updates a telecom subscriber and one of its facilities";
    const MIX: &'static str =
        "1 UPDATE_SUBSCRIBER_DATA: 2 rows read, both written in 62.5% of jobs";
    const SOURCE: &'static str =
        "AstriFlash (HPCA'23) section V-A; columns from the TATP description";
    /// One page of each table.
    const MIN_BYTES: u64 = 2 * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Tatp {
        let pages_per_table = shape.dataset_bytes / Tatp::MIN_BYTES;
        let seed = mix(shape.seed);
        Tatp {
            pages_per_table,
            ranks: Ranks::new(pages_per_table * ROWS_PER_PAGE, shape.theta),
            places: Places::new(pages_per_table, ROWS_PER_PAGE, shape.scatter, seed),
            seals: Seals::new(Kind::Tatp, 2 * pages_per_table, shape.seed),
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Tatp {
    fn size_bytes(&self) -> u64 {
        self.pages_per_table * Tatp::MIN_BYTES
    }

    fn image(&self, page: PageId, out: &mut [u8; PAGE_BYTES]) {
        assert!(page.0 < 2 * self.pages_per_table, "{page:?} of {}", 2 * self.pages_per_table);
        let row = |page: u64, line: u64| page * ROWS_PER_PAGE + line / 2 + 1;
        match page.0.checked_sub(self.pages_per_table) {
            None => fill(out, |line| self.image_of_subscriber(row(page.0, line), line % 2 == 1)),
            Some(page) => fill(out, |line| {
                let s_id = row(page, line);
                let two: [[u64; 4]; 2] = std::array::from_fn(|i| {
                    let sf_type = line % 2 * 2 + i as u64 + 1;
                    let at = self.facility_address(s_id, sf_type);
                    self.close_facility(at, self.image_of_facility(s_id, sf_type))
                });
                bytemuck::cast(two)
            }),
        }
    }

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
        let update = self.job(job);
        memory.work(share(self.work, 0, 2));
        let _latch: u64 = memory.load(self.subscriber_address(update.s_id));
        memory.work(share(self.work, 1, 2));
        let _row: u64 = memory.load(self.facility_address(update.s_id, update.sf_type));
        self.update(memory, update).map(|_| ())
    }

    fn writes(&self) -> bool {
        true
    }
}
