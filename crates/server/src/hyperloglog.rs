//! [`HyperLogLog`]: estimates how many different elements were added, in the strings of Redis.
//!
//! An element has a hash. 14 bits of it name one of 16,384 registers. A register has the greatest
//! rank of its elements: the number of zeros at the end of the other 50 bits, plus one. A string is
//! dense, with 6 bits for each register, or sparse, with runs of equal registers. The estimator is
//! algorithm 6 of Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017.

/// Bits of a hash that name a register.
const INDEX_BITS: u32 = 14;

/// Number of registers.
const REGISTERS: usize = 1 << INDEX_BITS;

/// Bits of a hash that give the rank.
const RANK_BITS: usize = 64 - INDEX_BITS as usize;

/// The first bytes of a string.
const MAGIC: &[u8] = b"HYLL";

/// Bytes before the registers: the magic, the form, three zeros, and a count.
const HEADER_BYTES: usize = 16;

/// Index of the byte with the form.
const FORM_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Index of the bytes of the last count. The top bit of the last one says that it is old.
const COUNT_AT: usize = 8;
const OLD: u8 = 1 << 7;

const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;

/// A longer sparse string becomes dense. It is the default of Redis.
const SPARSE_BYTES_MAX: usize = 3_000;

/// The greatest value, and the longest runs, in a sparse string.
const SPARSE_VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
const ZEROS_MAX: usize = 64;
const LONG_ZEROS_MAX: usize = 1 << 14;

const HASH_SEED: u64 = 0xadc8_3b19;

/// The string has the head of a [`HyperLogLog`], and its registers make no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// A string of Redis that estimates how many different elements were added.
#[derive(Debug, Clone)]
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

/// A run of equal registers in a sparse string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    value: u8,
    length: usize,
}

impl Run {
    fn zeros(length: usize) -> Run {
        Run { value: 0, length }
    }

    /// Decodes the run at the start of `bytes`. Returns it and its bytes.
    fn decode(bytes: &[u8]) -> Option<(Run, usize)> {
        let first = *bytes.first()?;
        Some(match first >> 6 {
            0 => (Run::zeros(usize::from(first) + 1), 1),
            1 => {
                let length = usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?);
                (Run::zeros(length + 1), 2)
            }
            _ => {
                let (value, length) = ((first >> 2 & 0x1f) + 1, usize::from(first & 3) + 1);
                (Run { value, length }, 1)
            }
        })
    }

    /// Appends the run, unless it is empty.
    fn encode(self, bytes: &mut Vec<u8>) {
        let Some(less) = self.length.checked_sub(1) else { return };
        match self.value.checked_sub(1) {
            Some(value) => bytes.push(1 << 7 | value << 2 | less as u8),
            None if self.length > ZEROS_MAX => {
                bytes.extend_from_slice(&[1 << 6 | (less >> 8) as u8, less as u8]);
            }
            None => bytes.push(less as u8),
        }
    }
}

impl Default for HyperLogLog {
    fn default() -> HyperLogLog {
        let mut bytes = MAGIC.to_vec();
        bytes.push(SPARSE);
        bytes.resize(HEADER_BYTES, 0);
        Run::zeros(LONG_ZEROS_MAX).encode(&mut bytes);
        HyperLogLog { bytes }
    }
}

impl HyperLogLog {
    /// Returns the string as a [`HyperLogLog`]; `None` if it has not the head of one.
    pub fn parse(bytes: Vec<u8>) -> Option<HyperLogLog> {
        let fits = match *bytes.get(FORM_AT)? {
            DENSE => bytes.len() == DENSE_BYTES,
            SPARSE => bytes.len() >= HEADER_BYTES,
            _ => false,
        };
        (fits && bytes.starts_with(MAGIC)).then_some(HyperLogLog { bytes })
    }

    /// The string.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if it has 6 bits for each register.
    pub fn is_dense(&self) -> bool {
        self.bytes[FORM_AT] == DENSE
    }

