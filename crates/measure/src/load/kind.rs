//! [`Kind`]: the type of a load's values. [`Commands`] makes its commands and checks their replies.
//!
//! A load numbers its elements. An element is a string, a field of a hash or a member of a set. It
//! may also be a place in a list, or a counter of a script. Elements with neighbouring numbers
//! share a collection.

use ebbtide_core::choice;

use super::ledger::Ledger;
use super::replies::Reply;

/// The script of [`Kind::Script`]: a counter of requests that ends after an hour, as limits of
/// rates use it.
pub(super) const SCRIPT: &str = "local n = redis.call('INCR', KEYS[1]) \
     if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n";

/// Seconds until a counter ends.
const COUNTER_S: &[u8] = b"3600";

/// Seconds that `BRPOP` waits at an empty list.
const POP_WAIT_S: &[u8] = b"0.01";

/// The most members that a read of a sorted set returns.
const RANGE: &[u8] = b"10";

/// Scores of a sorted set are below this.
const SCORES: u64 = 1_000_000;

choice! {
    /// The type of the values of a load.
    #[derive(Default)]
    pub enum Kind as "type" {
        /// Strings: `GET` and `SET`.
        #[default]
        String = "string",
        /// Fields of hashes: `HGET` and `HSET`.
        Hash = "hash",
        /// Members of sets, without values: `SISMEMBER` and `SADD`.
        Set = "set",
        /// Members of sorted sets with scores: `ZRANGEBYSCORE` of at most ten members, and `ZADD`.
        SortedSet = "sorted-set",
        /// Lists as queues: `BRPOP` and `LPUSH`.
        List = "list",
        /// Counters of a script: `GET` and `EVALSHA`.
        Script = "script",
    }
}

impl Kind {
    /// Elements of a collection, unless the load says otherwise.
    pub fn elements(self) -> usize {
        match self {
            Kind::String | Kind::Script => 1,
            Kind::Hash => 10,
            Kind::Set | Kind::SortedSet | Kind::List => 100,
        }
    }

    /// Returns the name of its elements.
    pub(super) fn plural(self) -> &'static str {
        match self {
            Kind::String => "keys",
            Kind::Hash => "fields of hashes",
            Kind::Set => "members of sets",
            Kind::SortedSet => "members of sorted sets",
            Kind::List => "places in lists",
            Kind::Script => "counters",
        }
    }

    /// The names of the commands that read and write.
    pub(super) fn commands(self) -> [&'static str; 2] {
        match self {
            Kind::String => ["GET", "SET"],
            Kind::Hash => ["HGET", "HSET"],
            Kind::Set => ["SISMEMBER", "SADD"],
            Kind::SortedSet => ["ZRANGEBYSCORE", "ZADD"],
            Kind::List => ["BRPOP", "LPUSH"],
            Kind::Script => ["GET", "EVALSHA"],
        }
    }

    /// Whether the reply to a read says which version an element has. Then a check of all elements
    /// finds every lost write.
    pub(super) fn shows_versions(self) -> bool {
        !matches!(self, Kind::SortedSet | Kind::List)
    }

    /// Whether an element can be deleted.
    pub(super) fn deletes(self) -> bool {
        !matches!(self, Kind::List | Kind::Script)
    }

    /// Bytes of an element's name and value, given the mean bytes of a value.
    pub(super) fn element_bytes(self, value_bytes: u64, per_collection: u64) -> u64 {
        let collection = (self.collection(0, 1).len() as u64).div_ceil(per_collection);
        let element = self.element(0, 1).len() as u64;
        match self {
            Kind::String => collection + value_bytes,
            Kind::Hash => collection + element + value_bytes,
            Kind::Set => collection + element,
            // A score and a counter are numbers of eight bytes.
            Kind::SortedSet => collection + element + 8,
            Kind::List => collection + value_bytes,
            Kind::Script => collection + 8,
        }
    }

    /// Returns the key of the collection of element `key`.
    fn collection(self, key: usize, per_collection: usize) -> String {
        let number = key / per_collection;
        match self {
            Kind::String => format!("key:{number:012}"),
            Kind::Hash => format!("hash:{number:011}"),
            Kind::Set => format!("set:{number:012}"),
            Kind::SortedSet => format!("sorted:{number:09}"),
            Kind::List => format!("list:{number:011}"),
            Kind::Script => format!("limit:{number:010}"),
        }
    }

    /// Returns the name of element `key` within its collection.
    fn element(self, key: usize, per_collection: usize) -> String {
        match self {
            Kind::Hash => format!("field{}", key % per_collection),
            _ => format!("member:{key:012}"),
        }
    }
}

