//! The collections of a month of use: how they change, and what they must hold.

use std::collections::BTreeMap;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, encode};
use super::month::{PIPELINE, Value};

/// Collections of each type. The first one has half of all elements.
const OF_A_TYPE: u32 = 20;

const TYPES: [Type; 5] = [Type::Hash, Type::Set, Type::SortedSet, Type::List, Type::Stream];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Type {
    Hash,
    Set,
    SortedSet,
    List,
    Stream,
}

/// A field, member, element or entry. Only a sorted set has scores.
#[derive(Debug, Clone, Copy)]
struct Element {
    value: Value,
    score: u32,
}

/// By number. A list and a stream have them in this order.
type Elements = BTreeMap<u32, Element>;

/// All collections with what they must hold.
#[derive(Debug, Default)]
pub(crate) struct Collections {
    all: BTreeMap<(Type, u32), Elements>,
    next: u32,
}

impl Collections {
    /// Bytes of all elements.
    pub(crate) fn bytes(&self) -> usize {
        self.all.values().flat_map(Elements::values).map(|element| element.value.bytes).sum()
    }

    /// The number of collections.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }

    /// Adds elements until each type has `bytes` of them.
    pub(crate) fn fill(&mut self, client: &mut Client, rng: &mut Pcg64Mcg, bytes: usize) {
        for kind in TYPES {
            let of_type = self.all.iter().filter(|((of, _), _)| *of == kind);
            let elements = of_type.flat_map(|(_, elements)| elements.values());
            let mut there: usize = elements.map(|element| element.value.bytes).sum();
            let mut requests = Vec::new();
            while there < bytes {
                let (number, element) = (self.next, kind.draw(rng));
                let place =
                    if number.is_multiple_of(2) { 0 } else { 1 + number / 2 % (OF_A_TYPE - 1) };
                requests.push(kind.add(place, number, element));
                self.all.entry((kind, place)).or_default().insert(number, element);
                self.next += 1;
                there += element.value.bytes;
            }
            send(client, &requests);
        }
    }

    /// Replaces every element with one of another size. A stream gets new entries instead.
    pub(crate) fn overwrite(&mut self, client: &mut Client, rng: &mut Pcg64Mcg) {
        for (&(kind, place), elements) in &mut self.all {
            let (key, length) = (kind.key(place), elements.len().to_string());
            let mut requests = Vec::new();
            for (position, (mut number, old)) in std::mem::take(elements).into_iter().enumerate() {
                let new = kind.draw(rng);
                match kind {
                    Type::Hash => requests.push(kind.add(place, number, new)),
                    Type::Set | Type::SortedSet => {
                        requests.push(kind.remove(place, number, old));
                        requests.push(kind.add(place, number, new));
                    }
                    Type::List => {
                        let (position, value) = (position.to_string(), new.value.write());
                        let place = position.as_bytes();
                        requests.push(encode(&[b"lset", key.as_bytes(), place, &value]));
                    }
                    Type::Stream => {
                        number = self.next;
                        self.next += 1;
                        requests.push(kind.add(place, number, new));
                    }
                }
                elements.insert(number, new);
            }
            if kind == Type::Stream {
                requests.push(encode(&[b"xtrim", key.as_bytes(), b"maxlen", length.as_bytes()]));
            }
            send(client, &requests);
        }
    }

    /// Removes every second element, and of a list its first half.
    pub(crate) fn delete_half(&mut self, client: &mut Client) {
        for (&(kind, place), elements) in &mut self.all {
            let half = elements.len() / 2;
            let goes = |position: usize| match kind {
                Type::List => position < half,
                _ => position.is_multiple_of(2),
            };
            let numbers = elements.keys().copied().enumerate();
            let numbers: Vec<u32> = numbers.filter(|(at, _)| goes(*at)).map(|(_, n)| n).collect();
            let removed = numbers.into_iter().map(|number| {
                let element = elements.remove(&number).expect("it is there");
                kind.remove(place, number, element)
            });
            send(client, &removed.collect::<Vec<_>>());
        }
        self.all.retain(|_, elements| !elements.is_empty());
    }

    /// Removes all elements, one after the other. Only an empty stream remains, and is deleted.
    pub(crate) fn empty(&mut self, client: &mut Client) {
        for ((kind, place), elements) in std::mem::take(&mut self.all) {
            let removed =
                elements.iter().map(|(number, element)| kind.remove(place, *number, *element));
            send(client, &removed.collect::<Vec<_>>());
            let left = client.command(&[b"del", kind.key(place).as_bytes()]);
            assert_eq!(left, Reply::Integer(i64::from(kind == Type::Stream)), "{kind:?}:{place}");
        }
    }

