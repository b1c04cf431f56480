//! Commands that wait for an element: the order of the clients, and the end of the waiting.

use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, bulk, ok};

/// Waits until this many clients wait for an element.
pub(crate) fn wait_for_blocked(client: &mut Client, count: usize) {
    let wanted = format!("blocked_clients:{count}\r\n");
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let Reply::Bulk(info) = client.call("info clients") else { panic!("text") };
        if String::from_utf8_lossy(&info).contains(&wanted) {
            return;
        }
        assert!(Instant::now() < until, "{}", String::from_utf8_lossy(&info));
    }
}

pub(crate) fn send(client: &mut Client, line: &str) {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.request(&words);
}

fn array(parts: &[&str]) -> Reply {
    Reply::Array(parts.iter().map(|part| bulk(part)).collect())
}

#[test]
fn clients_that_wait_are_served_in_the_order_in_which_they_came() {
    for cores in [1, 2] {
        let server = Server::start(|options| {
            options.cores = cores;
            options.dram_bytes = 24 << 20;
        });
        let mut pusher = server.client();
        let mut waiters: Vec<Client> = (0..5).map(|_| server.client()).collect();
        for (index, waiter) in waiters.iter_mut().enumerate() {
            send(waiter, "blpop other list 0");
            wait_for_blocked(&mut pusher, index + 1);
        }
        assert_eq!(pusher.call("rpush list a b c"), Reply::Integer(3));
        for (waiter, value) in waiters.iter_mut().zip(["a", "b", "c"]) {
            assert_eq!(waiter.reply(), Some(array(&["list", value])), "{cores} cores");
        }
        pusher.call("lpush list d");
        pusher.call("lpush other e");
        let mut last: Vec<Reply> = waiters[3..].iter_mut().filter_map(Client::reply).collect();
        last.sort_by_key(|reply| format!("{reply:?}"));
        assert_eq!(last, [array(&["list", "d"]), array(&["other", "e"])]);
        wait_for_blocked(&mut pusher, 0);
        assert_eq!(pusher.call("exists list other"), Reply::Integer(0));
        // The client is a usual one again.
        assert_eq!(waiters[0].call("ping"), Reply::Status("PONG".into()));
    }
}

#[test]
fn what_is_there_is_returned_at_once_and_a_timeout_ends_the_waiting() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("rpush l a b c d");
    assert_eq!(client.call("blpop nothing l 0"), array(&["l", "a"]));
    assert_eq!(client.call("brpop l 0"), array(&["l", "d"]));
    let popped = Reply::Array(vec![bulk("l"), array(&["b", "c"])]);
    assert_eq!(client.call("blmpop 0 2 nothing l left count 9"), popped);
    client.call("zadd z 1 one 2 two 3 three");
    assert_eq!(client.call("bzpopmin z 0"), array(&["z", "one", "1"]));
    assert_eq!(client.call("bzpopmax z 0"), array(&["z", "three", "3"]));
    for line in [
        "blpop l 0.01",
        "brpop l m 0.01",
        "bzpopmin z2 0.01",
        "blmpop 0.01 1 l left",
        "bzmpop 0.01 1 z2 max",
        "blmove l m left left 0.01",
        "brpoplpush l m 0.01",
    ] {
        assert_eq!(client.call(line), Reply::Null, "{line}");
    }
    for (line, text) in [
        ("blpop l x", "ERR timeout is not a float or out of range"),
        ("blpop l -1", "ERR timeout is negative"),
        ("blpop z 0", "WRONGTYPE Operation against a key holding the wrong kind of value"),
    ] {
        assert_eq!(client.call(line), Reply::Error(text.into()));
    }
    // Requests behind one that waits come after it.
    send(&mut client, "blpop l 0.01");
    send(&mut client, "ping");
    assert_eq!(client.reply(), Some(Reply::Null));
    assert_eq!(client.reply(), Some(Reply::Status("PONG".into())));
}

#[test]
fn a_transaction_never_waits_and_serves_those_that_do() {
    let server = Server::start(|options| options.durability = Policy::Always);
    let (mut waiter, mut other) = (server.client(), server.client());
    other.call("multi");
    for line in ["blpop l 0", "blmove l m left left 0", "bzpopmin z 0"] {
        assert_eq!(other.call(line), Reply::Status("QUEUED".into()));
    }
    assert_eq!(other.call("exec"), Reply::Array(vec![Reply::Null, Reply::Null, Reply::Null]));
    send(&mut waiter, "blmove l m left right 0");
    wait_for_blocked(&mut other, 1);
    other.call("set l text");
    other.call("del l");
    other.call("multi");
    other.call("rpush l a");
    other.call("lpush l b");
    assert_eq!(other.call("exec"), Reply::Array(vec![Reply::Integer(1), Reply::Integer(2)]));
    assert_eq!(waiter.reply(), Some(bulk("b")));
    assert_eq!(other.call("lrange m 0 -1"), array(&["b"]));
    assert_eq!(other.call("lrange l 0 -1"), array(&["a"]));
}

#[test]
fn a_client_that_leaves_waits_no_more_and_others_are_served() {
    let server = Server::start(|_| ());
    let (mut leaver, mut waiter, mut other) = (server.client(), server.client(), server.client());
    send(&mut leaver, "bzpopmin z 0");
    wait_for_blocked(&mut other, 1);
    send(&mut waiter, "bzmpop 0 1 z max count 2");
    wait_for_blocked(&mut other, 2);
    drop(leaver);
    wait_for_blocked(&mut other, 1);
    assert_eq!(other.call("zadd z 1 a 2 b 3 c"), Reply::Integer(3));
    let pair = |member: &str, score: &str| array(&[member, score]);
    let members = Reply::Array(vec![pair("c", "3"), pair("b", "2")]);
    assert_eq!(waiter.reply(), Some(Reply::Array(vec![bulk("z"), members])));
    // A renamed list serves those that wait for its new name.
    send(&mut waiter, "brpop new 0");
    wait_for_blocked(&mut other, 1);
    other.call("rpush old v");
    assert_eq!(other.call("rename old new"), ok());
    assert_eq!(waiter.reply(), Some(array(&["new", "v"])));
}