/// How the commands of a load are made and their replies judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commands {
    pub(super) kind: Kind,
    pub(super) per_collection: usize,
}

impl Commands {
    /// Appends a read of an element. `version` is the newest acknowledged one.
    pub(super) fn read(self, key: usize, version: u32, out: &mut Vec<u8>) {
        let collection = self.kind.collection(key, self.per_collection);
        let collection = collection.as_bytes();
        let element = || self.kind.element(key, self.per_collection);
        match self.kind {
            Kind::String | Kind::Script => command(out, &[b"GET", collection]),
            Kind::Hash => command(out, &[b"HGET", collection, element().as_bytes()]),
            Kind::Set => command(out, &[b"SISMEMBER", collection, element().as_bytes()]),
            Kind::SortedSet => {
                let least = score(key, version);
                let range: [&[u8]; 7] = [
                    b"ZRANGEBYSCORE",
                    collection,
                    least.as_bytes(),
                    b"+inf",
                    b"LIMIT",
                    b"0",
                    RANGE,
                ];
                command(out, &range);
            }
            Kind::List => command(out, &[b"BRPOP", collection, POP_WAIT_S]),
        }
    }

    /// Appends a write of a version, whose value is `value`. `sha` names the script.
    pub(super) fn write(
        self,
        key: usize,
        version: u32,
        value: &[u8],
        sha: &[u8],
        out: &mut Vec<u8>,
    ) {
        let collection = self.kind.collection(key, self.per_collection);
        let collection = collection.as_bytes();
        let element = || self.kind.element(key, self.per_collection);
        match self.kind {
            Kind::String => command(out, &[b"SET", collection, value]),
            Kind::Hash => command(out, &[b"HSET", collection, element().as_bytes(), value]),
            Kind::Set => command(out, &[b"SADD", collection, element().as_bytes()]),
            Kind::SortedSet => {
                let score = score(key, version);
                command(out, &[b"ZADD", collection, score.as_bytes(), element().as_bytes()]);
            }
            Kind::List => command(out, &[b"LPUSH", collection, value]),
            Kind::Script => command(out, &[b"EVALSHA", sha, b"1", collection, COUNTER_S]),
        }
    }

    /// Appends a delete.
    pub(super) fn delete(self, key: usize, out: &mut Vec<u8>) {
        let collection = self.kind.collection(key, self.per_collection);
        let collection = collection.as_bytes();
        let element = || self.kind.element(key, self.per_collection);
        match self.kind {
            Kind::Hash => command(out, &[b"HDEL", collection, element().as_bytes()]),
            Kind::Set => command(out, &[b"SREM", collection, element().as_bytes()]),
            Kind::SortedSet => command(out, &[b"ZREM", collection, element().as_bytes()]),
            Kind::String | Kind::List | Kind::Script => command(out, &[b"DEL", collection]),
        }
    }

    /// Checks the reply to a read. `least` is the newest version acknowledged when it was sent.
    ///
    /// # Errors
    /// A line on what is wrong with it.
    pub(super) fn check_read(
        self,
        key: usize,
        least: u32,
        reply: &Reply<'_>,
        ledger: &Ledger,
        scratch: &mut Vec<u8>,
    ) -> Result<(), String> {
        let wrong = || Err(format!("key {key}: the reply {reply:?}"));
        match (self.kind, reply) {
            (Kind::String | Kind::Hash, Reply::Bulk(value)) => {
                ledger.check(key, least, Some(value), scratch)
            }
            (Kind::String | Kind::Hash, Reply::Null) => ledger.check(key, least, None, scratch),
            (Kind::Set, Reply::Integer(there @ (0 | 1))) => {
                ledger.check_there(key, least, *there == 1)
            }
            (Kind::Script, Reply::Bulk(count)) => {
                let count = std::str::from_utf8(count).ok().and_then(|text| text.parse().ok());
                count.map_or_else(wrong, |count| ledger.check_count(key, least, count))
            }
            (Kind::Script, Reply::Null) => ledger.check_count(key, least, 0),
            (Kind::SortedSet, Reply::Array(members)) => {
                let all = members.iter().all(|member| self.is_of(key, member));
                if all { Ok(()) } else { wrong() }
            }
            // Another connection may have taken the last element.
            (Kind::List, Reply::Null) => Ok(()),
            (Kind::List, Reply::Array(pair)) => match &pair[..] {
                [_, value] => ledger.check_written(value, scratch).and_then(|found| {
                    let same = found / self.per_collection == key / self.per_collection;
                    if same { Ok(()) } else { Err(format!("key {key}: the value of key {found}")) }
                }),
                _ => wrong(),
            },
            _ => wrong(),
        }
    }