    /// Compares all collections with what they must hold.
    pub(crate) fn check(&self, client: &mut Client, phase: &str) {
        for (&(kind, place), elements) in &self.all {
            let mut words = Vec::new();
            flatten(kind.read(client, place), &mut words);
            let mut found: Vec<&[Vec<u8>]> = words.chunks(kind.words()).collect();
            let expected: Vec<Vec<Vec<u8>>> = kind.rows(elements);
            if matches!(kind, Type::Hash | Type::Set) {
                found.sort_unstable();
            }
            assert!(found == expected, "{phase}: {kind:?}:{place}");
        }
    }
}

impl Type {
    fn key(self, place: u32) -> String {
        format!("{self:?}:{place}")
    }

    fn draw(self, rng: &mut Pcg64Mcg) -> Element {
        let bytes = match self {
            Type::Hash | Type::List | Type::Stream => 10..600,
            Type::Set | Type::SortedSet => 10..60,
        };
        let value = Value { seed: rng.next_u64(), bytes: rng.random_range(bytes) };
        Element { value, score: rng.random_range(0..1_000_000) }
    }

    /// Adds an element, or gives a field of a hash another value.
    fn add(self, place: u32, number: u32, Element { value, score }: Element) -> Vec<u8> {
        let (key, value) = (self.key(place), value.write());
        let (key, score) = (key.as_bytes(), score.to_string());
        match self {
            Type::Hash => encode(&[b"hset", key, field(number).as_bytes(), &value]),
            Type::Set => encode(&[b"sadd", key, &value]),
            Type::SortedSet => encode(&[b"zadd", key, score.as_bytes(), &value]),
            Type::List => encode(&[b"rpush", key, &value]),
            Type::Stream => encode(&[b"xadd", key, id(number).as_bytes(), b"v", &value]),
        }
    }

    /// Removes an element: the first one of a list.
    fn remove(self, place: u32, number: u32, Element { value, .. }: Element) -> Vec<u8> {
        let (key, value) = (self.key(place), value.write());
        let key = key.as_bytes();
        match self {
            Type::Hash => encode(&[b"hdel", key, field(number).as_bytes()]),
            Type::Set => encode(&[b"srem", key, &value]),
            Type::SortedSet => encode(&[b"zrem", key, &value]),
            Type::List => encode(&[b"lpop", key]),
            Type::Stream => encode(&[b"xdel", key, id(number).as_bytes()]),
        }
    }

    fn read(self, client: &mut Client, place: u32) -> Reply {
        let key = self.key(place);
        client.call(&match self {
            Type::Hash => format!("hgetall {key}"),
            Type::Set => format!("smembers {key}"),
            Type::SortedSet => format!("zrange {key} 0 -1 withscores"),
            Type::List => format!("lrange {key} 0 -1"),
            Type::Stream => format!("xrange {key} - +"),
        })
    }

    /// Words of an element in the reply to a read.
    fn words(self) -> usize {
        match self {
            Type::Set | Type::List => 1,
            Type::Hash | Type::SortedSet => 2,
            Type::Stream => 3,
        }
    }

    /// The words of all elements: in the order of the reply, or sorted if that has no order.
    fn rows(self, elements: &Elements) -> Vec<Vec<Vec<u8>>> {
        let mut all: Vec<(u32, Vec<Vec<u8>>)> = elements
            .iter()
            .map(|(&number, &Element { value, score })| {
                let value = value.write();
                match self {
                    Type::Hash => (0, vec![field(number).into_bytes(), value]),
                    Type::Set => (0, vec![value]),
                    Type::SortedSet => (score, vec![value, score.to_string().into_bytes()]),
                    Type::List => (number, vec![value]),
                    Type::Stream => (number, vec![id(number).into_bytes(), b"v".to_vec(), value]),
                }
            })
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(_, words)| words).collect()
    }
}

fn field(number: u32) -> String {
    format!("field:{number}")
}

fn id(number: u32) -> String {
    format!("{}-0", number + 1)
}

/// Sends requests in batches. None may fail.
fn send(client: &mut Client, requests: &[Vec<u8>]) {
    for batch in requests.chunks(PIPELINE) {
        client.send(&batch.concat());
        for _ in batch {
            let reply = client.reply().expect("a reply");
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    }
}

/// Adds the words of a reply to `words`.
fn flatten(reply: Reply, words: &mut Vec<Vec<u8>>) {
    match reply {
        Reply::Bulk(word) => words.push(word),
        Reply::Array(replies) => replies.into_iter().for_each(|reply| flatten(reply, words)),
        other => panic!("no words: {other:?}"),
    }
}
