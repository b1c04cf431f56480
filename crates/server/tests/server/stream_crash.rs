//! A server is killed while clients add, read and acknowledge entries of a stream. No entry, no
//! delivery and no acknowledgement that was replied is lost.

use std::collections::{BTreeMap, BTreeSet};

use ebbtide_server::EvictionPolicy;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, encode};
use super::eviction_crash::{Process, serve_for_another_test};

const CONSUMERS: [&str; 3] = ["one", "two", "three"];

/// Requests that a client has under way at once.
const PIPELINE: usize = 12;

#[test]
fn serves_streams_for_another_test() {
    serve_for_another_test(48 << 20, EvictionPolicy::NoEviction);
}

/// What was replied.
#[derive(Default)]
struct Model {
    added: BTreeSet<u64>,
    /// Consumers of the entries that are pending.
    pending: BTreeMap<u64, usize>,
    acknowledged: BTreeSet<u64>,
    /// The last entry that was delivered.
    last: u64,
    /// The last id that a client has sent.
    sent: u64,
}

#[derive(Clone, Debug)]
enum Request {
    Add(u64),
    Read(usize),
    Acknowledge(Vec<u64>),
}

fn id(number: u64) -> String {
    format!("{number}-0")
}

fn number(id: &Reply) -> u64 {
    let Reply::Bulk(id) = id else { panic!("{id:?}") };
    let id = String::from_utf8_lossy(id);
    id.split('-').next().and_then(|ms| ms.parse().ok()).expect("an id")
}

fn parts(reply: &Reply) -> &[Reply] {
    match reply {
        Reply::Array(parts) => parts,
        other => panic!("{other:?}"),
    }
}

/// The numbers of the entries in a reply to a reader.
fn read_of(reply: &Reply) -> Vec<u64> {
    match reply {
        Reply::Null => Vec::new(),
        reply => {
            let entries = parts(&parts(&parts(reply)[0])[1]);
            entries.iter().map(|entry| number(&parts(entry)[0])).collect()
        }
    }
}

impl Model {
    /// Makes requests of the client of this consumer, and returns their bytes.
    fn requests(&mut self, consumer: usize, rng: &mut Pcg64Mcg) -> (Vec<Request>, Vec<u8>) {
        let mut own: Vec<u64> =
            self.pending.iter().filter(|(_, of)| **of == consumer).map(|(id, _)| *id).collect();
        let (mut requests, mut bytes) = (Vec::new(), Vec::new());
        for _ in 0..PIPELINE {
            let request = match rng.random_range(0..3) {
                0 => Request::Read(rng.random_range(1..100)),
                1 if !own.is_empty() => {
                    let count = rng.random_range(1..=own.len().min(60));
                    let mut ids = Vec::new();
                    for _ in 0..count {
                        ids.push(own.swap_remove(rng.random_range(0..own.len())));
                    }
                    Request::Acknowledge(ids)
                }
                _ => {
                    self.sent += 1;
                    Request::Add(self.sent)
                }
            };
            let mut words: Vec<String> = match &request {
                // All add through one client, so that the ids grow.
                Request::Add(number) => vec!["xadd".into(), "s".into(), id(*number)],
                Request::Read(count) => {
                    let line = format!(
                        "xreadgroup group g {} count {count} streams s >",
                        CONSUMERS[consumer]
                    );
                    line.split(' ').map(String::from).collect()
                }
                Request::Acknowledge(ids) => {
                    let words = ["xack", "s", "g"].map(String::from).into_iter();
                    words.chain(ids.iter().map(|number| id(*number))).collect()
                }
            };
            if let Request::Add(number) = &request {
                let length = if number % 50 == 0 { 3_000 } else { 20 };
                words.extend(["f".into(), "v".repeat(length)]);
            }
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            bytes.extend(encode(&words));
            requests.push(request);
        }
        (requests, bytes)
    }

