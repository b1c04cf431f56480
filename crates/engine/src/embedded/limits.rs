//! Limits of a store: the number of its maps, the lengths of names, the sizes of its parts; and its
//! format.

use ebbtide_structures::keyspace::DATABASES;

/// The database of the keyspace that lists the maps by name. Each map uses one of the databases
/// before it.
pub(super) const NAMES: usize = DATABASES - 1;

/// The name of the format of the address space, in the file's header.
pub(super) const TAG: &str = "maps 2";

/// The most pages of a part of a store.
pub(super) const PART_PAGES_MAX: u64 = 1 << 31;

/// Maps of a store.
pub const MAPS_MAX: usize = DATABASES - 1;

/// The longest name of a map, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
