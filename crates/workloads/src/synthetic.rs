//! The references of the CXL-flash study's five synthetic programs (ATC'23 Table 2), in order.
//!
//! Each generator makes the loads and stores of the study's source code, with data smaller by a
//! scale, and passes them to a [`Recorder`]. `random` and `stride` set their whole array to zero
//! before their loop begins; [`Synthetic::set_memory`] makes those stores.

use ebbtide_core::LINE_BYTES;
use ebbtide_trace::{Enough, Recorder};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A synthetic program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synthetic {
    /// Fills a chained hash table, then walks its buckets.
    HashMap,
    /// Multiplies 4 x 4 matrices in triples.
    MatrixMultiply,
    /// Pushes random numbers into a binary heap and pops one now and then.
    MinHeap,
    /// Adds one to random bytes of 4 GiB.
    Random,
    /// Adds one to 64 bytes in every KiB of 8 GiB.
    Stride,
}

impl Synthetic {
    /// Passes the references of the program's loop to `recorder`. The data is smaller than the
    /// study's by the factor `scale`, at least 1.
    ///
    /// # Errors
    /// [`Enough`] once `recorder` is full.
    pub fn run(self, recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
        match self {
            Synthetic::HashMap => hash_map(recorder, scale),
            Synthetic::MatrixMultiply => matrix_multiply(recorder, scale),
            Synthetic::MinHeap => min_heap(recorder, scale),
            Synthetic::Random => random(recorder, scale),
            Synthetic::Stride => stride(recorder, scale),
        }
    }

    /// Passes the stores that set the program's array to zero to `recorder`, line by line from
    /// address 0. Only [`Synthetic::Random`] and [`Synthetic::Stride`] have such stores. `scale` is
    /// as for [`run`](Synthetic::run).
    ///
    /// # Errors
    /// [`Enough`] once `recorder` is full.
    pub fn set_memory(self, recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
        let bytes: u64 = match self {
            Synthetic::Random => 4 << 30,
            Synthetic::Stride => 8 << 30,
            _ => 0,
        };
        (0..bytes / scale).step_by(LINE_BYTES).try_for_each(|at| recorder.touch(at, true))
    }
}

/// Address of data that a program maps apart from its heap.
const MAPPED: u64 = 8 << 30;

/// Inserts keys into a chained hash table in order, then walks its buckets. The table has the
/// layout of GNU's C++ library. A key is its own hash. Nodes are 24 bytes in chunks of 32, all in
/// one list. A bucket holds the address of the node before its first.
fn hash_map(recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
    let node = |key: u64| key * 32;
    let (mut base, mut buckets) = (MAPPED, 13);
    let keys = (1 << 24) / scale;
    for key in 0..keys {
        if key == buckets {
            let old = (base, buckets);
            base = (old.0 + old.1 * 8).next_multiple_of(4096);
            buckets = next_prime(2 * old.1);
            (0..buckets).step_by(8).try_for_each(|b| recorder.touch(base + b * 8, true))?;
            for moved in (0..key).rev() {
                recorder.touch(node(moved), true)?;
                recorder.touch(base + moved * 8, true)?;
                recorder.touch(base + (moved + 1).min(key - 1) * 8, true)?;
            }
        }
        recorder.touch(base + key * 8, false)?;
        recorder.touch(node(key), true)?;
        if let Some(before) = key.checked_sub(1) {
            recorder.touch(node(before), false)?;
            recorder.touch(base + before * 8, true)?;
        }
        recorder.touch(base + key * 8, true)?;
    }
    for bucket in 0..buckets {
        recorder.touch(base + bucket * 8, false)?;
        if bucket < keys {
            // The node before the bucket's, the bucket's, and the next, which is another bucket's.
            recorder.touch(node((bucket + 1).min(keys - 1)), false)?;
            recorder.touch(node(bucket), false)?;
            recorder.touch(node(bucket.saturating_sub(1)), false)?;
        }
    }
    Ok(())
}

fn next_prime(from: u64) -> u64 {
    let is_prime = |n: &u64| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    (from..).find(is_prime).expect("there is always another prime")
}

