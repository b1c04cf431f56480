//! Connections: which replies they want, which are closed, which keys they watch, and which
//! commands a transaction refuses.

use super::client::{Reply, Server, bulk, ok};

fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

#[test]
fn replies_that_a_client_does_not_want_are_left_out_but_not_news_of_channels() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.send(b"client reply skip\r\nping 1\r\nping 2\r\n");
    assert_eq!(client.reply(), Some(bulk("2")), "one is skipped");
    client.send(b"client reply skip\r\nclient reply on\r\nping 3\r\n");
    assert_eq!((client.reply(), client.reply()), (Some(ok()), Some(bulk("3"))));
    client.send(b"hello 3\r\n");
    client.reply().expect("what it says of itself");
    client.send(b"client reply off\r\nping 4\r\nsubscribe news\r\n");
    let told =
        |word: &str, count| Reply::Push(vec![bulk(word), bulk("news"), Reply::Integer(count)]);
    assert_eq!(client.reply(), Some(told("subscribe", 1)));
    client.send(b"client reply skip\r\nping 5\r\nclient reply on\r\nping 6\r\n");
    assert_eq!((client.reply(), client.reply()), (Some(ok()), Some(bulk("6"))));
}

#[test]
fn clients_are_closed_by_all_filters_together() {
    let server = Server::start(|_| ());
    let (mut one, mut other, mut me) = (server.client(), server.client(), server.client());
    let id = |client: &mut super::client::Client| match client.call("client id") {
        Reply::Integer(id) => id,
        other => panic!("{other:?}"),
    };
    other.send(b"subscribe news\r\n");
    other.reply().expect("it is subscribed");
    let first = id(&mut one);
    assert_eq!(me.call(&format!("client kill id {first} type pubsub")), Reply::Integer(0));
    assert_eq!(me.call("client kill type pubsub user default"), Reply::Integer(1));
    assert!(other.is_closed());
    assert_eq!(me.call("client kill skipme yes"), Reply::Integer(1));
    assert!(one.is_closed());
    for (wrong, expected) in [
        ("id 0", "ERR client-id should be greater than 0"),
        ("type wrong", "ERR Unknown client type 'wrong'"),
        ("user wrong", "ERR No such user 'wrong'"),
        ("skipme perhaps", "ERR syntax error"),
        ("id 10 type", "ERR syntax error"),
    ] {
        assert_eq!(me.call(&format!("client kill {wrong}")), error(expected));
    }
    assert_eq!(me.call("client kill skipme no"), Reply::Integer(1), "it gets its reply");
    assert!(me.is_closed());
}

#[test]
fn clearing_a_database_touches_only_watched_keys_that_were_there() {
    let server = Server::start(|_| ());
    let (mut client, mut other) = (server.client(), server.client());
    let pong = || Reply::Array(vec![Reply::Status("PONG".into())]);
    for clear in ["flushdb", "flushall"] {
        for (key, expected) in [("there", Reply::Null), ("absent", pong())] {
            client.call("set there 1");
            client.call(&format!("watch {key}"));
            assert_eq!(other.call(clear), ok());
            client.call("multi");
            client.call("ping");
            assert_eq!(client.call("exec"), expected, "{key} after {clear}");
        }
    }
    client.call("watch absent");
    other.call("select 1");
    other.call("set absent 1");
    assert_eq!(other.call("swapdb 0 1"), ok());
    client.call("multi");
    client.call("ping");
    assert_eq!(client.call("exec"), Reply::Null, "swapped in");
}

#[test]
fn a_transaction_with_what_it_may_not_have_is_given_up() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for refused in ["save", "shutdown"] {
        client.call("multi");
        let expected = error("ERR Command not allowed inside a transaction");
        assert_eq!(client.call(refused), expected);
        let Reply::Error(reason) = client.call("exec") else { panic!("it ran") };
        assert!(reason.starts_with("EXECABORT"), "{reason}");
    }
    let Reply::Bulk(text) = client.call("info commandstats") else { panic!("text") };
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("cmdstat_save:calls=0"), "{text}");
    assert!(text.contains(",rejected_calls=1,failed_calls=0\r\n"), "{text}");
}

