//! Collections and latches against plain models: alone, interleaved, and when pages fail.

mod b_tree;
mod keys;
mod latch;
mod map;
mod ordered_map;
mod vector;
mod window;

use ebbtide_testbed::{Interleaved, Plain, Shared, interleave_bursts};

/// Runs `body(thread, memory)` on `threads` interleaved threads over the words of `memory`, and
/// stores the result there. Turns last for one word if `seed` is even, otherwise for ten on
/// average.
fn interleave<R: Send>(
    memory: &mut Plain,
    threads: usize,
    seed: u64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    let words = Shared::new(&memory.words);
    let words_a_turn = if seed.is_multiple_of(2) { 1.0 } else { 10.0 };
    let results = interleave_bursts(&words, threads, seed, words_a_turn, body);
    memory.words = words.into_plain().words;
    results
}