#[test]
fn many_producers_and_consumers_lose_nothing_and_see_nothing_twice() {
    const EACH: usize = 300;
    let server = Server::start(|options| {
        options.cores = 2;
        options.dram_bytes = 24 << 20;
    });
    let mut taken: Vec<String> = std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..6)
            .map(|_| {
                let mut client = server.client();
                scope.spawn(move || {
                    let mut taken = Vec::new();
                    loop {
                        let Reply::Array(parts) = client.call("brpop queue 0") else {
                            panic!("a value")
                        };
                        let Reply::Bulk(value) = &parts[1] else { panic!("a value") };
                        let value = String::from_utf8_lossy(value).into_owned();
                        if value == "end" {
                            return taken;
                        }
                        taken.push(value);
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..3)
            .map(|producer| {
                let mut client = server.client();
                scope.spawn(move || {
                    for number in 0..EACH {
                        client.call(&format!("lpush queue {producer}:{number}"));
                    }
                })
            })
            .collect();
        producers.into_iter().for_each(|producer| producer.join().expect("no panic"));
        let mut client = server.client();
        (0..6).for_each(|_| drop(client.call("lpush queue end")));
        consumers.into_iter().flat_map(|consumer| consumer.join().expect("no panic")).collect()
    });
    taken.sort();
    let mut expected: Vec<String> =
        (0..3).flat_map(|one| (0..EACH).map(move |number| format!("{one}:{number}"))).collect();
    expected.sort();
    assert_eq!(taken, expected);
}

#[test]
fn a_client_ends_the_waiting_of_another() {
    for cores in [1, 2] {
        let server = Server::start(|options| {
            options.cores = cores;
            options.dram_bytes = 24 << 20;
        });
        let mut other = server.client();
        let mut waiters: Vec<Client> = (0..3).map(|_| server.client()).collect();
        let ids: Vec<Reply> = waiters.iter_mut().map(|waiter| waiter.call("client id")).collect();
        let ids: Vec<i64> = ids
            .iter()
            .map(|id| if let Reply::Integer(id) = id { *id } else { panic!("{id:?}") })
            .collect();
        for (index, waiter) in waiters.iter_mut().enumerate() {
            send(waiter, "blpop list 0");
            wait_for_blocked(&mut other, index + 1);
        }
        assert_eq!(other.call(&format!("client unblock {}", ids[0])), Reply::Integer(1));
        assert_eq!(waiters[0].reply(), Some(Reply::Null));
        assert_eq!(other.call(&format!("client unblock {} ERROR", ids[1])), Reply::Integer(1));
        let told = Reply::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into());
        assert_eq!(waiters[1].reply(), Some(told));
        wait_for_blocked(&mut other, 1);
        assert_eq!(other.call(&format!("client unblock {}", ids[0])), Reply::Integer(0));
        assert_eq!(other.call("client unblock 999999 timeout"), Reply::Integer(0));
        assert!(matches!(other.call("client unblock 1 now"), Reply::Error(_)));
        // The third one goes on waiting, and the others do as before.
        assert_eq!(other.call("rpush list a b"), Reply::Integer(2));
        assert_eq!(waiters[2].reply(), Some(array(&["list", "a"])));
        assert_eq!(waiters[0].call("blpop list 0"), array(&["list", "b"]));
        assert_eq!(waiters[1].call("ping"), Reply::Status("PONG".into()));
    }
}

#[test]
fn a_client_that_waits_passes_over_keys_of_other_kinds() {
    let server = Server::start(|_| ());
    let (mut waiter, mut other) = (server.client(), server.client());
    for (line, fill, expected) in [
        ("blpop a b 0", "rpush b x", array(&["b", "x"])),
        ("brpop a b 0", "rpush b x", array(&["b", "x"])),
        ("blmpop 0 2 a b left", "rpush b x", Reply::Array(vec![bulk("b"), array(&["x"])])),
        ("bzpopmin a b 0", "zadd b 1 x", array(&["b", "x", "1"])),
        ("bzmpop 0 2 a b max", "zadd b 1 x", {
            Reply::Array(vec![bulk("b"), Reply::Array(vec![array(&["x", "1"])])])
        }),
    ] {
        send(&mut waiter, line);
        wait_for_blocked(&mut other, 1);
        other.call("set a text");
        other.call(fill);
        assert_eq!(waiter.reply(), Some(expected), "{line}");
        other.call("del a b");
    }
}

#[test]
fn a_client_that_waits_to_move_a_value_gets_an_error_for_a_destination_of_another_kind() {
    let server = Server::start(|_| ());
    let (mut waiter, mut other) = (server.client(), server.client());
    other.call("set to text");
    for line in ["brpoplpush from to 0", "blmove from to left left 0"] {
        send(&mut waiter, line);
        wait_for_blocked(&mut other, 1);
        assert_eq!(other.call("rpush from x"), Reply::Integer(1));
        let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(waiter.reply(), Some(Reply::Error(text.into())), "{line}");
        wait_for_blocked(&mut other, 0);
        assert_eq!(other.call("lpop from"), bulk("x"));
    }
}