    /// Checks the reply to the write of a version.
    ///
    /// # Errors
    /// A line on what is wrong with it.
    pub(super) fn check_write(
        self,
        key: usize,
        version: u32,
        reply: &Reply<'_>,
        ledger: &Ledger,
    ) -> Result<(), String> {
        match (self.kind, reply) {
            // Only one connection counts a counter, in order.
            (Kind::Script, Reply::Integer(count)) => ledger.check_own_count(key, version, *count),
            (Kind::String, Reply::Status(b"OK")) | (_, Reply::Integer(_)) => Ok(()),
            _ => Err(format!("key {key}: the reply {reply:?}")),
        }
    }

    /// Whether a member is one of the sorted set of `key`.
    fn is_of(self, key: usize, member: &[u8]) -> bool {
        let number = std::str::from_utf8(member).ok().and_then(|name| name.strip_prefix("member:"));
        let number: Option<usize> = number.and_then(|number| number.parse().ok());
        number.is_some_and(|number| number / self.per_collection == key / self.per_collection)
    }
}

/// The score of a version.
fn score(key: usize, version: u32) -> String {
    (ebbtide_structures::hash::mix(key as u64 ^ u64::from(version) << 40) % SCORES).to_string()
}

/// Appends a command.
pub(super) fn command(out: &mut Vec<u8>, arguments: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges the reply to a read of element 3, which was written once, in collections of two.
    fn read(kind: Kind, reply: &Reply<'_>) -> Result<(), String> {
        let ledger = Ledger::new(10, (16, 16), 0, false);
        for key in 0..10 {
            ledger.acknowledge(key, ledger.send(key));
        }
        let commands = Commands { kind, per_collection: 2 };
        commands.check_read(3, 1, reply, &ledger, &mut Vec::new())
    }

    #[test]
    fn a_read_of_each_type_is_right_only_if_it_returns_what_was_written() {
        let ledger = Ledger::new(10, (16, 16), 0, false);
        let (mut own, mut other) = (Vec::new(), Vec::new());
        ledger.value(3, 1, &mut own);
        ledger.value(5, 1, &mut other);
        for kind in [Kind::String, Kind::Hash] {
            assert_eq!(read(kind, &Reply::Bulk(&own)), Ok(()));
            assert!(read(kind, &Reply::Bulk(&other)).is_err() && read(kind, &Reply::Null).is_err());
        }
        assert_eq!(read(Kind::Set, &Reply::Integer(1)), Ok(()));
        assert!(read(Kind::Set, &Reply::Integer(0)).is_err(), "the member is lost");
        let members = |names: &[&'static [u8]]| Reply::Array(names.to_vec());
        let near = members(&[b"member:000000000002", b"member:000000000003"]);
        assert_eq!(read(Kind::SortedSet, &near), Ok(()));
        assert!(read(Kind::SortedSet, &members(&[b"member:000000000004"])).is_err());
        assert_eq!(read(Kind::List, &Reply::Array(vec![b"list", &own])), Ok(()));
        assert_eq!(read(Kind::List, &Reply::Null), Ok(()), "the list may be empty");
        assert!(read(Kind::List, &Reply::Array(vec![b"list", &other])).is_err());
        assert!(read(Kind::List, &Reply::Array(vec![b"list", b"never written; long"])).is_err());
        assert_eq!(read(Kind::Script, &Reply::Bulk(b"1")), Ok(()));
        assert!(read(Kind::Script, &Reply::Bulk(b"2")).is_err(), "counted twice");
        assert!(read(Kind::Script, &Reply::Null).is_err(), "the counter is lost");
        assert!(Kind::ALL.iter().all(|kind| read(*kind, &Reply::Status(b"QUEUED")).is_err()));
    }

    #[test]
    fn a_counter_counts_each_write_once() {
        let ledger = Ledger::new(1, (16, 16), 0, false);
        let commands = Commands { kind: Kind::Script, per_collection: 1 };
        let version = ledger.send(0);
        let check = |count| commands.check_write(0, version, &Reply::Integer(count), &ledger);
        assert_eq!(check(1), Ok(()));
        assert!(check(0).is_err() && check(2).is_err());
    }

    #[test]
    fn elements_with_neighbouring_numbers_share_a_collection() {
        for kind in Kind::ALL {
            let of = |key: usize| kind.collection(key, kind.elements());
            let elements = kind.elements();
            assert_eq!(of(0), of(elements - 1));
            assert_ne!(of(elements - 1), of(elements));
        }
    }
}
