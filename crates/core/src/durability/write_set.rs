//! [`WriteSet`]: the stores of a transaction that no other job sees yet.

use std::collections::BTreeMap;

use crate::addr::{Addr, LINE_BYTES, PageId};

const WORD: usize = 8;
const WORDS_PER_LINE: usize = LINE_BYTES / WORD;

/// The stored bytes of one line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    words: [u64; WORDS_PER_LINE],
    /// Which bytes of each word were stored: bit `n` is byte `n`.
    stored: [u8; WORDS_PER_LINE],
}

/// All bytes of a word.
const WHOLE: u8 = u8::MAX;

/// A word that was stored, as a whole or in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredWord {
    /// Where it is.
    pub at: Addr,
    /// Its bytes. [`WriteSet::complete`] fills in those that were not stored.
    pub word: u64,
    /// Which bytes were stored: bit `n` is byte `n`.
    stored: u8,
}

impl StoredWord {
    /// Returns true if all of it was stored.
    pub fn is_whole(&self) -> bool {
        self.stored == WHOLE
    }

    /// Returns the word with the stored bytes put over `old`.
    pub fn over(&self, old: u64) -> u64 {
        let mask = mask(self.stored);
        old & !mask | self.word & mask
    }
}

/// Returns the bit mask of the bytes that `stored` names.
fn mask(stored: u8) -> u64 {
    let bytes: [u8; WORD] =
        std::array::from_fn(|byte| if stored & 1 << byte != 0 { 0xff } else { 0 });
    u64::from_ne_bytes(bytes)
}

/// Lines that lie in one sorted list. A new line among more of them would move too many.
const LISTED_MAX: usize = 512;

/// Words stored by a transaction, by address.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    /// Lines by number, sorted. Most transactions store to few lines, mostly in order.
    lines: Vec<(u64, Line)>,
    /// Lines by number, instead of the list, if there are many.
    many: BTreeMap<u64, Line>,
    words: usize,
    /// True if some words may be stored in part.
    has_parts: bool,
}

impl WriteSet {
    /// Returns the bytes of DRAM that hold `bytes` bytes of stores which fill their lines.
    pub const fn dram_bytes(bytes: usize) -> usize {
        bytes / LINE_BYTES * (size_of::<(u64, Line)>() * 4 / 3)
    }

    /// Returns the bytes of all stored words. A word stored in part counts as a whole.
    pub fn bytes(&self) -> usize {
        self.words * WORD
    }

