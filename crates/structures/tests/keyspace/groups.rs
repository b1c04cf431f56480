//! Consumer groups of streams: random changes give what plain maps give, and cost few pages.

use std::collections::BTreeMap;

use ebbtide_structures::keyspace::{
    Collection, Consumer, EntryId, Group, Kind, NAME_BYTES_MAX, Pending, StreamState,
};
use ebbtide_testbed::Plain;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::collections::{DATABASE, Store, pages_read};

/// A group as plain maps: its last id, its consumers, and the owner of each pending entry.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    last: EntryId,
    read: Option<u64>,
    seen_ms: BTreeMap<Vec<u8>, u64>,
    pending: BTreeMap<EntryId, (Vec<u8>, u64, u64)>,
}

fn id(number: u64) -> EntryId {
    EntryId { ms: number >> 3, sequence: number & 7 }
}

/// One of a few names. Some are long and begin alike.
fn name(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let number = rng.random_range(0..8u8);
    let length = [0, 3, 800, 801, 900, 5_000, NAME_BYTES_MAX - 1, 10][usize::from(number)];
    [vec![b'n'; length], vec![number; usize::from(number > 0)]].concat()
}

/// A group of the stream as a model.
fn found(stream: &Collection, memory: &mut Plain, group: &Group) -> Model {
    let mut model = Model { last: group.last, read: group.entries_read, ..Model::default() };
    let mut consumers: Vec<Consumer> = Vec::new();
    loop {
        let more = stream.consumers(memory, group, consumers.len() as u64, 3);
        if more.is_empty() {
            break;
        }
        consumers.extend(more);
    }
    assert_eq!(consumers.len() as u64, stream.consumer_count(memory, group));
    let count = stream.pending_count(memory, group, None);
    while (model.pending.len() as u64) < count {
        let rank = model.pending.len() as u64;
        for pending in stream.read_pending(memory, group, None, (rank, 7)) {
            let owner = stream.consumer_name(memory, group, pending.consumer);
            assert_eq!(
                stream.pending_before(memory, group, None, pending.id),
                model.pending.len() as u64
            );
            model.pending.insert(pending.id, (owner, pending.delivered_ms, pending.deliveries));
        }
    }
    for consumer in consumers {
        let by_name = stream.find_consumer(memory, group, &consumer.name);
        assert_eq!(by_name.as_ref(), Some(&consumer));
        let own: Vec<_> = model.pending.iter().filter(|(_, of)| of.0 == consumer.name).collect();
        assert_eq!(stream.pending_count(memory, group, Some(&consumer)), own.len() as u64);
        if let Some((last, (_, delivered_ms, deliveries))) = own.last() {
            let rank = own.len() as u64 - 1;
            let read = stream.read_pending(memory, group, Some(&consumer), (rank, 9));
            let (id, number) = (**last, consumer.number);
            let (delivered_ms, deliveries) = (*delivered_ms, *deliveries);
            assert_eq!(read, [Pending { id, consumer: number, delivered_ms, deliveries }]);
            assert_eq!(stream.pending_before(memory, group, Some(&consumer), id), rank);
        }
        model.seen_ms.insert(consumer.name, consumer.seen_ms);
    }
    model
}

