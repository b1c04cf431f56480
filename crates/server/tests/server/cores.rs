//! Clients on different cores see the same keys, channels, connections, settings and counters.

use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, bulk, ok};

const CORES: usize = 2;

/// Starts a server with [`CORES`] cores.
fn server() -> Server {
    Server::start(|options| {
        options.cores = CORES;
        options.dram_bytes = 24 << 20;
    })
}

/// Returns a client on each core: the core with the fewest connections gets the next one.
fn clients(server: &Server) -> [Client; CORES] {
    std::array::from_fn(|_| server.client())
}

fn text(reply: Reply) -> String {
    let Reply::Bulk(text) = reply else { panic!("no text: {reply:?}") };
    String::from_utf8(text).expect("text")
}

#[test]
fn what_one_core_has_written_all_cores_read() {
    let server = server();
    let [mut one, mut other] = clients(&server);
    for number in 0..500 {
        let (from, to) =
            if number % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
        assert_eq!(from.call(&format!("set k{number} {number}")), ok());
        assert_eq!(to.call(&format!("get k{number}")), bulk(&number.to_string()));
        assert_eq!(to.call("incr n"), Reply::Integer(number + 1));
    }
    assert_eq!(one.call("flushall"), ok());
    assert_eq!(other.call("dbsize"), Reply::Integer(0));
}

#[test]
fn counters_that_both_cores_raise_lose_nothing() {
    const EACH: i64 = 3_000;
    let server = Server::start(|options| {
        options.cores = CORES;
        options.dram_bytes = 24 << 20;
        options.durability = Policy::Always;
    });
    let mut clients = clients(&server);
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(move || {
                client.send(&b"incr n\r\nmset a 1 b 1\r\n".repeat(EACH as usize));
                let raised: Vec<Reply> = (0..EACH)
                    .map(|_| {
                        let raised = client.reply().expect("a reply");
                        assert_eq!(client.reply(), Some(ok()));
                        raised
                    })
                    .collect();
                let number = |reply: &Reply| matches!(reply, Reply::Integer(_));
                assert!(raised.iter().all(number), "{:?}", raised.first());
            });
        }
    });
    assert_eq!(clients[0].call("get n"), bulk(&(EACH * CORES as i64).to_string()));
}

#[test]
fn a_message_reaches_subscribers_on_every_core_in_order() {
    let server = server();
    let mut subscribers = clients(&server);
    for subscriber in &mut subscribers {
        subscriber.send(b"subscribe news\r\npsubscribe n*\r\n");
        subscriber.reply().expect("it is told");
        subscriber.reply().expect("it is told");
    }
    let mut publisher = server.client();
    assert_eq!(
        publisher.call("pubsub numsub news"),
        Reply::Array(vec![bulk("news"), Reply::Integer(2)])
    );
    for number in 0..100 {
        assert_eq!(publisher.call(&format!("publish news {number}")), Reply::Integer(4));
    }
    for subscriber in &mut subscribers {
        for number in 0..100 {
            let number = number.to_string();
            let message = vec![bulk("message"), bulk("news"), bulk(&number)];
            assert_eq!(subscriber.reply(), Some(Reply::Array(message)));
            let message = vec![bulk("pmessage"), bulk("n*"), bulk("news"), bulk(&number)];
            assert_eq!(subscriber.reply(), Some(Reply::Array(message)));
        }
    }
}

#[test]
fn clients_of_all_cores_are_listed_and_closed() {
    let server = server();
    let [mut one, mut other] = clients(&server);
    for (client, name) in [(&mut one, "one"), (&mut other, "other")] {
        assert_eq!(client.call(&format!("client setname {name}")), ok());
    }
    let list = text(one.call("client list"));
    assert!(list.contains("name=one ") && list.contains("name=other "), "{list}");
    assert_eq!(one.call("client kill skipme yes"), Reply::Integer(1));
    assert!(other.is_closed());
    assert_eq!(one.call("ping"), Reply::Status("PONG".into()));
}

#[test]
fn a_watched_key_that_another_core_changes_fails_the_transaction() {
    let server = server();
    let [mut one, mut other] = clients(&server);
    for (change, expected) in [
        ("set k 2", Reply::Null),
        ("set elsewhere 2", Reply::Array(vec![bulk("1")])),
        ("flushall", Reply::Null),
    ] {
        assert_eq!(one.call("set k 1"), ok());
        assert_eq!(one.call("watch k"), ok());
        assert_eq!(other.call(change), ok());
        one.call("multi");
        one.call("get k");
        assert_eq!(one.call("exec"), expected, "{change}");
    }
}

#[test]
fn changes_between_a_look_and_a_transaction_that_watches_are_never_lost() {
    const EACH: usize = 500;
    let server = server();
    let mut clients = clients(&server);
    assert_eq!(clients[0].call("set n 0"), ok());
    std::thread::scope(|scope| {
        for client in &mut clients {
            scope.spawn(move || {
                let mut done = 0;
                while done < EACH {
                    client.call("watch n");
                    let number: usize = text(client.call("get n")).parse().expect("a number");
                    client.send(format!("multi\r\nset n {}\r\nexec\r\n", number + 1).as_bytes());
                    let replies: Vec<_> = (0..3).map(|_| client.reply()).collect();
                    done += usize::from(replies[2] != Some(Reply::Null));
                }
            });
        }
    });
    assert_eq!(clients[0].call("get n"), bulk(&(EACH * CORES).to_string()));
}

