//! [`Classes`] of changes that are published as messages (`notify-keyspace-events`), and
//! [`Events`], those of a command that has not taken effect yet.

use std::fmt;

/// Classes of events, as Redis names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes(u32);

impl Classes {
    /// Messages to the channel of the key.
    pub const KEYSPACE: Classes = Classes(1);
    /// Messages to the channel of the event.
    pub const KEYEVENT: Classes = Classes(1 << 1);
    /// Events of keys of any type.
    pub const GENERIC: Classes = Classes(1 << 2);
    /// Events of strings.
    pub const STRING: Classes = Classes(1 << 3);
    /// Events of lists.
    pub const LIST: Classes = Classes(1 << 4);
    /// Events of sets.
    pub const SET: Classes = Classes(1 << 5);
    /// Events of hashes.
    pub const HASH: Classes = Classes(1 << 6);
    /// Events of sorted sets.
    pub const SORTED_SET: Classes = Classes(1 << 7);
    /// Keys that were removed because they had expired.
    pub const EXPIRED: Classes = Classes(1 << 8);
    /// Keys that a full store gave up.
    pub const EVICTED: Classes = Classes(1 << 9);
    /// Events of streams.
    pub const STREAM: Classes = Classes(1 << 10);
    /// New keys.
    pub const NEW: Classes = Classes(1 << 12);
    /// Reads of keys that do not exist.
    pub const MISS: Classes = Classes(1 << 13);
    /// All classes but new keys and misses.
    const ALL: Classes = Classes(0b1111_1111_1100);

    /// Letters of the classes, in the order of Redis. This server has no events of modules
    /// (`d`).
    const LETTERS: [(char, Classes); 14] = [
        ('g', Classes::GENERIC),
        ('$', Classes::STRING),
        ('l', Classes::LIST),
        ('s', Classes::SET),
        ('h', Classes::HASH),
        ('z', Classes::SORTED_SET),
        ('x', Classes::EXPIRED),
        ('e', Classes::EVICTED),
        ('t', Classes::STREAM),
        ('d', Classes(1 << 11)),
        ('n', Classes::NEW),
        ('K', Classes::KEYSPACE),
        ('E', Classes::KEYEVENT),
        ('m', Classes::MISS),
    ];

    /// Parses letters; `None` if one has no meaning.
    pub fn parse(letters: &str) -> Option<Classes> {
        let class = |letter: char| match letter {
            'A' => Some(Classes::ALL),
            letter => Some(Classes::LETTERS.iter().find(|(of, _)| *of == letter)?.1),
        };
        letters.chars().try_fold(Classes(0), |all, letter| Some(Classes(all.0 | class(letter)?.0)))
    }

    /// Returns the classes that [`bits`](Classes::bits) returned.
    pub fn of_bits(bits: u32) -> Classes {
        Classes(bits)
    }

    /// Returns the classes as the bits of a number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True if all classes of `other` are among these.
    pub fn has(self, other: Classes) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.has(Classes::ALL);
        if all {
            f.write_str("A")?;
        }
        let shown = |class: Classes| self.has(class) && !(all && Classes::ALL.has(class));
        let mut letters = Classes::LETTERS.iter().filter(|(_, class)| shown(*class));
        letters.try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

/// Something that has happened to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// The database of the key.
    pub database: usize,
    /// The key.
    pub key: Vec<u8>,
}

/// Events for which an empty list keeps its memory.
const KEPT_EVENTS: usize = 16;

/// Events that are published when the commands that caused them have taken effect.
#[derive(Debug, Default)]
pub struct Events {
    list: Vec<Event>,
    /// Index of the first event of the current command.
    own: usize,
    /// Bytes of all keys.
    key_bytes: usize,
}

impl Events {
    /// Begins a command.
    pub fn begin(&mut self) {
        self.own = self.list.len();
    }

    /// Adds an event, unless it is the last one of the current command. A command may make a
    /// change in several parts.
    pub fn add(&mut self, event: Event) {
        if self.list[self.own..].last() != Some(&event) {
            self.key_bytes += event.key.len();
            self.list.push(event);
        }
    }

    /// Drops all events, because the commands that caused them did not take effect.
    pub fn clear(&mut self) {
        self.list.clear();
        self.list.shrink_to(KEPT_EVENTS);
        (self.own, self.key_bytes) = (0, 0);
    }

    /// Removes and returns the events, except the last `kept`.
    pub fn take(&mut self, kept: usize) -> Vec<Event> {
        self.own = 0;
        let kept = self.list.split_off(self.list.len().saturating_sub(kept));
        self.key_bytes = kept.iter().map(|event| event.key.len()).sum();
        std::mem::replace(&mut self.list, kept)
    }

    /// Bytes of the keys of all events.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True if there are no events.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
