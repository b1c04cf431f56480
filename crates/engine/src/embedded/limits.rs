//! Limits of a store: the number of its maps, the lengths of names, the sizes of its parts; and its
//! format.

use ebbtide_structures::keyspace::DATABASES;

/// The database of the keyspace that lists the maps by name. Each map uses one of the databases
/// before it.
pub(super) const NAMES: usize = DATABASES - 1;

/// The name of the format of the address space, in the file's header.
pub(super) const TAG: &str = "maps 2";

/// The fewest pages for keys and values. A change may store to an eighth of the pages.
pub(super) const KEY_PAGES_MIN: u64 = 128;

/// The most pages of a store: with the spare ones, they are fewer than 2³⁰.
pub(super) const PAGES_MAX: u64 = 3 << 28;

/// The fewest frames of a cache. A change may store to an eighth of them, and splits up to three
/// pages at each level of the keys and of their order.
pub(super) const FRAMES_MIN: usize = 136;

/// Maps of a store.
pub const MAPS_MAX: usize = DATABASES - 1;

/// The longest name of a map, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
