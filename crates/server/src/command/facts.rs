//! Flags, categories and key specifications of commands, as Redis has them. `facts.txt` lists them.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;

use crate::acl::{Categories, Rights};
use crate::resp::Reply;

/// Facts about a command or a subcommand.
#[derive(Debug)]
pub(super) struct Facts {
    /// Its flags.
    pub(super) flags: Vec<&'static str>,
    /// Its categories.
    pub(super) categories: Categories,
    /// Index of the first key, of the last (from the end if negative), and the step between keys.
    pub(super) key_positions: [i64; 3],
    /// Where its keys are.
    pub(super) key_specs: Vec<KeySpec>,
}

impl Facts {
    /// Returns the indexes of the keys of a command among its arguments, with the flags of each.
    /// `None` if a function has to find them, or the arguments have another form.
    pub(super) fn keys(&self, arguments: &[&[u8]]) -> Option<Vec<(usize, &KeyFlags)>> {
        let mut keys = Vec::new();
        let mut specs = self.key_specs.iter();
        let all = specs.all(|spec| {
            spec.has_channels() || !spec.is_partial() && spec.add_keys(arguments, &mut keys)
        });
        all.then_some(keys)
    }

    /// True if it has a flag.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// Flags of keys: what a command does with them.
pub(super) type KeyFlags = [&'static str];

/// Returns the rights that a command needs for keys with these flags.
pub(super) fn rights(flags: &KeyFlags) -> Rights {
    let right = |flag: &&str| match *flag {
        "access" => Rights::READ,
        "insert" | "delete" | "update" => Rights::WRITE,
        _ => Rights::NONE,
    };
    flags.iter().map(right).fold(Rights::NONE, Rights::and)
}

/// Where some keys of a command are.
#[derive(Debug)]
pub(super) struct KeySpec {
    flags: Vec<&'static str>,
    begin: Place,
    find: Place,
}

/// A kind of place, and its fields.
#[derive(Debug)]
struct Place {
    kind: &'static str,
    fields: Vec<(&'static str, &'static str)>,
}

impl Place {
    /// Returns the number of a field; 0 if it has none.
    fn number(&self, field: usize) -> i64 {
        let text = self.fields.get(field).map(|(_, text)| text.as_bytes());
        text.and_then(crate::number::integer).unwrap_or(0)
    }

    /// Parses a kind and the values of its fields.
    fn parse(text: &'static str) -> Place {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or("unknown");
        let names: &[&str] = match kind {
            "index" => &["index"],
            "keyword" => &["keyword", "startfrom"],
            "range" => &["lastkey", "keystep", "limit"],
            "keynum" => &["keynumidx", "firstkey", "keystep"],
            _ => &[],
        };
        Place { kind, fields: names.iter().copied().zip(words).collect() }
    }

    fn write(&self, reply: &mut Reply) {
        reply.map(2);
        reply.bulk(b"type");
        reply.bulk(self.kind.as_bytes());
        reply.bulk(b"spec");
        reply.map(self.fields.len());
        for (name, value) in &self.fields {
            reply.bulk(name.as_bytes());
            match crate::number::integer(value.as_bytes()) {
                Some(number) => reply.integer(number),
                None => reply.bulk(value.as_bytes()),
            }
        }
    }
}

impl KeySpec {
    fn parse(text: &'static str) -> KeySpec {
        let mut parts = text.split(',');
        let flags = parts.next().unwrap_or_default().split_whitespace().collect();
        let [begin, find] = [(); 2].map(|()| Place::parse(parts.next().unwrap_or_default()));
        KeySpec { flags, begin, find }
    }

    /// True if these are channels of one slot, which are routed as keys.
    fn has_channels(&self) -> bool {
        self.flags.contains(&"not_key")
    }

    /// True if a function has to find the keys, or their rights.
    fn is_partial(&self) -> bool {
        ["incomplete", "variable_flags"].iter().any(|flag| self.flags.contains(flag))
    }

    /// Returns the index of the first argument to search; `None` if there is none.
    fn begin(&self, arguments: &[&[u8]]) -> Option<i64> {
        if self.begin.kind == "index" {
            return Some(self.begin.number(0));
        }
        let (_, word) = self.begin.fields.first()?;
        let from = self.begin.number(1);
        let is_word =
            |index: &i64| arguments[*index as usize].eq_ignore_ascii_case(word.as_bytes());
        let last = arguments.len() as i64 - 1;
        let place = match from {
            1.. => (from..last).find(is_word),
            _ => (2..=last + 1 + from).rev().find(is_word),
        };
        place.map(|place| place + 1)
    }

    /// Appends the indexes of these keys. Returns false if the arguments have another form.
    fn add_keys<'a>(&'a self, arguments: &[&[u8]], keys: &mut Vec<(usize, &'a KeyFlags)>) -> bool {
        let Some(mut first) = self.begin(arguments) else { return true };
        let count = arguments.len() as i64;
        let [a, b, c] = [0, 1, 2].map(|field| self.find.number(field));
        let (last, step) = match self.find.kind {
            "range" if a >= 0 => (first + a, b),
            "range" if c == 0 => (count + a, b),
            "range" => (first + (count - first) / c + a, b),
            "keynum" => {
                let number = arguments.get((first + a) as usize);
                let number = number.and_then(|number| crate::number::integer(number));
                let Some(number) = number.filter(|number| (0..=count).contains(number)) else {
                    return false;
                };
                first += b;
                (first + number - 1, c)
            }
            _ => return false,
        };
        if last >= count || last < first {
            return false;
        }
        let indexes = (first..=last).step_by(step.max(1) as usize);
        keys.extend(indexes.map(|index| (index as usize, &self.flags[..])));
        true
    }

    /// Writes it for `COMMAND`.
    pub(super) fn write(&self, reply: &mut Reply) {
        reply.map(3);
        reply.bulk(b"flags");
        reply.set(self.flags.len());
        self.flags.iter().for_each(|flag| reply.status(flag));
        reply.bulk(b"begin_search");
        self.begin.write(reply);
        reply.bulk(b"find_keys");
        self.find.write(reply);
    }
}

/// Returns the facts about a command, or a subcommand such as `config|get`.
pub(super) fn facts(name: &str) -> Option<&'static Facts> {
    static ALL: LazyLock<HashMap<&'static str, Facts, FxBuildHasher>> = LazyLock::new(|| {
        let lines = include_str!("facts.txt").lines().filter(|line| !line.starts_with('#'));
        lines.map(parse).collect()
    });
    ALL.get(name)
}

