//! HyperLogLogs have the bytes and the counts of a stock `redis-server`.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Redis;
use crate::client::{Client, Reply, Server, bulk, ok};

/// Bytes of the header with a stored count, which this server does not store.
const COUNT: std::ops::Range<usize> = 8..16;

/// Returns the string of a key, without the stored count.
fn string(client: &mut Client, key: &str) -> Option<Vec<u8>> {
    match client.call(&format!("get {key}")) {
        Reply::Bulk(mut bytes) => {
            bytes[COUNT].fill(0);
            Some(bytes)
        }
        _ => None,
    }
}

fn command(rng: &mut Pcg64Mcg) -> String {
    let key = |rng: &mut Pcg64Mcg| format!("h{}", rng.random_range(0..5));
    let (one, two, three) = (key(rng), key(rng), key(rng));
    match rng.random_range(0..20) {
        0..12 => {
            let most = [3, 30, 250][rng.random_range(0..3)];
            let count = rng.random_range(0..most);
            let elements: Vec<String> =
                (0..count).map(|_| format!("e{}", rng.random_range(0..20_000))).collect();
            format!("pfadd {one} {}", elements.join(" ")).trim_end().into()
        }
        12 | 13 => format!("pfcount {one}"),
        14 => format!("pfcount {one} {two} {three}"),
        15 => format!("pfmerge {one} {two} {three}"),
        16 => format!("pfmerge {one}"),
        17 => format!("del {one}"),
        18 => format!("copy {one} {two} replace"),
        _ => format!("expire {one} 1000"),
    }
}

#[test]
fn random_commands_give_the_replies_and_the_strings_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..2_000 {
        let line = command(&mut rng);
        assert_eq!(redis.client.call(&line), ours.call(&line), "{line}");
        let key = line.split(' ').nth(1).expect("a key");
        assert!(string(&mut redis.client, key) == string(&mut ours, key), "{line:.60}");
    }
}

#[test]
fn dumps_move_between_here_and_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    for (key, count) in [("sparse", 50), ("dense", 5_000)] {
        for element in 0..count {
            redis.client.call(&format!("pfadd {key} {element}"));
        }
        let expected = redis.client.call(&format!("pfcount {key}"));
        let Reply::Bulk(dump) = redis.client.call(&format!("dump {key}")) else {
            panic!("no dump")
        };
        assert_eq!(ours.command(&[b"restore", key.as_bytes(), b"0", &dump]), ok());
        assert_eq!(ours.call(&format!("pfcount {key}")), expected);
        ours.call(&format!("pfadd {key} other"));
        let Reply::Bulk(dump) = ours.call(&format!("dump {key}")) else { panic!("no dump") };
        assert_eq!(redis.client.command(&[b"restore", b"back", b"0", &dump, b"replace"]), ok());
        assert_eq!(redis.client.call("pfcount back"), ours.call(&format!("pfcount {key}")));
    }
}

#[test]
fn other_values_and_damaged_ones_give_the_errors_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    let head = |form: u8| [b"HYLL", &[form][..], &[0; 10], &[0x80]].concat();
    let strings = [
        b"text".to_vec(),
        b"HYLL".to_vec(),
        head(0),
        head(1),
        head(2),
        [head(1), vec![0x7f]].concat(),
        [head(1), vec![0x7f, 0xfe]].concat(),
        [head(1), vec![0x7f, 0xff, 0x84]].concat(),
        [head(1), vec![0x7f, 0xfe, 0x84]].concat(),
        [head(0), vec![0; 12_288]].concat(),
    ];
    for client in [&mut redis.client, &mut ours] {
        client.call("rpush list a");
        client.call("pfadd good a b c");
    }
    for string in &strings {
        for line in ["pfcount k", "pfadd k", "pfcount k good", "pfmerge to k", "pfmerge k good"] {
            for client in [&mut redis.client, &mut ours] {
                assert_eq!(client.command(&[b"set", b"k", string]), ok());
                client.call("del to");
            }
            assert_eq!(redis.client.call(line), ours.call(line), "{line} of {:.60?}", &string[4..]);
        }
    }
    for line in ["pfadd list a", "pfcount list", "pfcount good list", "pfmerge good list"] {
        assert_eq!(redis.client.call(line), ours.call(line), "{line}");
    }
}

#[test]
fn counts_are_close_to_the_number_of_elements_and_survive_in_transactions() {
    let server = Server::start(|_| {});
    let mut client = server.client();
    for part in 0..100 {
        let elements: Vec<String> = (0..200).map(|at| format!("{}", part * 200 + at)).collect();
        client.call(&format!("pfadd all {}", elements.join(" ")));
    }
    let Reply::Integer(count) = client.call("pfcount all") else { panic!("no count") };
    assert!((19_400..=20_600).contains(&count), "{count}");
    let elements: Vec<String> = (0..1_000).map(|at| format!("x{at}")).collect();
    assert_eq!(client.call(&format!("pfadd many {}", elements.join(" "))), Reply::Integer(1));
    for line in ["multi", "pfadd small a b", "pfmerge small many", "pfcount small none"] {
        client.call(line);
    }
    let Reply::Array(replies) = client.call("exec") else { panic!("no replies") };
    assert_eq!(replies[..2], [Reply::Integer(1), ok()]);
    assert!(matches!(replies[2], Reply::Integer(970..=1_035)), "{replies:?}");
    assert_eq!(client.call("object encoding small"), bulk("raw"));
}
