//! A chained hash table made of plain pointers: the kind of structure that programs have already.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ebbtide_engine::mapped::Region;

/// As large as a record of a program.
#[repr(align(64))]
struct Node {
    key: u64,
    value: u64,
    next: *mut Node,
}

/// Buckets and nodes lie in a region. Insertions come from one job at a time.
pub struct Table {
    buckets: *const AtomicPtr<Node>,
    count: usize,
    next_node: AtomicUsize,
}

// SAFETY: buckets are atomic, and a node is not changed once it is in the table.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    pub fn new(region: &Region, count: usize) -> Table {
        let start = region.start().as_ptr();
        let buckets = start.cast_const().cast::<AtomicPtr<Node>>();
        let first = start as usize + (count * size_of::<AtomicPtr<Node>>()).next_multiple_of(64);
        Table { buckets, count, next_node: AtomicUsize::new(first) }
    }

    fn bucket(&self, key: u64) -> &AtomicPtr<Node> {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // SAFETY: the region begins with the buckets, and zeros are null pointers.
        unsafe { &*self.buckets.add(hash as usize % self.count) }
    }

    pub fn insert(&self, key: u64, value: u64) {
        let at = self.next_node.fetch_add(size_of::<Node>(), Ordering::Relaxed) as *mut Node;
        let bucket = self.bucket(key);
        // SAFETY: the node lies behind all others, in the region.
        unsafe { at.write(Node { key, value, next: bucket.load(Ordering::Acquire) }) };
        bucket.store(at, Ordering::Release);
    }

    pub fn get(&self, key: u64) -> Option<u64> {
        let mut at = self.bucket(key).load(Ordering::Acquire);
        while !at.is_null() {
            // SAFETY: nodes in the table are whole and do not change.
            let node = unsafe { &*at };
            if node.key == key {
                return Some(node.value);
            }
            at = node.next;
        }
        None
    }
}
