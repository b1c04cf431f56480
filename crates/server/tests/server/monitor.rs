//! `MONITOR` shows the commands that a stock `redis-server` shows, in the same form.

use super::client::{Client, Reply, Server, encode, ok};
use super::redis::Redis;

/// The last command of a scenario.
const END: &str = "\"echo\" \"end\"";

/// Replaces the time and the port of a line, which differ.
fn normal(line: &str) -> String {
    let (time, rest) = line.split_once(' ').expect("a time");
    let (seconds, micros) = time.split_once('.').expect("a fraction");
    assert!(seconds.parse::<u64>().is_ok() && micros.len() == 6, "{time}");
    let Some((before, after)) = rest.split_once("127.0.0.1:") else { return rest.into() };
    let (port, after) = after.split_once(']').expect("a bracket");
    assert!(port.parse::<u16>().is_ok(), "{port}");
    format!("{before}client]{after}")
}

/// Returns the next lines of a client that monitors, up to the last command.
fn lines(monitor: &mut Client) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let Some(Reply::Status(line)) = monitor.reply() else { panic!("a line") };
        lines.push(normal(&line));
        if line.ends_with(END) {
            return lines;
        }
    }
}

/// Compares the lines of a scenario and its replies with those of Redis. Returns the lines.
fn both(scenario: impl Fn(&mut Client, &mut Vec<Reply>)) -> Vec<String> {
    let run = |connect: &mut dyn FnMut() -> Client| {
        let (mut monitor, mut client) = (connect(), connect());
        let mut replies = vec![monitor.call("monitor")];
        scenario(&mut client, &mut replies);
        client.request(&[b"echo", b"end"]);
        (lines(&mut monitor), replies)
    };
    let server = Server::start(|options| options.cores = 2);
    let ours = run(&mut || server.client());
    if let Some(redis) = Redis::start() {
        assert_eq!(ours, run(&mut || redis.another()));
    }
    ours.0
}

#[test]
fn commands_are_shown_as_redis_shows_them() {
    let text = [b"a\"\\\n\r\t\x07\x08\x00\x7f\xff v".as_slice(), &[b'x'; 20_000]].concat();
    let shown = both(|client, replies| {
        replies.push(client.command(&[b"SeT", b"k", &text]));
        for line in [
            "nosuch a",
            "get",
            "lpush k v",
            "incr k",
            "auth password",
            "auth user password",
            "hello 3 auth user password setname n",
            "hello 2 setname n",
            "config get port",
            "acl whoami",
            "acl setuser a on",
            "client setname n",
            "slowlog len",
            "select 3",
            "set k v",
            "blpop none 0.01",
            "subscribe c",
        ] {
            client.request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            let reply = client.reply();
            // The other fields tell of the server.
            replies.extend(reply.filter(|_| !line.starts_with("hello") && !line.contains("port")));
        }
        for line in ["ping", "unsubscribe c"] {
            replies.push(client.call(line));
        }
    });
    assert!(shown[0].starts_with(r#"[0 client] "SeT" "k" "a\"\\\n\r\t\a\b\x00\x7f\xff vxx"#));
    assert!(shown.iter().any(|line| line == r#"[0 client] "auth" "(redacted)" "(redacted)""#));
    assert!(shown.iter().all(|line| !line.contains("password")));
}

#[test]
fn commands_of_transactions_and_scripts_are_shown_in_the_order_of_redis() {
    let shown = both(|client, replies| {
        for line in [
            "multi",
            "set k 1",
            "select 2",
            "get k",
            "monitor",
            "exec",
            "multi",
            "get",
            "exec",
            "watch k",
            "multi",
            "set k 1",
            "discard",
            "select 0",
            "eval redis.call('set',KEYS[1],'v');redis.call('select',5);return(redis.call('get','x')) 1 k",
            "eval return(redis.pcall('lpush','k','v').err) 0",
            "eval return(redis.pcall('config','get','x').err) 0",
            "eval return 5",
            "multi",
            "eval redis.call('set','a',1);redis.call('del','b') 0",
            "incr k",
            "exec",
        ] {
            let reply = client.call(line);
            // An error of a script ends with the name of the script.
            replies.extend(Some(reply).filter(|reply| !matches!(reply, Reply::Error(_))));
        }
    });
    assert_eq!(shown.iter().filter(|line| line.starts_with("[0 lua] \"set\" \"k\"")).count(), 1);
}

/// The script runs again after it has touched a key that it did not declare.
#[test]
fn a_script_that_runs_again_is_shown_once() {
    let server = Server::start(|options| {
        options.durability = ebbtide_core::durability::Policy::Always;
    });
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("monitor"), ok());
    client.call("eval redis.call('set',KEYS[1],1);redis.call('set','other',1) 1 k");
    client.request(&[b"echo", b"end"]);
    let shown = lines(&mut monitor);
    assert_eq!(&shown[1..3], [r#"[0 lua] "set" "k" "1""#, r#"[0 lua] "set" "other" "1""#]);
    assert_eq!(shown.len(), 4, "{shown:?}");
}

#[test]
fn a_client_that_monitors_uses_no_keys_until_a_reset() {
    let run = |connect: &mut dyn FnMut() -> Client| {
        let (mut monitor, mut client) = (connect(), connect());
        let mut replies = vec![monitor.call("monitor")];
        for line in
            ["get k", "set k v", "dbsize", "publish c m", "eval return(1) 0", "client reply"]
        {
            replies.push(monitor.call(line));
        }
        let Reply::Bulk(list) = client.call("client list type normal") else { panic!("a list") };
        let list = String::from_utf8(list).expect("text");
        assert_eq!(list.lines().filter(|line| line.contains(" flags=O ")).count(), 1, "{list}");
        replies.push(monitor.call("reset"));
        client.call("set a 1");
        replies.push(monitor.call("get a"));
        replies.push(monitor.call("monitor"));
        replies.push(monitor.call("quit"));
        replies
    };
    let server = Server::start(|_| {});
    let ours = run(&mut || server.client());
    if let Some(redis) = Redis::start() {
        assert_eq!(ours, run(&mut || redis.another()));
    }
}

#[test]
fn long_arguments_are_shown_as_their_length() {
    let server = Server::start(|_| {});
    let (mut monitor, mut client) = (server.client(), server.client());
    assert_eq!(monitor.call("monitor"), ok());
    client.send(&encode(&[b"set", b"k", &vec![b'v'; 500_000]]));
    assert_eq!(client.reply(), Some(ok()));
    let many = vec![&b"12345678"[..]; 50_000];
    let many: Vec<&[u8]> = [&b"del"[..]].into_iter().chain(many).collect();
    client.command(&many);
    client.request(&[b"echo", b"end"]);
    let shown = lines(&mut monitor);
    assert_eq!(shown[0], r#"[0 client] "set" "k" "(500000 bytes)""#);
    assert!(shown[1].ends_with(r#" more arguments)""#) && shown[1].len() < 70_000);
    assert_eq!(shown.len(), 3);
}
