//! Replies of commands that a differential test cannot check.

use super::client::{Client, Reply, Server, bulk, ok};

#[test]
fn keys_are_set_read_counted_and_deleted_over_a_real_file() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    assert_eq!(client.call("set a 1"), ok());
    assert_eq!(client.call("get a"), bulk("1"));
    assert_eq!(client.call("incrby a 41"), Reply::Integer(42));
    assert_eq!(client.call("expire a 100"), Reply::Integer(1));
    assert_eq!(client.call("ttl a"), Reply::Integer(100));
    assert_eq!(client.call("dbsize"), Reply::Integer(1));
    assert_eq!(client.call("del a b"), Reply::Integer(1));
    assert_eq!(client.call("get a"), Reply::Null);
    assert_eq!(client.call("ping"), Reply::Status("PONG".into()));
}

#[test]
fn data_ten_times_larger_than_the_cache_is_all_there() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let value = |number: u32| vec![number as u8; 900 + (number % 700) as usize];
    for first in (0..30_000).step_by(100) {
        for number in first..first + 100 {
            let key = format!("key:{number}");
            client.request(&[b"set", key.as_bytes(), &value(number)]);
        }
        (0..100).for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    for first in (0..30_000).step_by(100) {
        let keys = (first..first + 100).map(|number| format!("key:{number}"));
        keys.for_each(|key| client.request(&[b"get", key.as_bytes()]));
        for number in first..first + 100 {
            assert_eq!(client.reply(), Some(Reply::Bulk(value(number))), "{number}");
        }
    }
}

#[test]
fn a_key_is_gone_once_it_has_expired_and_its_room_comes_back_by_itself() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("set a 1 px 1");
    client.call("set b 1");
    while client.call("get a") != Reply::Null {}
    // No client reads the key, so upkeep removes it.
    while client.call("dbsize") != Reply::Integer(1) {}
    assert_eq!(client.call("exists b"), Reply::Integer(1));
}

#[test]
fn a_transaction_runs_whole_and_fails_if_a_watched_key_has_changed() {
    let server = Server::start(|_| ());
    let (mut one, mut other) = (server.client(), server.client());
    one.call("set a 1");
    assert_eq!(one.call("watch a"), ok());
    assert_eq!(one.call("multi"), ok());
    assert_eq!(one.call("incr a"), Reply::Status("QUEUED".into()));
    other.call("set a 10");
    assert_eq!(one.call("exec"), Reply::Null);
    one.call("multi");
    one.call("incr a");
    one.call("incr nothing extra");
    let Reply::Error(error) = one.call("exec") else { panic!("it was broken") };
    assert!(error.starts_with("EXECABORT"), "{error}");
    one.call("multi");
    one.call("incr a");
    one.call("append a x");
    one.call("incr a");
    let not_integer = Reply::Error("ERR value is not an integer or out of range".into());
    let expected = vec![Reply::Integer(11), Reply::Integer(3), not_integer];
    assert_eq!(one.call("exec"), Reply::Array(expected));
}

#[test]
fn messages_reach_channels_and_patterns_in_both_protocols() {
    let server = Server::start(|_| ());
    let (mut two, mut three, mut publisher) = (server.client(), server.client(), server.client());
    two.call("subscribe news");
    three.call("hello 3");
    let joined = vec![bulk("psubscribe"), bulk("n*"), Reply::Integer(1)];
    assert_eq!(three.call("psubscribe n*"), Reply::Push(joined));
    assert_eq!(publisher.call("publish news hi"), Reply::Integer(2));
    let message = vec![bulk("message"), bulk("news"), bulk("hi")];
    assert_eq!(two.reply(), Some(Reply::Array(message)));
    let message = vec![bulk("pmessage"), bulk("n*"), bulk("news"), bulk("hi")];
    assert_eq!(three.reply(), Some(Reply::Push(message)));
    let Reply::Error(error) = two.call("get a") else { panic!("it is subscribed") };
    assert!(error.starts_with("ERR Can't execute 'get'"), "{error}");
    assert_eq!(three.call("get a"), Reply::Null, "RESP3 clients may do both");
    two.call("unsubscribe");
    assert_eq!(two.call("get a"), Reply::Null);
}