#[test]
fn commands_are_listed_by_a_pattern_of_their_names() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let found = |names: &[&str]| Reply::Array(names.iter().map(|name| bulk(name)).collect());
    let list = "command list";
    assert_eq!(client.call(&format!("{list} filterby pattern sete*")), found(&["setex"]));
    assert_eq!(client.call(&format!("{list} filterby module search")), found(&[]));
    assert_eq!(client.call(&format!("{list} pattern s*")), error("ERR syntax error"));
}

#[test]
fn clients_are_listed_with_the_fields_of_redis() {
    let server = Server::start(|_| ());
    let (mut client, mut other) = (server.client(), server.client());
    client.call("select 3");
    client.call("multi");
    client.call("get a");
    let Reply::Bulk(text) = other.call("client list") else { panic!("text") };
    let text = String::from_utf8(text).expect("text");
    let lines: Vec<Vec<(&str, &str)>> = text
        .lines()
        .map(|line| line.split(' ').map(|field| field.split_once('=').expect("a field")).collect())
        .collect();
    // The fields of `CLIENT LIST` in Redis 7.0.
    let names = "id addr laddr fd name age idle flags db sub psub ssub multi qbuf qbuf-free argv-mem multi-mem rbs \
                 rbp obl oll omem tot-mem events cmd user redir resp";
    for line in &lines {
        let found: Vec<&str> = line.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, names.split_whitespace().collect::<Vec<_>>());
    }
    let is = |line: usize, field: (&str, &str)| {
        assert!(lines[line].contains(&field), "{field:?} in {text}");
    };
    is(0, ("laddr", &server.address.to_string()));
    for field in [("flags", "x"), ("db", "3"), ("multi", "1"), ("cmd", "get")] {
        is(0, field);
    }
    for field in [("flags", "N"), ("db", "0"), ("multi", "-1"), ("cmd", "client|list")] {
        is(1, field);
    }
}

#[test]
fn subcommands_are_counted_apart() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("config get port");
    client.call("CONFIG GET port");
    client.call("config set port 1");
    client.call("command");
    let Reply::Bulk(text) = client.call("info commandstats") else { panic!("text") };
    let text = String::from_utf8(text).expect("text");
    for line in
        ["cmdstat_config|get:calls=2,", "cmdstat_config|set:calls=1,", "cmdstat_command:calls=1,"]
    {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line} in {text}");
    }
    assert!(!text.contains("cmdstat_config:"), "{text}");
    let Reply::Array(times) = client.call("latency histogram config") else { panic!("a map") };
    assert_eq!((&times[0], times.len()), (&bulk("config|get"), 4));
}

#[test]
fn a_bit_that_is_set_to_what_it_is_changes_nothing() {
    let server = Server::start(|_| ());
    let (mut client, mut other) = (server.client(), server.client());
    client.call("setbit k 7 1");
    for (change, changes) in [
        ("setbit k 7 1", false),
        ("setbit k 6 0", false),
        ("bitfield k set u4 4 1", false),
        ("bitfield k incrby u4 4 0", false),
        ("setbit k 8 0", true),
        ("setbit new 0 0", true),
        ("bitfield k set u4 4 2", true),
    ] {
        client.call("watch k new");
        other.call(change);
        client.call("multi");
        client.call("ping");
        assert_eq!(client.call("exec") == Reply::Null, changes, "{change}");
    }
}

/// Returns the bytes that arrive up to the reply to `PING end`.
fn bytes_until_end(client: &mut super::client::Client, requests: &str) -> Vec<u8> {
    use std::io::Read;
    client.send(format!("{requests}PING end\r\n").as_bytes());
    let (mut all, mut socket) = (Vec::new(), client.other_end());
    while !all.ends_with(b"$3\r\nend\r\n") {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).expect("a socket");
        assert!(count > 0, "{}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..count]);
    }
    all
}

