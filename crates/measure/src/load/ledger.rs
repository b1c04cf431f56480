//! [`Ledger`]: which values a key may have, given what was written and what was acknowledged.
//!
//! Only one connection writes a key, in order, so the key's values have versions. A value contains
//! its key and version, and its other bytes follow from these. A read is right if its version lies
//! within two bounds. It is at least the newest version acknowledged before the read was sent. It
//! is at most the newest version sent before its reply came. If the load did not write the keys
//! first, they may have values of an earlier load until a write is acknowledged. Then any version
//! is accepted, and only the key and the bytes are checked.

use std::sync::atomic::{AtomicU32, Ordering};

use ebbtide_structures::hash::mix;

/// Bytes of a value for its key and version.
pub(super) const VALUE_BYTES_MIN: usize = 16;

/// Versions of all keys. 0 is a key that was never written.
pub(super) struct Ledger {
    /// By key: the newest version sent and the newest acknowledged.
    sent: Box<[AtomicU32]>,
    acknowledged: Box<[AtomicU32]>,
    value_bytes: (usize, usize),
    /// Of a thousand writes, how many are deletes.
    deletes: u64,
    /// Whether keys may have values of an earlier load.
    inherits: bool,
}

impl Ledger {
    /// A ledger of `keys` keys. Values have from `value_bytes.0` to `value_bytes.1` bytes, and of a
    /// thousand writes `deletes` are deletes. `inherits` says whether keys may have values of an
    /// earlier load.
    pub(super) fn new(
        keys: usize,
        value_bytes: (usize, usize),
        deletes: u64,
        inherits: bool,
    ) -> Ledger {
        let zeros = || (0..keys).map(|_| AtomicU32::new(0)).collect();
        Ledger { sent: zeros(), acknowledged: zeros(), value_bytes, deletes, inherits }
    }

    pub(super) fn keys(&self) -> usize {
        self.sent.len()
    }