#[test]
fn a_scan_meets_every_key_that_stays_while_others_come_and_go() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for number in 0..2_000 {
        client.call(&format!("set stays:{number} {number}"));
    }
    let (mut cursor, mut met, mut round) = ("0".to_string(), Vec::new(), 0);
    loop {
        let Reply::Array(reply) = client.call(&format!("scan {cursor} match stays:* count 50"))
        else {
            panic!("two parts")
        };
        let [Reply::Bulk(next), Reply::Array(keys)] = &reply[..] else { panic!("two parts") };
        met.extend(keys.iter().cloned());
        cursor = String::from_utf8(next.clone()).expect("digits");
        if cursor == "0" {
            break;
        }
        round += 1;
        for number in 0..20 {
            client.call(&format!("set comes:{round}:{number} {}", "x".repeat(300)));
        }
    }
    let mut names: Vec<Vec<u8>> = met
        .into_iter()
        .map(|key| if let Reply::Bulk(key) = key { key } else { panic!("a key") })
        .collect();
    names.sort();
    assert_eq!(names.len(), 2_000, "each once");
    names.dedup();
    assert_eq!(names.len(), 2_000);
}

#[test]
fn a_full_store_refuses_writes_and_takes_reads_and_deletes() {
    let server = Server::start(|options| options.capacity_bytes = Some(4 << 20));
    let mut client = server.client();
    let value = "x".repeat(1_000);
    let mut count = 0;
    let refused = loop {
        match client.call(&format!("set key:{count} {value}")) {
            Reply::Status(_) => count += 1,
            Reply::Error(error) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused.starts_with("OOM "), "{refused}");
    assert!(count > 2_000, "{count} keys of 1,000 bytes in 4 MiB");
    assert_eq!(client.call("get key:0"), bulk(&value));
    assert_eq!(client.call("dbsize"), Reply::Integer(count));
    assert_eq!(client.call("del key:0 key:1 key:2"), Reply::Integer(3));
    assert_eq!(client.call("flushall"), ok());
    // Upkeep frees the pages while the server runs.
    while client.call(&format!("setrange large 3000000 {value}")) != Reply::Integer(3_001_000) {}
}

#[test]
fn a_save_is_answered_once_all_changes_survive_a_crash() {
    let server = Server::start(|options| {
        // No other flush happens during this test.
        options.durability = "every:1000s".parse().expect("a policy");
    });
    let mut client = server.client();
    let Reply::Integer(before) = client.call("lastsave") else { panic!("a time") };
    client.call("set a 1");
    assert_eq!(client.call("save"), ok());
    let Reply::Integer(after) = client.call("lastsave") else { panic!("a time") };
    assert!(after >= before);
    assert_eq!(client.call("bgsave"), Reply::Status("Background saving started".into()));
    let saved = |client: &mut super::client::Client| {
        let Reply::Bulk(info) = client.call("info persistence") else { panic!("text") };
        String::from_utf8_lossy(&info).contains("rdb_bgsave_in_progress:0")
    };
    while !saved(&mut client) {}
    let none = Server::start(|options| options.durability = ebbtide_core::durability::Policy::None);
    let Reply::Error(error) = none.client().call("save") else { panic!("nothing is kept") };
    assert!(error.contains("--durability none"), "{error}");
}

#[test]
fn slow_commands_are_told_with_their_arguments_and_all_are_counted() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    assert_eq!(client.call("config set slowlog-log-slower-than 0"), ok());
    assert_eq!(client.call("config set latency-monitor-threshold 1000000"), ok());
    client.call("client setname me");
    client.call("slowlog reset");
    client.call("set a 1");
    client.call("get a");
    let Reply::Array(kept) = client.call("slowlog get 2") else { panic!("a list") };
    let Reply::Array(last) = &kept[0] else { panic!("an entry") };
    assert_eq!(last[3], Reply::Array(vec![bulk("get"), bulk("a")]));
    assert_eq!(last[5], bulk("me"));
    assert_eq!(client.call("slowlog len"), Reply::Integer(4), "the reset itself is one");
    let Reply::Array(times) = client.call("latency histogram get nothing") else { panic!("a map") };
    assert_eq!((times.len(), &times[0]), (2, &bulk("get")));
    assert_eq!(client.call("latency latest"), Reply::Array(vec![]));
    let Reply::Error(error) = client.call("config set slowlog-max-len 9999999") else {
        panic!("too many")
    };
    assert!(error.contains("between 0 and"), "{error}");
    assert!(matches!(client.call("config set port 1"), Reply::Error(_)));
    let Reply::Bulk(info) = client.call("info commandstats") else { panic!("text") };
    assert!(String::from_utf8_lossy(&info).contains("cmdstat_get:calls=1,usec="));
}

