//! Large transactions: what frameworks send, and the bound.

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, bulk, encode, ok};

const DURABLE: Policy = Policy::Every(Span::from_us(100_000));

fn server(dram_bytes: u64) -> Server {
    Server::start(|options| {
        options.durability = DURABLE;
        options.dram_bytes = dram_bytes;
        options.capacity_bytes = Some(1 << 30);
    })
}

/// Sends `MULTI`, the requests and `EXEC` at once. Returns the reply of `EXEC`.
fn exec(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Reply {
    let mut bytes = encode(&[b"MULTI"]);
    for request in requests {
        bytes.extend(encode(&request.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    }
    bytes.extend(encode(&[b"EXEC"]));
    let mut sender = client.other_end();
    std::thread::scope(|scope| {
        scope.spawn(move || std::io::Write::write_all(&mut sender, &bytes).expect("sent"));
        for _ in 0..=requests.len() {
            assert!(!matches!(client.reply(), Some(Reply::Error(_)) | None));
        }
        client.reply().expect("a reply")
    })
}

fn set(key: &str, value: Vec<u8>) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), key.as_bytes().to_vec(), value]
}

#[test]
fn transactions_of_frameworks_fit_at_64_mib() {
    let server = server(64 << 20);
    let mut client = server.client();
    // redis-py's pipeline is a transaction.
    let sets: Vec<_> = (0..200).map(|index| set(&format!("p{index}"), vec![b'v'; 1000])).collect();
    assert_eq!(exec(&mut client, &sets), Reply::Array(vec![ok(); 200]));
    // Django's set_many: MSET, and an expiry for each key.
    let mut mset = vec![b"MSET".to_vec()];
    let mut requests = Vec::new();
    for index in 0..1000 {
        let key = format!("django{index}").into_bytes();
        mset.extend([key.clone(), vec![b'd'; 1000]]);
        requests.push(vec![b"EXPIRE".to_vec(), key, b"300".to_vec()]);
    }
    requests.insert(0, mset.clone());
    let Reply::Array(replies) = exec(&mut client, &requests) else { panic!("it fits") };
    assert_eq!((replies.len(), &replies[0]), (1001, &ok()));
    assert!(replies[1..].iter().all(|reply| *reply == Reply::Integer(1)));
    client.call("flushall");
    let mset: Vec<&[u8]> = mset.iter().map(Vec::as_slice).collect();
    assert_eq!(client.command(&mset), ok());
    assert_eq!(client.call("dbsize"), Reply::Integer(1000));
}

#[test]
fn long_values_of_a_transaction_are_written_by_every_command() {
    let server = server(64 << 20);
    let mut client = server.client();
    let sets: Vec<_> =
        (0..40).map(|index| set(&format!("large{index}"), vec![b'a'; 300_000])).collect();
    assert_eq!(exec(&mut client, &sets), Reply::Array(vec![ok(); 40]));
    let word = |text: &str| text.as_bytes().to_vec();
    let requests = [
        vec![word("APPEND"), word("large0"), vec![b'b'; 20_000]],
        vec![word("SETRANGE"), word("large1"), word("100"), vec![b'c'; 40_000]],
        vec![word("COPY"), word("large2"), word("copy")],
        vec![word("BITOP"), word("NOT"), word("not"), word("large3")],
        vec![word("STRLEN"), word("copy")],
        vec![
            word("EVAL"),
            word("return redis.call('set', KEYS[1], ('x'):rep(200000))"),
            word("1"),
            word("script"),
        ],
    ];
    let numbers = [320_000, 300_000, 1, 300_000, 300_000].map(Reply::Integer);
    let expected: Vec<Reply> = numbers.into_iter().chain([ok()]).collect();
    assert_eq!(exec(&mut client, &requests), Reply::Array(expected));
    for (key, length) in
        [("large0", 320_000), ("copy", 300_000), ("not", 300_000), ("script", 200_000)]
    {
        assert_eq!(client.call(&format!("strlen {key}")), Reply::Integer(length), "{key}");
    }
    assert_eq!(client.call("getrange large1 98 101"), bulk("aacc"));
    assert_eq!(client.call("getrange large0 299999 300000"), bulk("ab"));
}

/// The engine has the budget without the buffers of connections.
fn says_the_bound(text: &str) {
    let most = text.split("expected at most ").nth(1).and_then(|rest| rest.split(',').next());
    let most: usize = most.expect(text).parse().expect(text);
    assert!((1 << 20..2 << 20).contains(&most), "{text}");
    assert!(text.contains("a 32nd of the engine's DRAM"), "{text}");
}

#[test]
fn a_transaction_beyond_the_bound_changes_nothing_and_says_the_bound() {
    let server = server(64 << 20);
    let mut client = server.client();
    let sets: Vec<_> =
        (0..130).map(|index| set(&format!("k{index}"), vec![b'v'; 30_000])).collect();
    let Reply::Error(text) = exec(&mut client, &sets) else { panic!("it does not fit") };
    says_the_bound(&text);
    assert_eq!(client.call("dbsize"), Reply::Integer(0));
    let body = "for i = 1, 130 do redis.call('set', 'k' .. i, ('v'):rep(30000)) end";
    let Reply::Error(text) = client.command(&[b"EVAL", body.as_bytes(), b"0"]) else {
        panic!("it does not fit")
    };
    says_the_bound(&text);
    assert_eq!(client.call("dbsize"), Reply::Integer(0));
    assert_eq!(client.call("set a b"), ok());
}