    /// Counts a write that is about to be sent. Returns its version.
    pub(super) fn send(&self, key: usize) -> u32 {
        self.sent[key].fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Counts the reply to a write.
    pub(super) fn acknowledge(&self, key: usize, version: u32) {
        self.acknowledged[key].fetch_max(version, Ordering::SeqCst);
    }

    /// Returns the newest acknowledged version. A read that is sent now must not return an older
    /// one.
    pub(super) fn acknowledged(&self, key: usize) -> u32 {
        self.acknowledged[key].load(Ordering::SeqCst)
    }

    /// Whether a version is a delete.
    pub(super) fn is_delete(&self, key: usize, version: u32) -> bool {
        // The first version is what the fill writes.
        version > 1 && mix(mix(key as u64) ^ u64::from(version)) % 1000 < self.deletes
    }

    /// Writes the value of a version into `into`, which is emptied first.
    pub(super) fn value(&self, key: usize, version: u32, into: &mut Vec<u8>) {
        let (least, most) = self.value_bytes;
        let seed = seed(key, version);
        let length = least + (seed % (most - least + 1) as u64) as usize;
        value_of(key, version, length, into);
    }

    /// Checks that a read of `key` may return `value`, given the version acknowledged when it was
    /// sent.
    ///
    /// # Errors
    /// A line on what is wrong with it.
    pub(super) fn check(
        &self,
        key: usize,
        least: u32,
        value: Option<&[u8]>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), String> {
        let most = self.sent[key].load(Ordering::SeqCst);
        let Some(value) = value else { return self.check_there(key, least, false) };
        let (found_key, version) =
            key_and_version(value).ok_or_else(|| format!("key {key}: {}", short(value)))?;
        if found_key != key as u64 {
            return Err(format!("key {key}: the value of key {found_key}"));
        }
        let may_be_earlier = self.inherits && least == 0;
        if !may_be_earlier && (version < u64::from(least) || version > u64::from(most)) {
            return Err(format!("key {key}: version {version}, expected {least} to {most}"));
        }
        let version = version as u32;
        let was_written = if may_be_earlier {
            // An earlier load may have had other sizes and another share of deletes.
            value_of(key, version, value.len(), scratch);
            true
        } else {
            self.value(key, version, scratch);
            !self.is_delete(key, version)
        };
        if !was_written || scratch.as_slice() != value {
            return Err(format!("key {key}: version {version} with bytes that were never written"));
        }
        Ok(())
    }

    /// Checks that `key` may be there, or may be absent, given the version acknowledged when the
    /// question was sent.
    ///
    /// # Errors
    /// A line on what was expected.
    pub(super) fn check_there(&self, key: usize, least: u32, there: bool) -> Result<(), String> {
        let most = self.sent[key].load(Ordering::SeqCst);
        let absent = |version: u32| version == 0 || self.is_delete(key, version);
        let may_be_earlier = self.inherits && least == 0;
        if may_be_earlier || (least..=most).any(|version| absent(version) != there) {
            return Ok(());
        }
        let found = if there { "there" } else { "not there" };
        Err(format!("key {key}: {found}, expected version {least} to {most}"))
    }

    /// Checks a count of the writes of `key`, given the version acknowledged when it was asked for.
    ///
    /// # Errors
    /// A line on what was expected.
    pub(super) fn check_count(&self, key: usize, least: u32, count: i64) -> Result<(), String> {
        let most = self.sent[key].load(Ordering::SeqCst);
        if self.inherits && count >= 0 || (i64::from(least)..=i64::from(most)).contains(&count) {
            return Ok(());
        }
        Err(format!("key {key}: a count of {count}, expected {least} to {most}"))
    }

    /// Checks the count that a write of `key` returned.
    ///
    /// # Errors
    /// A line on what was expected.
    pub(super) fn check_own_count(
        &self,
        key: usize,
        version: u32,
        count: i64,
    ) -> Result<(), String> {
        if count == i64::from(version) || self.inherits && count > i64::from(version) {
            return Ok(());
        }
        Err(format!("key {key}: a count of {count}, expected {version}"))
    }

    /// Checks that a value was written at some time, by this load or an earlier one. Returns the
    /// number of its key.
    ///
    /// # Errors
    /// A line on what is wrong with it.
    pub(super) fn check_written(
        &self,
        value: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<usize, String> {
        let (key, version) = key_and_version(value).ok_or_else(|| short(value))?;
        let sent = self.sent.get(key as usize).map(|sent| sent.load(Ordering::SeqCst));
        value_of(key as usize, version as u32, value.len(), scratch);
        let was_sent = sent.is_some_and(|sent| self.inherits || version <= u64::from(sent));
        if !was_sent || scratch.as_slice() != value {
            return Err(format!("key {key}: version {version} with bytes that were never written"));
        }
        Ok(key as usize)
    }
}

/// Returns the key and the version that a value contains. `None` if it is too short.
fn key_and_version(value: &[u8]) -> Option<(u64, u64)> {
    let (key, rest) = value.split_first_chunk()?;
    Some((u64::from_le_bytes(*key), u64::from_le_bytes(*rest.first_chunk()?)))
}

/// What is wrong with a value without a key and a version.
fn short(value: &[u8]) -> String {
    format!("a value of {} bytes", value.len())
}

/// Seed of the bytes of a version.
fn seed(key: usize, version: u32) -> u64 {
    mix(key as u64 ^ u64::from(version) << 40)
}

/// Writes `length` bytes of a version into `into`, which is emptied first.
fn value_of(key: usize, version: u32, length: usize, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&(key as u64).to_le_bytes());
    into.extend_from_slice(&u64::from(version).to_le_bytes());
    let mut state = seed(key, version);
    while into.len() < length {
        state = mix(state);
        into.extend_from_slice(&state.to_le_bytes());
    }
    into.truncate(length);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_right_only_within_what_was_acknowledged_and_sent() {
        let ledger = Ledger::new(10, (16, 40), 0, false);
        let (mut value, mut scratch) = (Vec::new(), Vec::new());
        assert!(ledger.check(3, 0, None, &mut scratch).is_ok(), "never written");
        for version in 1..=3 {
            assert_eq!(ledger.send(3), version);
        }
        ledger.acknowledge(3, 1);
        let mut check = |version: u32, least: u32| {
            ledger.value(3, version, &mut value);
            ledger.check(3, least, Some(&value), &mut scratch)
        };
        assert!(check(1, 1).is_ok() && check(3, 1).is_ok());
        assert!(check(1, 2).is_err(), "older than one acknowledged before");
        assert!(check(4, 1).is_err(), "never sent");
        assert!(ledger.check(3, 1, None, &mut scratch).is_err(), "lost");
        ledger.value(4, 1, &mut value);
        assert!(ledger.check(3, 1, Some(&value), &mut scratch).is_err(), "another key's");
        ledger.value(3, 2, &mut value);
        *value.last_mut().unwrap() ^= 1;
        assert!(ledger.check(3, 1, Some(&value), &mut scratch).is_err(), "one bit is wrong");
        assert!(ledger.check(3, 1, Some(b"short"), &mut scratch).is_err());
    }

    #[test]
    fn an_absent_key_is_right_if_a_delete_may_have_been_the_last_write() {
        let ledger = Ledger::new(1, (16, 16), 500, false);
        let mut scratch = Vec::new();
        let mut versions = 0;
        while versions < 50 {
            versions = ledger.send(0);
        }
        let deletes: Vec<u32> = (1..=50).filter(|v| ledger.is_delete(0, *v)).collect();
        assert!((10..40).contains(&deletes.len()));
        let last = deletes[deletes.len() - 1];
        assert!(ledger.check(0, last, None, &mut scratch).is_ok());
        if last < 50 {
            assert!(ledger.check(0, last + 1, None, &mut scratch).is_err());
        }
        let mut value = Vec::new();
        ledger.value(0, last, &mut value);
        assert!(ledger.check(0, 1, Some(&value), &mut scratch).is_err(), "it was a delete");
    }

    #[test]
    fn what_an_earlier_load_wrote_is_right_until_a_write_is_acknowledged() {
        let (earlier, ledger) =
            (Ledger::new(2, (100, 100), 0, false), Ledger::new(2, (16, 40), 500, true));
        let (mut value, mut scratch) = (Vec::new(), Vec::new());
        earlier.value(0, 7, &mut value);
        let mut check =
            |key, least, value: Option<&[u8]>| ledger.check(key, least, value, &mut scratch);
        assert!(check(0, 0, Some(&value)).is_ok() && check(0, 0, None).is_ok());
        assert!(check(1, 0, Some(&value)).is_err(), "another key's");
        ledger.send(0);
        assert!(check(0, 0, Some(&value)).is_ok(), "the write may not have come yet");
        ledger.acknowledge(0, 1);
        assert!(check(0, 1, Some(&value)).is_err(), "it was overwritten");
        assert!(check(0, 1, None).is_err(), "the write is lost");
        *value.last_mut().unwrap() ^= 1;
        assert!(check(0, 0, Some(&value)).is_err(), "one bit is wrong");
    }
}