    /// Returns true if nothing was stored.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.many = BTreeMap::new();
        self.words = 0;
        self.has_parts = false;
    }

    /// Stores `bytes`, whole words that lie within one line, at `at`.
    pub fn store(&mut self, at: Addr, bytes: &[u8]) {
        debug_assert!(at.0.is_multiple_of(WORD as u64) && bytes.len().is_multiple_of(WORD));
        debug_assert!(at.0 as usize % LINE_BYTES + bytes.len() <= LINE_BYTES);
        let first = at.0 as usize % LINE_BYTES / WORD;
        let mut words = 0;
        let line = self.line_to_store(at);
        for (index, word) in (first..).zip(bytes.as_chunks::<WORD>().0) {
            words += usize::from(line.stored[index] == 0);
            line.stored[index] = WHOLE;
            line.words[index] = u64::from_ne_bytes(*word);
        }
        self.words += words;
    }

    /// Stores `bytes`, any that lie within one word, at `at`. The other bytes of the word keep
    /// their values, including stores of other jobs before this takes effect.
    pub fn store_part(&mut self, at: Addr, bytes: &[u8]) {
        let first = at.0 as usize % WORD;
        debug_assert!(first + bytes.len() <= WORD && !bytes.is_empty());
        let index = at.0 as usize % LINE_BYTES / WORD;
        let line = self.line_to_store(at);
        let is_new = line.stored[index] == 0;
        let mut word = line.words[index].to_ne_bytes();
        word[first..first + bytes.len()].copy_from_slice(bytes);
        line.words[index] = u64::from_ne_bytes(word);
        line.stored[index] |= (u16::from(WHOLE) >> (WORD - bytes.len()) << first) as u8;
        self.words += usize::from(is_new);
        self.has_parts = true;
    }

    /// Completes the words that were stored only in part, since the log has whole words. The other
    /// bytes come from `load`, which reads the word in memory.
    pub fn complete(&mut self, mut load: impl FnMut(Addr) -> u64) {
        if !self.has_parts {
            return;
        }
        let listed = self.lines.iter_mut().map(|(number, line)| (&*number, line));
        for (number, line) in listed.chain(&mut self.many) {
            for index in 0..WORDS_PER_LINE {
                if ![0, WHOLE].contains(&line.stored[index]) {
                    let old = load(word_address(*number, index));
                    let mask = mask(line.stored[index]);
                    line.words[index] = old & !mask | line.words[index] & mask;
                }
            }
        }
    }

    /// Copies the stored bytes over `bytes`, which were read from `at` on. The range may begin
    /// anywhere and span any number of lines.
    pub fn overlay(&self, at: Addr, bytes: &mut [u8]) {
        let end = at.0 + bytes.len() as u64;
        let numbers = at.0 / LINE_BYTES as u64..end.div_ceil(LINE_BYTES as u64);
        let first = self.place(numbers.start).unwrap_or_else(|place| place);
        let listed = self.lines[first..].iter().map(|(number, line)| (number, line));
        let listed = listed.take_while(|(number, _)| **number < numbers.end);
        for (number, line) in listed.chain(self.many.range(numbers.clone())) {
            for index in (0..WORDS_PER_LINE).filter(|index| line.stored[*index] != 0) {
                let (start, word) =
                    (word_address(*number, index).0, line.words[index].to_ne_bytes());
                let is_within = start >= at.0 && start + WORD as u64 <= end;
                if is_within && line.stored[index] == WHOLE {
                    bytes[(start - at.0) as usize..][..WORD].copy_from_slice(&word);
                    continue;
                }
                for (place, (bit, byte)) in (start..).zip(word.iter().enumerate()) {
                    if line.stored[index] & 1 << bit != 0 && (at.0..end).contains(&place) {
                        bytes[(place - at.0) as usize] = *byte;
                    }
                }
            }
        }
    }

    /// The line of `at`, to be stored to.
    fn line_to_store(&mut self, at: Addr) -> &mut Line {
        let number = at.0 / LINE_BYTES as u64;
        if self.lines.len() == LISTED_MAX && self.place(number).is_err() {
            self.many = std::mem::take(&mut self.lines).into_iter().collect();
        }
        if !self.many.is_empty() {
            return self.many.entry(number).or_default();
        }
        let place = self.place(number).unwrap_or_else(|place| {
            self.lines.insert(place, (number, Line::default()));
            place
        });
        &mut self.lines[place].1
    }

    /// Returns the index of the line, or the index to insert it at.
    fn place(&self, number: u64) -> Result<usize, usize> {
        match self.lines.last() {
            Some((last, _)) if *last < number => Err(self.lines.len()),
            _ => self.lines.binary_search_by_key(&number, |(number, _)| *number),
        }
    }

    fn line(&self, at: Addr) -> Option<&Line> {
        let number = at.0 / LINE_BYTES as u64;
        if !self.many.is_empty() {
            return self.many.get(&number);
        }
        let place = self.place(number).ok()?;
        Some(&self.lines[place].1)
    }

    /// Returns true if the word at `at` was stored as a whole.
    pub fn holds(&self, at: Addr) -> bool {
        let index = at.0 as usize % LINE_BYTES / WORD;
        self.line(at).is_some_and(|line| line.stored[index] == WHOLE)
    }

    /// All lines in the order of their numbers.
    fn all(&self) -> impl Iterator<Item = (&u64, &Line)> {
        self.lines.iter().map(|(number, line)| (number, line)).chain(&self.many)
    }

    /// Every word that was stored, in the order of addresses.
    pub fn words(&self) -> impl Iterator<Item = StoredWord> {
        self.all().flat_map(|(number, line)| {
            let stored = (0..WORDS_PER_LINE).filter(|index| line.stored[*index] != 0);
            stored.map(move |index| StoredWord {
                at: word_address(*number, index),
                word: line.words[index],
                stored: line.stored[index],
            })
        })
    }

    /// The pages it stores to, in order.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        let mut last = None;
        self.all().filter_map(move |(&number, _)| {
            let page = Addr(number * LINE_BYTES as u64).page();
            (last.replace(page) != Some(page)).then_some(page)
        })
    }
}

