//! [`Kind`]: the kind of a value, and the tag of a collection's entry.

/// The bit of a tag that tells trees from packed elements.
const IN_TREES: u8 = 0x80;

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// Fields with values.
    Hash,
    /// Members.
    Set,
    /// Members with scores, in the order of the scores.
    SortedSet,
    /// Values in an order.
    List,
}

impl Kind {
    /// Decodes the kind in the first byte of a collection's entry. A byte that is no tag counts as
    /// a list.
    pub(super) fn of_tag(tag: u8) -> Kind {
        match tag & !IN_TREES {
            1 => Kind::Hash,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            _ => Kind::List,
        }
    }

    /// The first byte of the entry of a collection, whose elements may be in trees.
    pub(super) fn tag(self, in_trees: bool) -> u8 {
        let tag = match self {
            Kind::String => 0,
            Kind::Hash => 1,
            Kind::Set => 2,
            Kind::SortedSet => 3,
            Kind::List => 4,
        };
        if in_trees { tag | IN_TREES } else { tag }
    }

    /// Trees of a large collection.
    pub(super) fn trees(self) -> usize {
        if self == Kind::SortedSet { 2 } else { 1 }
    }
}

/// Returns the number of roots that an entry with this tag names.
pub(super) fn roots_of_tag(tag: u8) -> usize {
    if tag & IN_TREES == 0 { 0 } else { Kind::of_tag(tag).trees() }
}
