//! Masstree: against an ordered map, under interleaved and raced operations, fresh, full and
//! damaged.

mod history;
mod image;
mod model;

use ebbtide_core::{Addr, PAGE_BYTES, PageId};
use ebbtide_testbed::{Plain, words_of_page};
use ebbtide_workloads::masstree::Tree;

/// A tree from `start` on, in a memory that holds nothing else. It has the keys and values that
/// `entry` returns for ranks `0..keys`, and room for `more` nodes.
fn tree(start: Addr, keys: u64, more: u64, entry: fn(u64) -> (u64, u64)) -> (Tree, Plain) {
    let bytes = Tree::bytes(keys, more);
    let tree = Tree::new(start, bytes, keys, 7);
    let mut words = vec![0xdead; start.0 as usize / 8];
    for page in 0..bytes / PAGE_BYTES as u64 {
        let page = PageId(start.page().0 + page);
        words.extend(words_of_page(page, |page, out| tree.image(page, entry, out)));
    }
    (tree, Plain::new(words))
}
