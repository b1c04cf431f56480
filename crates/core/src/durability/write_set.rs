//! [`WriteSet`]: what a transaction has stored and nobody else sees yet.

use crate::addr::{Addr, LINE_BYTES, PageId};

const WORD: usize = 8;
const WORDS_PER_LINE: usize = LINE_BYTES / WORD;

/// The words that were stored within one line.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    words: [u64; WORDS_PER_LINE],
    /// Which of them, a bit each.
    stored: u8,
}

/// Words stored by a transaction, by address.
#[derive(Clone, Debug, Default)]
pub struct WriteSet {
    /// By their numbers, in order. A transaction stores to few, mostly one after the other.
    lines: Vec<(u64, Line)>,
    words: usize,
}

impl WriteSet {
    /// Bytes of all words that were stored.
    pub fn bytes(&self) -> usize {
        self.words * WORD
    }

    /// Whether nothing was stored.
    pub fn is_empty(&self) -> bool {
        self.words == 0
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.words = 0;
    }

    /// Stores `bytes`, whole words that lie within one line, at `at`.
    pub fn store(&mut self, at: Addr, bytes: &[u8]) {
        debug_assert!(at.0.is_multiple_of(WORD as u64) && bytes.len().is_multiple_of(WORD));
        debug_assert!(at.0 as usize % LINE_BYTES + bytes.len() <= LINE_BYTES);
        let number = at.0 / LINE_BYTES as u64;
        let place = self.place(number).unwrap_or_else(|place| {
            self.lines.insert(place, (number, Line::default()));
            place
        });
        let line = &mut self.lines[place].1;
        let first = at.0 as usize % LINE_BYTES / WORD;
        for (index, word) in (first..).zip(bytes.as_chunks::<WORD>().0) {
            self.words += usize::from(line.stored & 1 << index == 0);
            line.stored |= 1 << index;
            line.words[index] = u64::from_ne_bytes(*word);
        }
    }

    /// Puts the words that were stored over `bytes`, which were loaded from `at` and lie within one
    /// line.
    pub fn overlay(&self, at: Addr, bytes: &mut [u8]) {
        let Some(line) = self.line(at) else { return };
        let first = at.0 as usize % LINE_BYTES / WORD;
        for (index, word) in (first..).zip(bytes.as_chunks_mut::<WORD>().0) {
            if line.stored & 1 << index != 0 {
                *word = line.words[index].to_ne_bytes();
            }
        }
    }

    /// Where the line is, or would have to be.
    fn place(&self, number: u64) -> Result<usize, usize> {
        match self.lines.last() {
            Some((last, _)) if *last < number => Err(self.lines.len()),
            _ => self.lines.binary_search_by_key(&number, |(number, _)| *number),
        }
    }

    fn line(&self, at: Addr) -> Option<&Line> {
        let place = self.place(at.0 / LINE_BYTES as u64).ok()?;
        Some(&self.lines[place].1)
    }

    /// Whether the word at `at` was stored.
    pub fn holds(&self, at: Addr) -> bool {
        let index = at.0 as usize % LINE_BYTES / WORD;
        self.line(at).is_some_and(|line| line.stored & 1 << index != 0)
    }

    /// Every word with its address, in the order of addresses.
    pub fn words(&self) -> impl Iterator<Item = (Addr, u64)> {
        self.lines.iter().flat_map(|(number, line)| {
            let stored = (0..WORDS_PER_LINE).filter(|index| line.stored & 1 << index != 0);
            stored.map(move |index| {
                (Addr(number * LINE_BYTES as u64 + (index * WORD) as u64), line.words[index])
            })
        })
    }

    /// The pages it stores to, in order.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        let mut last = None;
        self.lines.iter().filter_map(move |&(number, _)| {
            let page = Addr(number * LINE_BYTES as u64).page();
            (last.replace(page) != Some(page)).then_some(page)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    proptest! {
        /// Against the obvious model: a map of words.
        #[test]
        fn it_holds_the_last_word_stored_at_each_address(
            stores in prop::collection::vec((0u64..2000, 1usize..9, any::<u64>()), 0..100),
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
            let mut pages: Vec<PageId> = model.keys().map(|at| at.page()).collect();
            pages.dedup();
            prop_assert_eq!(set.pages().collect::<Vec<_>>(), pages);
            prop_assert!(set.words().eq(model));
        }
    }
}
