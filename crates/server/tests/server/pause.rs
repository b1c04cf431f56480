//! Commands wait while the clients are paused (`CLIENT PAUSE`), as in a stock `redis-server`.

use std::time::{Duration, Instant};

use super::client::{Client, Reply, Server, bulk, encode, ok};
use super::redis::Redis;

/// A pause that no test sees the end of.
const LONG: &str = "client pause 100000000";

/// Runs a scenario with clients of ours, and with clients of Redis. Returns the replies of ours.
fn both(scenario: impl Fn(&mut dyn FnMut() -> Client) -> Vec<Reply>) -> Vec<Reply> {
    let server = Server::start(|options| options.cores = 2);
    let found = scenario(&mut || server.client());
    if let Some(redis) = Redis::start() {
        assert_eq!(found, scenario(&mut || redis.another()));
    }
    found
}

#[test]
fn changes_wait_during_a_pause_of_changes_and_reads_go_on() {
    let lines = [
        "set a 2",
        "incr b",
        "del a",
        "publish news m",
        "pfcount h",
        "eval return(redis.call('set','a',3)) 0",
        "expire a 100",
    ];
    let seen = both(|connect| {
        let mut admin = connect();
        assert_eq!(admin.call("set a 1"), ok());
        assert_eq!(admin.call(&format!("{LONG} write")), ok());
        let mut writers: Vec<Client> = lines.iter().map(|_| connect()).collect();
        for (writer, line) in writers.iter_mut().zip(lines) {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            writer.request(&words);
        }
        let mut seen = Vec::new();
        for line in ["get a", "exists b", "ping", "eval_ro return(redis.call('get','a')) 0"] {
            seen.push(admin.call(line));
        }
        // A transaction without a change does not wait.
        for line in ["multi", "get a", "exec"] {
            seen.push(admin.call(line));
        }
        seen.push(connect().call("client unpause"));
        for writer in &mut writers {
            // They run in any order.
            assert!(!matches!(writer.reply(), None | Some(Reply::Error(_))));
        }
        seen
    });
    assert_eq!(seen[0], bulk("1"));
}

#[test]
fn a_command_that_waited_runs_once_and_before_those_after_it() {
    both(|connect| {
        let (mut admin, mut client) = (connect(), connect());
        let mut seen = vec![admin.call(&format!("{LONG} write"))];
        let long = vec![b'x'; 300_000];
        let mut sent = Vec::new();
        for words in
            [&[&b"get"[..], b"a"][..], &[b"incr", b"a"], &[b"get", b"a"], &[b"set", b"b", &long]]
        {
            sent.extend(encode(words));
        }
        sent.extend(encode(&[b"strlen", b"b"]));
        client.send(&sent);
        seen.push(client.reply().expect("the first reads"));
        seen.push(admin.call("get a"));
        // A new pause takes the place of the first.
        seen.push(admin.call(&format!("{LONG} write")));
        seen.push(admin.call("exists a b"));
        seen.push(admin.call("client unpause"));
        seen.extend((0..4).map(|_| client.reply().expect("a reply")));
        seen
    });
}

#[test]
fn all_commands_wait_until_the_time_of_a_pause_is_over() {
    both(|connect| {
        let (mut admin, mut client) = (connect(), connect());
        let mut seen = vec![admin.call("set a 1"), admin.call("client pause 100")];
        for line in ["get a", "ping", "client unpause", "multi", "get a", "exec"] {
            seen.push(client.call(line));
        }
        seen.push(admin.call("client pause 50 all"));
        // It waits for the end of the pause, and then for an element.
        seen.push(client.call("blpop list 0.01"));
        seen
    });
}

#[test]
fn a_transaction_with_a_change_waits_with_its_last_command() {
    both(|connect| {
        let (mut admin, mut client) = (connect(), connect());
        let mut seen = vec![client.call("multi")];
        seen.push(admin.call(&format!("{LONG} write")));
        client.request(&[b"set", b"a", b"1"]);
        seen.push(admin.call("client unpause"));
        seen.push(client.reply().expect("it is queued"));
        seen.push(admin.call(&format!("{LONG} write")));
        client.request(&[b"exec"]);
        seen.push(admin.call("get a"));
        seen.push(admin.call("client unpause"));
        seen.push(client.reply().expect("it has run"));
        seen
    });
}

#[test]
fn no_key_expires_during_a_pause() {
    for mode in ["write", "all"] {
        both(|connect| {
            let mut admin = connect();
            let mut seen = vec![admin.call("set a 1 px 100"), admin.call("set b 1")];
            seen.push(admin.call(&format!("client pause 500 {mode}")));
            std::thread::sleep(Duration::from_millis(250));
            let Reply::Bulk(info) = connect().call("info stats") else { panic!("text") };
            let info = String::from_utf8(info).expect("text");
            // With ALL, the reply has come after the pause, and upkeep goes on.
            assert!(mode == "all" || info.contains("expired_keys:0\r\n"), "{info}");
            let lines: &[&str] = if mode == "all" { &["get a"] } else { &["dbsize", "get a"] };
            seen.extend(lines.iter().map(|line| admin.call(line)));
            seen
        });
    }
}

#[test]
fn a_script_that_declares_no_writes_does_not_wait_for_a_pause_of_changes() {
    let script = b"#!lua flags=no-writes\nreturn redis.call('get', 'a')";
    both(|connect| {
        let (mut admin, mut client) = (connect(), connect());
        let mut seen = vec![admin.call("set a 1")];
        let Reply::Bulk(sha) = admin.command(&[b"script", b"load", script]) else { panic!() };
        seen.push(admin.call(&format!("{LONG} write")));
        seen.push(admin.command(&[b"eval", script, b"0"]));
        seen.push(admin.command(&[b"evalsha", &sha, b"0"]));
        seen.push(admin.call("multi"));
        seen.push(admin.command(&[b"evalsha", &sha, b"0"]));
        seen.push(admin.call("exec"));
        client.request(&[b"evalsha", &[b'0'; 40], b"0"]);
        seen.push(admin.call("client unpause"));
        // The script is not known, so it might have changed keys.
        seen.push(client.reply().expect("a reply"));
        seen
    });
}

#[test]
fn clients_whose_commands_wait_for_the_end_of_a_pause_count_as_blocked() {
    fn wait_for(admin: &mut Client, blocked: usize) {
        let line = format!("blocked_clients:{blocked}\r\n");
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let Reply::Bulk(info) = admin.call("info clients") else { panic!("text") };
            let info = String::from_utf8(info).expect("text");
            if info.contains(&line) {
                return;
            }
            assert!(Instant::now() < until, "expected {line} in {info}");
            std::thread::yield_now();
        }
    }
    both(|connect| {
        let [mut admin, mut writer, mut other] = [connect(), connect(), connect()];
        let seen = vec![admin.call(&format!("{LONG} write"))];
        writer.request(&[b"set", b"a", b"1"]);
        other.request(&[b"set", b"a", b"1"]);
        wait_for(&mut admin, 2);
        drop(other);
        wait_for(&mut admin, 1);
        assert_eq!(admin.call("client unpause"), ok());
        wait_for(&mut admin, 0);
        seen
    });
}