fn parse(line: &'static str) -> (&'static str, Facts) {
    let mut parts = line.split(" | ").map(|part| part.trim_end_matches(" |"));
    let [name, flags, categories, positions, specs] =
        [(); 5].map(|()| parts.next().unwrap_or_default());
    let mut positions = positions.split_whitespace().map(|word| word.parse().unwrap_or(0));
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let facts = Facts {
        categories: all_categories(&flags, categories.split_whitespace()),
        flags,
        key_positions: [(); 3].map(|()| positions.next().unwrap_or(0)),
        key_specs: specs.split(';').filter(|spec| !spec.is_empty()).map(KeySpec::parse).collect(),
    };
    (name, facts)
}

/// Returns the named categories, and those that follow from the flags, as in Redis.
fn all_categories(flags: &[&str], named: impl Iterator<Item = &'static str> + Clone) -> Categories {
    let is_script = named.clone().any(|name| name == "scripting");
    let implied = flags.iter().flat_map(|flag| match *flag {
        "write" => &["write"][..],
        "readonly" if !is_script => &["read"],
        "admin" => &["admin", "dangerous"],
        "pubsub" => &["pubsub"],
        "blocking" => &["blocking"],
        "fast" => &["fast"],
        _ => &[],
    });
    let slow = (!flags.contains(&"fast")).then_some("slow");
    let names = named.chain(implied.copied()).chain(slow);
    let categories = names.filter_map(|name| Categories::named(name.as_bytes()));
    categories.fold(Categories::default(), Categories::and)
}
