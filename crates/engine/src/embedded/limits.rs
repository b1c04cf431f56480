//! Limits of a store: the number of its maps, the lengths of names and keys, and the places of
//! entries.

use ebbtide_structures::OrderedMap;
use ebbtide_structures::keyspace::DATABASES;

/// The database of the keyspace that lists the maps by name. Each map uses one of the databases
/// before it.
pub(super) const NAMES: usize = DATABASES - 1;

/// Maps of a store.
pub const MAPS_MAX: usize = DATABASES - 1;

/// The longest name of a map, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest key of an ordered map, in bytes. One tree holds the order of all ordered maps, and
/// its keys begin with the number of a map.
pub const ORDERED_KEY_BYTES_MAX: usize = OrderedMap::KEY_BYTES_MAX - 1;
