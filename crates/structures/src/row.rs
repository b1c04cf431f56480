//! [`Row`]: a value of several lines.

use bytemuck::Pod;

/// Words of the largest row.
pub const ROW_WORDS_MAX: usize = 96;

/// A row of a [`BTree`](crate::BTree) or a table: a plain value of 1 to 96 words.
pub trait Row: Pod {
    /// The number of its words.
    const WORDS: usize = {
        assert!(align_of::<Self>() == 8, "a row is made of whole words");
        assert!(size_of::<Self>() >= 8 && size_of::<Self>() <= ROW_WORDS_MAX * 8);
        size_of::<Self>() / 8
    };
}
impl<T: Pod> Row for T {}
