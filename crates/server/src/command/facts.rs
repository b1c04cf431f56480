//! Flags and key specifications of commands, as Redis has them. `facts.txt` lists them.

use std::collections::HashMap;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;

use crate::resp::Reply;

/// Facts about a command or a subcommand.
#[derive(Debug)]
pub(super) struct Facts {
    /// Its flags.
    pub(super) flags: Vec<&'static str>,
    /// Index of the first key, of the last (from the end if negative), and the step between keys.
    pub(super) key_positions: [i64; 3],
    /// Where its keys are.
    pub(super) key_specs: Vec<KeySpec>,
}

impl Facts {
    /// True if it has a flag.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
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
    let [name, flags, positions, specs] = [(); 4].map(|()| parts.next().unwrap_or_default());
    let mut positions = positions.split_whitespace().map(|word| word.parse().unwrap_or(0));
    let facts = Facts {
        flags: flags.split_whitespace().collect(),
        key_positions: [(); 3].map(|()| positions.next().unwrap_or(0)),
        key_specs: specs.split(';').filter(|spec| !spec.is_empty()).map(KeySpec::parse).collect(),
    };
    (name, facts)
}