    /// Adds an element. Returns true if a register has changed.
    ///
    /// # Errors
    /// Returns an error if the registers make no sense.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Corrupt> {
        let hash = murmur(element);
        let index = hash as usize % REGISTERS;
        let rank = (hash >> INDEX_BITS | 1 << RANK_BITS).trailing_zeros() + 1;
        self.raise(index, rank as u8)
    }

    /// Marks the count in the string as old.
    pub fn forget_count(&mut self) {
        self.bytes[COUNT_AT + 7] |= OLD;
    }

    /// Raises a register. Returns true if it was less.
    ///
    /// # Errors
    /// As [`add`](HyperLogLog::add).
    pub fn raise(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        if self.is_dense() {
            return Ok(self.raise_dense(index, value));
        }
        if value <= SPARSE_VALUE_MAX
            && let Some(raised) = self.raise_sparse(index, value)?
        {
            return Ok(raised);
        }
        self.make_dense()?;
        Ok(self.raise_dense(index, value))
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        let registers = &mut self.bytes[HEADER_BYTES..];
        if register(registers, index) >= value {
            return false;
        }
        let (at, shift) = (index * 6 / 8, index * 6 % 8);
        let put = |byte: &mut u8, mask: u16, bits: u16| {
            *byte = *byte & !(mask as u8) | bits as u8;
        };
        let (mask, bits) = (0x3f_u16 << shift, u16::from(value) << shift);
        put(&mut registers[at], mask, bits);
        if let Some(next) = registers.get_mut(at + 1) {
            put(next, mask >> 8, bits >> 8);
        }
        true
    }

    /// Raises a register of a sparse string; `None` if that must become dense.
    fn raise_sparse(&mut self, index: usize, value: u8) -> Result<Option<bool>, Corrupt> {
        // The place of the run before, of the run with the register, and its first register.
        let (mut before, mut at, mut first) = (HEADER_BYTES, HEADER_BYTES, 0);
        let (old, width) = loop {
            let (run, width) = Run::decode(&self.bytes[at..]).ok_or(Corrupt)?;
            if index < first + run.length {
                break (run, width);
            }
            (before, at, first) = (at, at + width, first + run.length);
        };
        if old.value >= value {
            return Ok(Some(false));
        }
        let mut new = Vec::with_capacity(5);
        Run { length: index - first, ..old }.encode(&mut new);
        Run { value, length: 1 }.encode(&mut new);
        Run { length: first + old.length - 1 - index, ..old }.encode(&mut new);
        if new.len() > width && self.bytes.len() + new.len() - width > SPARSE_BYTES_MAX {
            return Ok(None);
        }
        self.bytes.splice(at..at + width, new);
        self.join(before);
        self.forget_count();
        Ok(Some(true))
    }

    /// Joins equal neighbours among the runs from `at` on, as far as Redis does.
    fn join(&mut self, mut at: usize) {
        for _ in 0..5 {
            let Some((run, width)) = Run::decode(&self.bytes[at..]) else { return };
            let next = Run::decode(&self.bytes[at + width..]).map(|(next, _)| next);
            let length = run.length + next.map_or(0, |next| next.length);
            if run.value > 0
                && next.is_some_and(|next| next.value == run.value)
                && length <= VALUES_MAX
            {
                let mut joined = Vec::with_capacity(1);
                Run { length, ..run }.encode(&mut joined);
                self.bytes.splice(at..at + 2, joined);
            } else {
                at += width;
            }
        }
    }

    /// Makes a sparse string dense.
    ///
    /// # Errors
    /// As [`add`](HyperLogLog::add).
    pub fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.is_dense() {
            return Ok(());
        }
        let mut registers = Registers::default();
        registers.merge(self)?;
        self.bytes.truncate(HEADER_BYTES);
        self.bytes.resize(DENSE_BYTES, 0);
        self.bytes[FORM_AT] = DENSE;
        for (index, value) in registers.0.iter().enumerate() {
            self.raise_dense(index, *value);
        }
        Ok(())
    }

    /// Returns the estimated number of elements.
    ///
    /// # Errors
    /// As [`add`](HyperLogLog::add).
    pub fn count(&self) -> Result<u64, Corrupt> {
        let mut count = [0; 8];
        count.copy_from_slice(&self.bytes[COUNT_AT..HEADER_BYTES]);
        if count[7] & OLD == 0 {
            return Ok(u64::from_le_bytes(count));
        }
        let mut registers = Registers::default();
        registers.merge(self)?;
        Ok(registers.count())
    }
}

/// Returns a register of a dense string.
fn register(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = (index * 6 / 8, index * 6 % 8);
    let next = registers.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[at], next]) >> shift) as u8 & 0x3f
}

/// The registers of one string or several.
#[derive(Debug)]
pub struct Registers(Box<[u8]>);

impl Default for Registers {
    fn default() -> Registers {
        Registers(vec![0; REGISTERS].into())
    }
}

impl Registers {
    /// Raises the registers to those of a string.
    ///
    /// # Errors
    /// Returns an error if the registers of the string make no sense.
    pub fn merge(&mut self, other: &HyperLogLog) -> Result<(), Corrupt> {
        let mut rest = &other.bytes[HEADER_BYTES..];
        if other.is_dense() {
            for (index, own) in self.0.iter_mut().enumerate() {
                *own = register(rest, index).max(*own);
            }
            return Ok(());
        }
        let mut first = 0;
        while !rest.is_empty() {
            let (run, width) = Run::decode(rest).ok_or(Corrupt)?;
            let covered = self.0.get_mut(first..first + run.length).ok_or(Corrupt)?;
            covered.iter_mut().for_each(|own| *own = run.value.max(*own));
            (rest, first) = (&rest[width..], first + run.length);
        }
        if first == REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    /// Returns the registers that are not zero, with their indexes.
    pub fn raised(&self) -> impl Iterator<Item = (usize, u8)> {
        self.0.iter().copied().enumerate().filter(|(_, value)| *value > 0)
    }

    /// Returns the estimated number of elements.
    pub fn count(&self) -> u64 {
        // 1 / (2 ln 2).
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let registers = REGISTERS as f64;
        let mut with = [0_u32; 64];
        self.0.iter().for_each(|value| with[usize::from(*value)] += 1);
        let greatest = f64::from(with[RANK_BITS + 1]);
        let mut sum = registers * tau((registers - greatest) / registers);
        for value in (1..=RANK_BITS).rev() {
            sum = (sum + f64::from(with[value])) * 0.5;
        }
        sum += registers * sigma(f64::from(with[0]) / registers);
        (ALPHA * registers * registers / sum).round() as u64
    }
}

/// x + Σ x^(2^k) · 2^(k-1) over k from 1 on.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut factor, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - Σ (1 - x^(2^-k))² · 2^-k over k from 1 on) / 3.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut factor, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x).powi(2) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

/// `MurmurHash64A` by Austin Appleby.
fn murmur(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = HASH_SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}