/// Makes a change of a stream and of its model.
fn change(
    stream: &mut Collection,
    memory: &mut Plain,
    groups: &mut BTreeMap<Vec<u8>, Model>,
    rng: &mut Pcg64Mcg,
) {
    let of = name(rng);
    let Some(mut group) = stream.find_group(memory, &of) else {
        assert!(!groups.contains_key(&of));
        let read = Some(rng.next_u64() >> 1).filter(|_| rng.random_bool(0.5));
        stream.add_group(memory, &of, id(3), read).expect("room");
        groups.insert(of, Model { last: id(3), read, ..Model::default() });
        return;
    };
    let model = groups.get_mut(&of).expect("a group");
    let (who, at) = (name(rng), rng.random_range(0..600));
    let consumer = stream.find_consumer(memory, &group, &who);
    assert_eq!(consumer.is_some(), model.seen_ms.contains_key(&who));
    match rng.random_range(0..200) {
        0 => {
            while stream.remove_from_group(memory, &group).is_some() {}
            groups.remove(&of);
        }
        1..4 => {
            let Some(consumer) = consumer else { return };
            while stream.remove_from_consumer(memory, &group, &consumer).is_some() {}
            model.seen_ms.remove(&who);
            model.pending.retain(|_, of| of.0 != who);
        }
        4..50 => {
            let gone = stream.remove_pending(memory, &group, id(at));
            assert_eq!(gone, model.pending.remove(&id(at)).is_some());
        }
        _ => {
            let consumer = match consumer {
                Some(old) => Consumer { seen_ms: at, ..old },
                None => stream.add_consumer(memory, &mut group, &who, at).expect("room"),
            };
            stream.put_consumer(memory, &group, &consumer).expect("room");
            model.seen_ms.insert(who.clone(), at);
            (group.last, model.last) = (id(at), id(at));
            stream.put_group(memory, &group).expect("room");
            let old = stream.find_pending(memory, &group, id(at)).map_or(0, |old| old.deliveries);
            let (number, deliveries) = (consumer.number, old + 1);
            let pending = Pending { id: id(at), consumer: number, delivered_ms: at, deliveries };
            stream.put_pending(memory, &group, &pending).expect("room");
            model.pending.insert(id(at), (who, at, deliveries));
        }
    }
}

#[test]
fn groups_consumers_and_pending_entries_are_those_of_plain_maps() {
    for seed in 0..4 {
        let (mut rng, mut store) = (Pcg64Mcg::seed_from_u64(seed), Store::new());
        store.change(b"s", Kind::Stream, |stream, _| {
            stream.set_stream_state(StreamState::default());
        });
        let free = store.free_after_upkeep();
        let mut groups: BTreeMap<Vec<u8>, Model> = BTreeMap::new();
        for _ in 0..25 {
            store.change(b"s", Kind::Stream, |stream, memory| {
                stream.set_stream_state(StreamState::default());
                (0..50).for_each(|_| change(stream, memory, &mut groups, &mut rng));
                assert_eq!(stream.group_count(memory), groups.len() as u64);
                let all = stream.groups(memory, 0, 3);
                assert!(all.len() <= 3 && (groups.is_empty() || !all.is_empty()));
                for (of, model) in &groups {
                    let group = stream.find_group(memory, of).expect("a group");
                    assert_eq!(&found(stream, memory, &group), model);
                }
            });
            let key = store.keys.key(b"s");
            let is_large = store.open(&key, Kind::Stream).is_large();
            assert_eq!(is_large, !groups.is_empty(), "a stream without groups is packed again");
        }
        store.keys.remove(&mut store.memory, DATABASE, &store.keys.key(b"s"));
        // The leaf of the key stays.
        assert_eq!(store.free_after_upkeep(), free, "all pages are given back");
    }
}

#[test]
fn a_pending_entry_among_many_costs_four_pages() {
    let mut store = Store::new();
    store.change(b"s", Kind::Stream, |stream, memory| {
        let mut group = stream.add_group(memory, b"group", id(0), None).expect("room");
        let consumers = [b"one", b"two"];
        let consumers =
            consumers.map(|name| stream.add_consumer(memory, &mut group, name, 5).expect("room"));
        for number in 0..100_000 {
            let consumer = consumers[number as usize % 2].number;
            let pending =
                Pending { id: id(number), consumer, delivered_ms: 1 << 41, deliveries: 1 };
            stream.put_pending(memory, &group, &pending).expect("room");
        }
    });
    let key = store.keys.key(b"s");
    let stream = store.open(&key, Kind::Stream);
    let group = stream.find_group(&mut store.memory, b"group").expect("a group");
    for number in [0, 50_001, 99_999] {
        let read = pages_read(&mut store, |_, memory| {
            assert!(stream.find_pending(memory, &group, id(number)).is_some());
            assert!(stream.pending_before(memory, &group, None, id(number)) == number);
        });
        assert!(read <= 6, "{read} pages");
    }
    let bytes = stream.estimated_bytes(&mut store.memory) / 100_000;
    assert!(bytes < 150, "{bytes} bytes for a pending entry");
}
