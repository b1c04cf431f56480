//! Size classes: the sizes of small blocks.

/// Bytes of a chunk: the unit in which a heap divides its region.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// The smallest block.
const LEAST: usize = 16;

/// Blocks of more bytes take whole chunks.
pub(super) const SMALL_MAX: usize = 16 << 10;

/// Classes up to this size are multiples of the least. Above it, there are four a doubling.
const LINEAR_MAX: usize = 128;

/// Number of classes.
pub(super) const CLASSES: usize = LINEAR_MAX / LEAST + 4 * 7;

/// A size class, numbered from the smallest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Class(u8);

impl Class {
    /// The smallest class for blocks of `bytes` bytes at multiples of `align`, a power of two.
    /// `None` if such a block takes whole chunks.
    pub(super) fn of(bytes: usize, align: usize) -> Option<Class> {
        if align > SMALL_MAX {
            return None;
        }
        let bytes = bytes.max(1).checked_next_multiple_of(align)?;
        let first = Class::at_least(bytes)?;
        (first.0..CLASSES as u8).map(Class).find(|class| class.bytes().is_multiple_of(align))
    }

    fn at_least(bytes: usize) -> Option<Class> {
        if bytes <= LINEAR_MAX {
            return Some(Class((bytes.div_ceil(LEAST).max(1) - 1) as u8));
        }
        if bytes > SMALL_MAX {
            return None;
        }
        // The doubling above a power of two is divided into four steps.
        let doubling = (bytes - 1).ilog2();
        let step = ((bytes - 1) >> (doubling - 2)) & 3;
        let first = LINEAR_MAX / LEAST + 4 * (doubling - LINEAR_MAX.ilog2()) as usize;
        Some(Class((first + step) as u8))
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Bytes of a block.
    pub(super) fn bytes(self) -> usize {
        let linear = LINEAR_MAX / LEAST;
        match self.index().checked_sub(linear) {
            None => (self.index() + 1) * LEAST,
            Some(above) => {
                let base = LINEAR_MAX << (above / 4);
                base + base / 4 * (above % 4 + 1)
            }
        }
    }

    /// Blocks in a chunk.
    pub(super) fn blocks(self) -> usize {
        CHUNK_BYTES / self.bytes()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        let classes: Vec<_> = (0..CLASSES as u8).map(|class| Class(class).bytes()).collect();
        assert!(classes.is_sorted() && classes[CLASSES - 1] == SMALL_MAX, "{classes:?}");
        for bytes in 0..=SMALL_MAX {
            let class = Class::of(bytes, 1).expect("it is small");
            let least = classes.iter().find(|&&size| size >= bytes.max(1)).expect("a class");
            assert_eq!(class.bytes(), *least, "{bytes} bytes");
        }
        assert_eq!(Class::of(SMALL_MAX + 1, 1), None);
    }

    #[test]
    fn blocks_of_a_class_keep_the_alignment() {
        for align in (0..=14).map(|power| 1 << power) {
            for bytes in [1, 15, 16, 17, 100, 129, 1000, 5000] {
                let class = Class::of(bytes, align).expect("it is small");
                assert!(class.bytes() >= bytes && class.bytes().is_multiple_of(align));
            }
        }
        assert_eq!(Class::of(8, 32 << 10), None);
        assert_eq!(Class::of(usize::MAX, 16), None);
    }

    #[test]
    fn no_block_wastes_more_than_a_quarter_above_the_linear_classes() {
        for bytes in LINEAR_MAX + 1..=SMALL_MAX {
            let class = Class::of(bytes, 1).expect("it is small");
            assert!(4 * (class.bytes() - bytes) < class.bytes(), "{bytes}");
        }
    }
}
