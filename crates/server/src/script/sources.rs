//! [`Sources`]: the scripts that clients have sent, by their SHA-1.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxBuildHasher;
use sha1::{Digest, Sha1};

use crate::failure::Failure;

/// DRAM bytes of a script apart from its text.
const SOURCE_BYTES: usize = 256;

/// The SHA-1 of a script, as 40 hexadecimal digits in lower case.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sha([u8; 40]);

impl Sha {
    /// Returns the SHA-1 of a text.
    pub(crate) fn of(text: &[u8]) -> Sha {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut digits = [0; 40];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(Sha1::digest(text)) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        Sha(digits)
    }

    /// Returns a SHA-1 that a client has sent, in any case. `None` if its length is wrong.
    pub(crate) fn given(text: &[u8]) -> Option<Sha> {
        let mut digits: [u8; 40] = text.try_into().ok()?;
        digits.make_ascii_lowercase();
        Some(Sha(digits))
    }

    /// Returns the digits.
    pub(crate) fn digits(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A script.
#[derive(Debug)]
pub(crate) struct Source {
    /// Its SHA-1.
    pub(crate) sha: Sha,
    /// Its text. A line `#!lua` at the start is empty.
    pub(crate) text: Vec<u8>,
    /// True if it may not call commands that change keys.
    pub(crate) reads_only: bool,
    /// True if it may use keys of several slots of a cluster's node.
    pub(crate) crosses_slots: bool,
    /// True if it may not run in a cluster.
    pub(crate) stands_alone: bool,
    /// True if it has accessed a key that it did not declare.
    wide: AtomicBool,
}

impl Source {
    /// Returns the script of a text.
    ///
    /// # Errors
    /// Returns an error if its first line begins with `#!` and is not understood.
    pub(crate) fn new(text: &[u8]) -> Result<Source, Failure> {
        let sha = Sha::of(text);
        let mut source = Source {
            sha,
            text: text.to_vec(),
            reads_only: false,
            // As in Redis, a script without a line of flags may.
            crosses_slots: true,
            stands_alone: false,
            wide: AtomicBool::new(false),
        };
        if text.starts_with(b"#!") {
            let end = memchr::memchr(b'\n', text).ok_or("ERR Invalid script shebang")?;
            source.text.drain(..end);
            source.crosses_slots = false;
            source.set_flags(&String::from_utf8_lossy(&text[..end]))?;
        }
        Ok(source)
    }

    /// Sets the flags of its first line.
    fn set_flags(&mut self, line: &str) -> Result<(), Failure> {
        let mut words = line.split_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(format!("ERR Unexpected engine in script shebang: {engine}").into());
        }
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(format!("ERR Unknown lua shebang option: {word}").into());
            };
            for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
                match flag {
                    "no-writes" => self.reads_only = true,
                    "no-cluster" => self.stands_alone = true,
                    "allow-cross-slot-keys" => self.crosses_slots = true,
                    "allow-oom" | "allow-stale" => {}
                    _ => {
                        return Err(format!("ERR Unexpected flag in script shebang: {flag}").into());
                    }
                }
            }
        }
        Ok(())
    }

    /// True if it has accessed a key that it did not declare. It then runs alone.
    pub(crate) fn is_wide(&self) -> bool {
        self.wide.load(Ordering::Relaxed)
    }

    /// Records that it has accessed a key that it did not declare.
    pub(crate) fn set_wide(&self) {
        self.wide.store(true, Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.text.len() + SOURCE_BYTES
    }
}

/// The scripts that clients have sent.
#[derive(Debug, Default)]
pub(crate) struct Sources(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Each script, with the number of its last use.
    scripts: HashMap<Sha, (Arc<Source>, u64), FxBuildHasher>,
    bytes: usize,
    uses: u64,
}

impl Sources {
    /// Returns the script of a SHA-1.
    pub(crate) fn find(&self, sha: &Sha) -> Option<Arc<Source>> {
        let mut known = self.0.lock();
        known.uses += 1;
        let now = known.uses;
        known.scripts.get_mut(sha).map(|(source, used)| {
            *used = now;
            source.clone()
        })
    }

    /// Adds a script. Forgets those that were not used for longest while all take more than
    /// `bytes_max`. Clients send a forgotten script again.
    pub(crate) fn add(&self, source: Arc<Source>, bytes_max: usize) {
        let mut known = self.0.lock();
        known.uses += 1;
        let now = known.uses;
        known.bytes += source.bytes();
        let sha = source.sha;
        if let Some((before, _)) = known.scripts.insert(sha, (source, now)) {
            known.bytes -= before.bytes();
        }
        while known.bytes > bytes_max && known.scripts.len() > 1 {
            let others = known.scripts.iter().filter(|(of, _)| **of != sha);
            let oldest = others.min_by_key(|(_, (_, used))| *used).map(|(sha, _)| *sha);
            let Some((gone, _)) = oldest.and_then(|sha| known.scripts.remove(&sha)) else { break };
            known.bytes -= gone.bytes();
        }
    }

    /// Forgets all scripts.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Known::default();
    }

    /// Number of scripts and their bytes.
    pub(crate) fn size(&self) -> (usize, usize) {
        let known = self.0.lock();
        (known.scripts.len(), known.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_has_its_flags() {
        let flags = |text: &str| {
            let source = Source::new(text.as_bytes())?;
            assert_eq!(source.text.trim_ascii_start(), b"return 1");
            let flags = [source.reads_only, source.crosses_slots, source.stands_alone];
            Ok::<_, Failure>(flags)
        };
        assert_eq!(flags("return 1"), Ok([false, true, false]));
        assert_eq!(flags("#!lua\nreturn 1"), Ok([false; 3]));
        assert_eq!(flags("#!lua flags=no-writes,allow-stale\nreturn 1"), Ok([true, false, false]));
        assert_eq!(
            flags("#!lua flags=no-cluster,allow-cross-slot-keys\nreturn 1"),
            Ok([false, true, true])
        );
        for (text, error) in [
            ("#!lua", "ERR Invalid script shebang"),
            ("#!js\n", "ERR Unexpected engine in script shebang: #!js"),
            ("#!lua x=1\n", "ERR Unknown lua shebang option: x=1"),
            ("#!lua flags=x\n", "ERR Unexpected flag in script shebang: x"),
        ] {
            assert_eq!(flags(text), Err(error.into()), "{text}");
        }
    }

    #[test]
    fn the_scripts_that_were_not_used_for_longest_are_forgotten() {
        let sources = Sources::default();
        let source = |text: &str| Arc::new(Source::new(text.as_bytes()).expect("it is plain"));
        let [one, two, three] = ["return 1", "return 2", "return 3"].map(source);
        let room = 2 * one.bytes();
        sources.add(one.clone(), room);
        sources.add(two.clone(), room);
        assert!(sources.find(&one.sha).is_some());
        sources.add(three.clone(), room);
        assert!(sources.find(&two.sha).is_none());
        assert!(sources.find(&one.sha).is_some() && sources.find(&three.sha).is_some());
        assert_eq!(sources.size(), (2, room));
        sources.clear();
        assert_eq!(sources.size(), (0, 0));
    }
}