#[test]
fn settings_and_figures_are_those_of_all_cores() {
    let server = server();
    let [mut one, mut other] = clients(&server);
    assert_eq!(one.call("config set slowlog-log-slower-than 0"), ok());
    other.call("set k v");
    one.call("get k");
    let Reply::Array(log) = one.call("slowlog get -1") else { panic!("a log") };
    let ids: Vec<&Reply> = log
        .iter()
        .map(
            |entry| if let Reply::Array(fields) = entry { &fields[0] } else { panic!("{entry:?}") },
        )
        .collect();
    assert_eq!(ids, [&Reply::Integer(2), &Reply::Integer(1), &Reply::Integer(0)]);
    let info = text(other.call("info all"));
    for line in ["cores:2", "connected_clients:2", "keyspace_hits:1", "cmdstat_get:calls=1,"] {
        assert!(info.lines().any(|found| found.starts_with(line)), "{line} in {info}");
    }
    assert_eq!(other.call("config resetstat"), ok());
    let info = text(one.call("info commandstats"));
    assert!(!info.contains("cmdstat_get"), "{info}");
}

#[test]
fn a_client_of_any_core_may_stop_the_server() {
    for stopper in 0..CORES {
        let server = server();
        let mut clients = clients(&server);
        clients[stopper].send(b"shutdown nosave\r\n");
        clients.iter_mut().for_each(|client| assert!(client.is_closed()));
    }
}

#[test]
fn more_clients_than_allowed_on_all_cores_together_are_refused() {
    let server = Server::start(|options| {
        options.cores = CORES;
        options.dram_bytes = 24 << 20;
        options.clients_max = 3;
    });
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| drop(client.call("ping")));
    let mut refused = server.client();
    assert_eq!(refused.reply(), Some(Reply::Error("ERR max number of clients reached".into())));
}

/// Returns the value of a field of `INFO persistence`.
fn told(client: &mut Client, field: &str) -> String {
    let info = text(client.call("info persistence"));
    let told = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    told.expect("it is told").to_string()
}

#[test]
fn a_save_asked_of_one_core_is_of_what_all_cores_have_changed() {
    let server = Server::start(|options| {
        options.cores = CORES;
        options.dram_bytes = 24 << 20;
        // No other flush happens during this test.
        options.durability = "every:1000s".parse().expect("a policy");
    });
    let [mut one, mut other] = clients(&server);
    const CHANGES: &str = "rdb_changes_since_last_save";
    assert_eq!(told(&mut one, CHANGES), "0");
    for number in 0..10 {
        assert_eq!(one.call(&format!("set a{number} 1")), ok());
        assert_eq!(other.call(&format!("set b{number} 1")), ok());
    }
    assert_eq!(told(&mut other, CHANGES), "20");
    assert_eq!(other.call("save"), ok());
    assert_eq!(told(&mut one, CHANGES), "0");
    assert_eq!(one.call("del a1 b1 c1"), Reply::Integer(2));
    assert_eq!(told(&mut other, CHANGES), "2");
}

#[test]
fn a_copy_asked_of_one_core_has_what_all_cores_had_answered_and_then_a_prefix() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let copy = folder.path().join("copy");
    let two_cores = |options: &mut ebbtide_server::ServeOptions| {
        options.cores = CORES;
        options.dram_bytes = 24 << 20;
        options.durability = Policy::Always;
    };
    let server = Server::start(two_cores);
    let [mut one, mut other] = clients(&server);
    for number in 0..200 {
        assert_eq!(one.call(&format!("set a{number} 1")), ok());
        assert_eq!(other.call(&format!("set b{number} 1")), ok());
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    let later = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut later = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert_eq!(other.call(&format!("set later{later} 1")), ok());
                later += 1;
            }
            later
        });
        let begun = one.call(&format!("bgsave to {}", copy.display()));
        assert_eq!(begun, Reply::Status("Background saving started".into()));
        while told(&mut one, "last_copy") == "under way" {}
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("the writer ends")
    });
    assert_eq!(told(&mut one, "last_copy"), format!("done:{}", copy.display()));
    let copied = Server::start(|options| {
        two_cores(options);
        options.data = copy.clone();
    });
    let mut copied = copied.client();
    for key in (0..200).flat_map(|number| [format!("a{number}"), format!("b{number}")]) {
        assert_eq!(copied.call(&format!("get {key}")), bulk("1"), "{key}");
    }
    let has = |key: u64| format!("exists later{key}");
    let there: Vec<bool> =
        (0..later).map(|key| copied.call(&has(key)) == Reply::Integer(1)).collect();
    assert!(there.is_sorted_by(|before, after| before >= after), "a key is missing before others");
}
