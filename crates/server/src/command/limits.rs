//! The limits of commands, for `docs/COMMANDS.md`.

use ebbtide_structures::keyspace::{
    DATABASES, ELEMENT_BYTES_MAX, KEY_BYTES_MAX, MEMBER_BYTES_MAX, ORDERED_BYTES_MAX,
    VALUE_BYTES_MAX, WHOLE_BYTES_MAX,
};

use super::QUEUED_MAX;
use super::arguments::EXPIRY_MS_MAX;
use super::clients::NAME_BYTES_MAX;
use super::pubsub::SUBSCRIPTIONS_MAX;
use super::transactions::WATCHED_MAX;
use crate::acl::{KEPT_MAX, USERS_BYTES_MAX};
use crate::shared::QUEUED_BYTES_MAX;

/// A limited quantity and its limit.
type Limit = (&'static str, String);

/// Returns each limited quantity and its limit.
pub fn limits() -> Vec<Limit> {
    [data(), connections(), replies()].concat()
}

/// Limits of keys, values and transactions.
fn data() -> Vec<Limit> {
    vec![
        ("key", format!("{KEY_BYTES_MAX} bytes")),
        ("value", format!("{VALUE_BYTES_MAX} bytes, {} MiB", VALUE_BYTES_MAX >> 20)),
        (
            "element of a hash, set or list between `MULTI` and `EXEC`; of a hash it is a field with its value and 20 bytes",
            format!("{ELEMENT_BYTES_MAX} bytes"),
        ),
        (
            "member of a sorted set",
            format!(
                "{MEMBER_BYTES_MAX} bytes; members of one score that are equal in their first {ORDERED_BYTES_MAX} \
                 bytes are in no particular order"
            ),
        ),
        (
            "elements of collections that a command reads or copies between `MULTI` and `EXEC`",
            "half of the memory of a core's connections as a reply, and the total of stores below"
                .into(),
        ),
        ("databases", DATABASES.to_string()),
        (
            "argument or value that a command needs as a whole in DRAM",
            "half of the memory of a core's connections, at most 64 MiB".into(),
        ),
        (
            "total stores of a script, or between `MULTI` and `EXEC`, unless `--durability` is `none`",
            format!(
                "the least of 4 MiB, a sixteenth of the log and a 32nd of `--dram`, on as many pages as an \
                 eighth of the cache holds; arguments of `SET` above {WHOLE_BYTES_MAX} bytes between `MULTI` and `EXEC` do not count"
            ),
        ),
    ]
}

/// Limits of what a connection sends and keeps, and of times.
fn connections() -> Vec<Limit> {
    vec![
        (
            "commands that wait for `EXEC`",
            format!(
                "{QUEUED_MAX}, and {QUEUED_BYTES_MAX} bytes together, or half of the memory of a core's \
                 connections if that is less"
            ),
        ),
        ("watched keys of a connection", WATCHED_MAX.to_string()),
        (
            "channels and patterns of a connection",
            format!(
                "{SUBSCRIPTIONS_MAX}, which together take at most half of the memory of a core's \
                 connections"
            ),
        ),
        ("all users with their rules", format!("{USERS_BYTES_MAX} bytes of DRAM")),
        (
            "entries of `ACL LOG`",
            format!("`acllog-max-len` (128), at most {KEPT_MAX}; long names are cut"),
        ),
        ("name of a client", format!("{NAME_BYTES_MAX} bytes")),
        (
            "time of expiry",
            format!("{EXPIRY_MS_MAX} ms after 1970, the year 6429; a later time becomes this one"),
        ),
    ]
}

/// Limits of replies, and of overwriting.
fn replies() -> Vec<Limit> {
    vec![
        (
            "collection that `DUMP` or `MIGRATE` sends, and string that comes compressed to `RESTORE`",
            "half of the memory of a core's connections, at most 64 MiB".into(),
        ),
        (
            "`KEYS`, `SCAN` and `MGET` whose replies are longer than the room on flash, and `KEYS` and `SCAN` in `EXEC`",
            "half of the memory of a core's connections as a reply".into(),
        ),
        (
            "overwriting a value of more than 32,704 bytes",
            "the new value is written beside the old one, so it needs free pages: its bytes and a thousandth more. \
             Others read the old value until the new one is there, and its client may break off. Without room, `DEL` \
             first. Shorter values need none for one of the same number of pages that is not longer"
                .into(),
        ),
        (
            "memory of all connections",
            "an eighth of `--dram`, and at least 2 MiB a core (4 MiB with TLS); beyond it, the \
             connection that holds most is closed"
                .into(),
        ),
    ]
}