#[test]
fn commands_within_transactions_and_scripts_are_counted_and_so_are_their_errors() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("config resetstat");
    client.call("multi");
    client.call("set a text");
    client.call("incr a");
    client.call("exec");
    let body =
        "redis.call('set', 'b', 1) redis.pcall('incr', 'a') return redis.error_reply('MINE x')";
    client.command(&[b"eval", body.as_bytes(), b"0"]);
    client.call("lpop a");
    let mut info = |section: &str| {
        let Reply::Bulk(text) = client.call(&format!("info {section}")) else { panic!("text") };
        String::from_utf8(text).expect("text")
    };
    let commands = info("commandstats");
    for part in ["_set:calls=2,", "_exec:calls=1,", "_eval:calls=1,", "_incr:calls=2,"] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    let incr = commands.lines().find(|line| line.starts_with("cmdstat_incr:"));
    assert!(incr.is_some_and(|line| line.ends_with("failed_calls=2")), "{incr:?}");
    let errors = info("errorstats");
    for line in ["errorstat_MINE:count=1", "errorstat_WRONGTYPE:count=1", "errorstat_ERR:count=1"] {
        assert!(errors.lines().any(|found| found == line), "{line}: {errors}");
    }
    assert!(info("memory").contains("number_of_cached_scripts:1\r\n"));
    client.call("config resetstat");
    assert_eq!(client.call("info errorstats"), bulk("# Errorstats\r\n"));
}

#[test]
fn subcommands_are_listed_as_commands_and_found_by_pattern() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let mut names = |line: &str| {
        let Reply::Array(names) = client.call(line) else { panic!("an array") };
        names
    };
    let all = names("command list");
    assert!(all.contains(&bulk("set")) && all.contains(&bulk("client|list")));
    let found = names("command list filterby pattern config|*set*");
    assert_eq!(found, [bulk("config|resetstat"), bulk("config|set")]);
    assert_eq!(names("command list filterby pattern set"), [bulk("set")]);
}

#[test]
fn settings_change_together_or_not_at_all() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let value = |client: &mut Client, name: &str| {
        let Reply::Array(pair) = client.call(&format!("config get {name}")) else {
            panic!("a map")
        };
        pair[1].clone()
    };
    assert_eq!(client.call("config set timeout 7 tcp-keepalive 8 notify-keyspace-events Kg"), ok());
    assert_eq!(value(&mut client, "timeout"), bulk("7"));
    assert_eq!(value(&mut client, "tcp-keepalive"), bulk("8"));
    for (line, name) in [
        ("timeout 9 notify-keyspace-events KEA tcp-keepalive x", "tcp-keepalive"),
        ("timeout 9 port 1", "port"),
        ("timeout 9 TIMEOUT 10", "TIMEOUT"),
    ] {
        let Reply::Error(error) = client.call(&format!("config set {line}")) else {
            panic!("{line}")
        };
        assert!(error.contains(&format!("argument '{name}'")), "{error}");
        assert_eq!(value(&mut client, "timeout"), bulk("7"), "{line}");
        assert_eq!(value(&mut client, "notify-keyspace-events"), bulk("gK"), "{line}");
    }
}
