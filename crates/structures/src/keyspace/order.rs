//! [`Order`]: how the key of an entry gives its place in a tree.

use super::due_record::place;
use super::key::HashSecret;

/// How the key of an entry gives its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// By the hash of a key of a database.
    Hashed(HashSecret),
    /// By the time that a [record of what is due](super::due_record) begins with.
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