fn word_address(line: u64, index: usize) -> Addr {
    Addr(line * LINE_BYTES as u64 + (index * WORD) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn its_own_stores_lie_over_what_is_loaded_and_nothing_else_does() {
        let mut set = WriteSet::default();
        set.store(Addr(72), &[1; 16]);
        let mut line = [9u8; 64];
        set.overlay(Addr(64), &mut line);
        assert_eq!(
            (&line[..8], &line[8..24], &line[24..]),
            (&[9; 8][..], &[1; 16][..], &[9; 40][..])
        );
        let mut other = [9u8; 8];
        set.overlay(Addr(128), &mut other);
        assert_eq!(other, [9; 8]);
        assert_eq!(set.bytes(), 16);
    }

    #[test]
    fn bytes_beside_a_part_of_a_word_are_those_in_memory() {
        let mut set = WriteSet::default();
        set.store_part(Addr(66), &[1; 3]);
        set.store_part(Addr(68), &[2; 3]);
        assert_eq!((set.bytes(), set.holds(Addr(64))), (8, false));
        let mut loaded = [9; 8];
        set.overlay(Addr(64), &mut loaded);
        assert_eq!(loaded, [9, 9, 1, 1, 2, 2, 2, 9]);
        let mut some = [9; 4];
        set.overlay(Addr(67), &mut some);
        assert_eq!(some, [1, 2, 2, 2], "a range may begin and end within a word");
        set.complete(|at| u64::from_ne_bytes([at.0 as u8; 8]));
        let word = set.words().next().expect("one was stored");
        assert_eq!(word.word.to_ne_bytes(), [64, 64, 1, 1, 2, 2, 2, 64]);
        assert_eq!(word.over(0).to_ne_bytes(), [0, 0, 1, 1, 2, 2, 2, 0]);
        set.store_part(Addr(64), &[3; 2]);
        set.store_part(Addr(71), &[4]);
        assert!(set.holds(Addr(64)) && set.words().all(|word| word.is_whole()));
    }

    proptest! {
        /// Against the obvious model: a map of words. Also shows them in any range of bytes.
        #[test]
        fn it_holds_the_last_word_stored_at_each_address(
            stores in prop::collection::vec((0u64..20_000, 1usize..9, any::<u64>()), 0..3000),
            range in (0usize..160_000, 0usize..160_000),
        ) {
            let (mut set, mut model) = (WriteSet::default(), BTreeMap::new());
            for (word, count, value) in stores {
                let count = count.min(WORDS_PER_LINE - word as usize % WORDS_PER_LINE);
                let bytes: Vec<u8> = (0..count as u64)
                    .flat_map(|index| {
                        model.insert(Addr((word + index) * 8), value ^ index);
                        (value ^ index).to_ne_bytes()
                    })
                    .collect();
                set.store(Addr(word * 8), &bytes);
            }
            prop_assert_eq!(set.bytes(), model.len() * 8);
            let mut bytes = [0xee; 20_010 * WORD];
            let (from, to) = range;
            set.overlay(Addr(from as u64), &mut bytes[from..to.max(from)]);
            for (at, byte) in bytes.iter().enumerate() {
                let stored = model.get(&Addr((at / WORD * WORD) as u64)).map(|word| word.to_ne_bytes());
                let stored = stored.filter(|_| (from..to).contains(&at));
                prop_assert_eq!(*byte, stored.map_or(0xee, |word| word[at % WORD]));
            }
            let mut pages: Vec<PageId> = model.keys().map(|at| at.page()).collect();
            pages.dedup();
            prop_assert_eq!(set.pages().collect::<Vec<_>>(), pages);
            prop_assert!(set.words().map(|stored| (stored.at, stored.word)).eq(model));
        }
    }
}