    /// Notes a reply.
    fn replied(&mut self, consumer: usize, request: &Request, reply: &Reply) {
        match request {
            Request::Add(number) => {
                assert_eq!(*reply, Reply::Bulk(id(*number).into_bytes()));
                self.added.insert(*number);
            }
            Request::Read(_) => {
                for number in read_of(reply) {
                    assert!(number > self.last, "{number} was delivered before");
                    self.last = number;
                    self.pending.insert(number, consumer);
                }
            }
            Request::Acknowledge(ids) => {
                assert_eq!(*reply, Reply::Integer(ids.len() as i64));
                for number in ids {
                    self.pending.remove(number);
                    self.acknowledged.insert(*number);
                }
            }
        }
    }

    /// Compares with the server. `open` has the requests without a reply, which may have taken
    /// effect. Then it agrees with the server.
    fn check(&mut self, client: &mut Client, open: &[Request]) {
        let mut unsure: BTreeSet<u64> = BTreeSet::new();
        for request in open {
            if let Request::Acknowledge(ids) = request {
                unsure.extend(ids);
            }
        }
        let found: BTreeSet<u64> = parts(&client.call("xrange s - +"))
            .iter()
            .map(|entry| number(&parts(entry)[0]))
            .collect();
        assert!(self.added.is_subset(&found), "an entry is lost");
        self.added = found;
        let mut pending = BTreeMap::new();
        for entry in parts(&client.call("xpending s g - + 1000000")) {
            let Reply::Bulk(name) = &parts(entry)[1] else { panic!("a name") };
            let consumer = CONSUMERS.iter().position(|of| of.as_bytes() == name);
            pending.insert(number(&parts(entry)[0]), consumer.expect("a consumer"));
        }
        for (number, consumer) in &self.pending {
            let is_there = pending.get(number) == Some(consumer);
            let may_be_gone = unsure.contains(number) && !pending.contains_key(number);
            assert!(is_there || may_be_gone, "the delivery of {number} is lost");
            if may_be_gone {
                self.acknowledged.insert(*number);
            }
        }
        for number in pending.keys() {
            assert!(!self.acknowledged.contains(number), "{number} was acknowledged");
            assert!(
                self.pending.contains_key(number) || *number > self.last,
                "{number} was not read"
            );
        }
        self.last = self.last.max(pending.keys().last().copied().unwrap_or(0));
        self.pending = pending;
        let of_consumers: i64 = parts(&client.call("xinfo consumers s g"))
            .iter()
            .map(|consumer| match parts(consumer)[3] {
                Reply::Integer(count) => count,
                _ => panic!("a number"),
            })
            .sum();
        assert_eq!(of_consumers as usize, self.pending.len());
    }
}

#[test]
fn no_entry_delivery_or_acknowledgement_is_lost_by_a_kill() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let (mut model, mut open) = (Model::default(), Vec::new());
    for round in 0..6 {
        let server = Process::start(folder.path(), "stream_crash::serves_streams_for_another_test");
        let mut clients = CONSUMERS.map(|_| Client::connect(server.address));
        if round == 0 {
            clients[0].call("xgroup create s g 0 mkstream");
            CONSUMERS.iter().for_each(|name| {
                clients[0].call(&format!("xgroup createconsumer s g {name}"));
            });
        }
        model.check(&mut clients[0], &open);
        open.clear();
        for turn in 0..60 {
            let consumer = turn % CONSUMERS.len();
            let (requests, bytes) = model.requests(consumer, &mut rng);
            clients[consumer].send(&bytes);
            for request in requests {
                let reply = clients[consumer].reply().expect("a reply");
                model.replied(consumer, &request, &reply);
            }
        }
        // Of these it is not known what was done.
        for (consumer, client) in clients.iter_mut().enumerate() {
            let (requests, bytes) = model.requests(consumer, &mut rng);
            client.send(&bytes);
            open.extend(requests);
        }
    }
    let server = Process::start(folder.path(), "stream_crash::serves_streams_for_another_test");
    let mut client = Client::connect(server.address);
    model.check(&mut client, &open);
    let rest = read_of(&client.call("xreadgroup group g one streams s >"));
    assert!(rest.iter().all(|number| *number > model.last), "an entry was delivered twice");
    let all = model.pending.len() + model.acknowledged.len() + rest.len();
    assert!(model.added.len() > 1_000);
    assert_eq!(all, model.added.len(), "each entry is acknowledged, pending or new");
}
