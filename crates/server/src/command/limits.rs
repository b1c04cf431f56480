//! The limits of commands, as `docs/COMMANDS.md` tells them.

use ebbtide_structures::keyspace::{DATABASES, KEY_BYTES_MAX, VALUE_BYTES_MAX, WHOLE_BYTES_MAX};

use super::arguments::EXPIRY_MS_MAX;
use super::clients::NAME_BYTES_MAX;
use super::pubsub::SUBSCRIPTIONS_MAX;
use super::transactions::WATCHED_MAX;
use super::{QUEUED_BYTES_MAX, QUEUED_MAX};

/// What is limited, and how.
pub fn limits() -> Vec<(&'static str, String)> {
    vec![
        ("key", format!("{KEY_BYTES_MAX} bytes")),
        ("value", format!("{VALUE_BYTES_MAX} bytes")),
        ("databases", DATABASES.to_string()),
        (
            "argument of a command that does not take it as it comes, \
             and value that such a command reads as a whole",
            "half of the memory of a core's connections, and 64 MiB".into(),
        ),
        (
            "value that `APPEND`, `SETRANGE`, `BITOP`, `COPY` and their like write between `MULTI` and `EXEC`",
            format!("{WHOLE_BYTES_MAX} bytes; `SET` takes any"),
        ),
        (
            "what all commands between `MULTI` and `EXEC` store, unless `--durability` is `none`",
            "64 KiB; values of `SET` beyond 32,704 bytes do not count".into(),
        ),
        (
            "commands that wait for `EXEC`",
            format!(
                "{QUEUED_MAX}, of {QUEUED_BYTES_MAX} bytes together or half of the memory of a core's connections"
            ),
        ),
        ("watched keys of a connection", WATCHED_MAX.to_string()),
        (
            "channels and patterns of a connection",
            format!("{SUBSCRIPTIONS_MAX}, of half of the memory of a core's connections"),
        ),
        ("name of a client", format!("{NAME_BYTES_MAX} bytes")),
        (
            "time of expiry",
            format!("{EXPIRY_MS_MAX} ms after 1970, the year 6429; a later one becomes that"),
        ),
        (
            "memory of all connections",
            "an eighth of `--dram`; beyond it, the connection that holds most is closed".into(),
        ),
    ]
}
