//! [`Kind`]: the kind of a value, and the tag of a collection's entry.

/// The bit of a tag that tells trees from packed elements.
const IN_TREES: u8 = 0x80;

/// The bit of a tag that says that a collection in trees has one more. A hash has it for its fields
/// that expire, and a stream for its consumer groups.
const ONE_MORE: u8 = 0x40;

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
    /// Entries in the order of their ids.
    Stream,
}

impl Kind {
    /// Decodes the kind in the first byte of a collection's entry. A byte that is no tag counts as
    /// a list.
    pub(super) fn of_tag(tag: u8) -> Kind {
        match tag & !(IN_TREES | ONE_MORE) {
            1 => Kind::Hash,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            5 => Kind::Stream,
            _ => Kind::List,
        }
    }

    /// The first byte of the entry of a collection in this number of trees; 0 if it is packed.
    pub(super) fn tag(self, trees: usize) -> u8 {
        let tag = match self {
            Kind::String => 0,
            Kind::Hash => 1,
            Kind::Set => 2,
            Kind::SortedSet => 3,
            Kind::List => 4,
            Kind::Stream => 5,
        };
        match trees {
            0 => tag,
            trees if trees > self.trees() => tag | IN_TREES | ONE_MORE,
            _ => tag | IN_TREES,
        }
    }

    /// Trees of a large collection. A tree of fields that expire or of consumer
    /// groups comes in addition.
    pub(super) fn trees(self) -> usize {
        if self == Kind::SortedSet { 2 } else { 1 }
    }
}

/// Returns the number of roots that an entry with this tag names.
pub(super) fn roots_of_tag(tag: u8) -> usize {
    match tag & (IN_TREES | ONE_MORE) {
        IN_TREES => Kind::of_tag(tag).trees(),
        // A hash or a stream has it. A writer may have torn the tag.
        both if both == IN_TREES | ONE_MORE => 2,
        _ => 0,
    }
}
