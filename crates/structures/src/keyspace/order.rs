//! [`Order`]: how the key of an entry determines its place in a tree.

use super::due_record::place;
use super::key::HashSecret;

/// How the key of an entry determines its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// By the hash of a key of a database.
    Hashed(HashSecret),
    /// By the time at the start of a [record of a due leaf](super::due_record).
    Due,
}

impl Order {
    /// The place of an entry with this key.
    pub(super) fn of(&self, key: &[u8]) -> u64 {
        match self {
            Order::Hashed(secret) => secret.key(key).hash,
            Order::Due => place(key),
        }
    }
}