/// Allocates 4 x 4 matrices of bytes, row by row, then multiplies them in triples. A matrix is a
/// chunk of 48 bytes for four pointers and four of 32 for a row each, one after the other.
fn matrix_multiply(recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
    const ROW_BYTES: u64 = 32;
    const POINTERS_BYTES: u64 = 48;
    const MATRIX_BYTES: u64 = POINTERS_BYTES + 4 * ROW_BYTES;
    let matrices = (1 << 22) / scale;
    let pointer = |matrix: u64, row: u64| matrix * MATRIX_BYTES + 16 + row * 8;
    let row_at = |matrix: u64, row: u64| matrix * MATRIX_BYTES + POINTERS_BYTES + row * ROW_BYTES;
    for matrix in 0..matrices {
        recorder.touch(matrix * MATRIX_BYTES + 8, true)?;
        for row in 0..4 {
            recorder.touch(row_at(matrix, row) + 8, true)?;
            recorder.touch(pointer(matrix, row), true)?;
        }
        recorder.touch(MAPPED + matrix * 8, true)?;
    }
    for first in (0..matrices.saturating_sub(3)).step_by(3) {
        (0..3).try_for_each(|i| recorder.touch(MAPPED + (first + i) * 8, false))?;
        for (i, j, k) in (0..64).map(|n| (n / 16, n / 4 % 4, n % 4)) {
            recorder.touch(pointer(first, i), false)?;
            recorder.touch(row_at(first, i) + 16 + k, false)?;
            recorder.touch(pointer(first + 1, k), false)?;
            recorder.touch(row_at(first + 1, k) + 16 + j, false)?;
            recorder.touch(row_at(first + 2, i) + 16 + j, true)?;
        }
    }
    Ok(())
}

/// Pushes random numbers into a heap of words, and pops one every 2^15 pushes. An exchange with a
/// parent loses all but the lowest byte, as in the study's source code. So most pushes end early.
fn min_heap(recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut number = move || random.next_u32() >> 1;
    let mut heap = vec![number()];
    for push in 0..(1 << 27) / scale {
        if push % (1 << 15) == 1 {
            pop(recorder, &mut heap)?;
        }
        heap.push(number());
        let mut at = heap.len() - 1;
        recorder.touch(at as u64 * 8, true)?;
        while at > 0 {
            let parent = (at - 1) / 2;
            recorder.touch(parent as u64 * 8, false)?;
            if heap[parent] <= heap[at] {
                break;
            }
            let small = heap[at] & 0xff;
            heap[at] = heap[parent];
            heap[parent] = small;
            recorder.touch(at as u64 * 8, true)?;
            recorder.touch(parent as u64 * 8, true)?;
            at = parent;
        }
    }
    Ok(())
}

fn pop(recorder: &mut Recorder, heap: &mut Vec<u32>) -> Result<(), Enough> {
    recorder.touch(heap.len() as u64 * 8 - 8, false)?;
    heap[0] = heap.pop().expect("the heap is never empty");
    let mut at = 0;
    while let Some(left) = heap.get(2 * at + 1) {
        let right = heap.get(2 * at + 2).filter(|right| *right < left);
        let child = if right.is_some() { 2 * at + 2 } else { 2 * at + 1 };
        recorder.touch((2 * at + 1) as u64 * 8, false)?;
        if heap[at] <= heap[child] {
            break;
        }
        heap.swap(at, child);
        recorder.touch(at as u64 * 8, true)?;
        recorder.touch(child as u64 * 8, true)?;
        at = child;
    }
    Ok(())
}

/// Adds one to random bytes of 4 GiB.
fn random(recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let bytes = (4 << 30) / scale;
    (0..(1 << 24) / scale).try_for_each(|_| recorder.touch(random.random_range(0..bytes), true))
}

/// Adds one to each of 64 bytes in every KiB of 8 GiB.
fn stride(recorder: &mut Recorder, scale: u64) -> Result<(), Enough> {
    for at in (0..(8 << 30) / scale).step_by(1024) {
        recorder.touch(at, true)?;
        recorder.again(63);
    }
    Ok(())
}