#[test]
fn no_message_comes_after_the_end_of_its_subscription() {
    let requests = "MULTI\r\nSUBSCRIBE t\r\nPUBLISH t m\r\nUNSUBSCRIBE t\r\nEXEC\r\n";
    let expected = "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nt\r\n:1\r\n\
                    *3\r\n$7\r\nmessage\r\n$1\r\nt\r\n$1\r\nm\r\n:1\r\n\
                    *3\r\n$11\r\nunsubscribe\r\n$1\r\nt\r\n:0\r\n$3\r\nend\r\n";
    let server = Server::start(|options| (options.cores, options.dram_bytes) = (2, 24 << 20));
    let came = bytes_until_end(&mut server.client(), requests);
    assert_eq!(String::from_utf8_lossy(&came), expected);
    if let Some(mut redis) = super::redis::Redis::start() {
        let came = bytes_until_end(&mut redis.client, requests);
        assert_eq!(String::from_utf8_lossy(&came), expected, "Redis");
    }
    // A client on another core publishes all the time.
    let (mut publisher, mut subscriber) = (server.client(), server.client());
    publisher.send("PUBLISH t m\r\n".repeat(3_000).as_bytes());
    for _ in 0..300 {
        let came = bytes_until_end(&mut subscriber, "SUBSCRIBE t\r\nUNSUBSCRIBE t\r\n");
        let came = String::from_utf8_lossy(&came).into_owned();
        let (_, after) = came.split_once("unsubscribe").expect("it is told");
        assert!(!after.contains("message"), "{came}");
    }
    (0..3_000).for_each(|_| drop(publisher.reply().expect("a count")));
}

#[test]
fn what_changes_nothing_lets_a_transaction_run() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("set k v");
    let reply = client.command(&[b"dump", b"k"]);
    let Reply::Bulk(dump) = reply else { panic!("a dump") };
    let restore: &[&[u8]] = &[b"restore", b"absent", b"1", &dump, b"absttl"];
    let changes: [&[&[u8]]; 3] = [&[b"getex", b"k", b"persist"], &[b"swapdb", b"0", b"0"], restore];
    for change in changes {
        assert_eq!(client.call("watch k absent"), ok());
        assert!(!matches!(client.command(change), Reply::Error(_)));
        assert_eq!(client.call("multi"), ok());
        client.call("get k");
        assert_eq!(client.call("exec"), Reply::Array(vec![bulk("v")]), "{change:?}");
    }
}

#[test]
fn clients_are_listed_and_closed_by_address_id_and_type() {
    let server = Server::start(|_| ());
    let (mut me, mut other) = (server.client(), server.client());
    let address = other.other_end().local_addr().expect("a socket").to_string();
    let Reply::Integer(id) = other.call("client id") else { panic!("a number") };
    let lines = |reply: Reply| match reply {
        Reply::Bulk(text) => String::from_utf8(text).unwrap().lines().count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(lines(me.call("client list")), 2);
    assert_eq!(lines(me.call(&format!("client list id {id} 999"))), 1);
    assert_eq!(lines(me.call("client list type pubsub")), 0);
    assert_eq!(lines(me.call("client list type normal")), 2);
    assert_eq!(me.call("client kill laddr 127.0.0.1:1"), Reply::Integer(0));
    assert_eq!(me.call(&format!("client kill addr {address}")), Reply::Integer(1));
    assert!(other.is_closed());
    let mut other = server.client();
    other.call("ping");
    let address = other.other_end().local_addr().expect("a socket").to_string();
    assert_eq!(me.call(&format!("client kill {address}")), ok());
    assert!(other.is_closed());
    assert_eq!(me.call(&format!("client kill laddr {}", server.address)), Reply::Integer(0));
}
