//! Users and their rules: as in a stock `redis-server`, and over connections and files.

use std::path::PathBuf;

use ebbtide_server::command::{TABLE, counted_names};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, ok};
use super::redis::Redis;

fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

/// Random rules. Some are wrong.
fn rule(rng: &mut Pcg64Mcg) -> String {
    const PLAIN: &[&str] = &[
        "+@all",
        "-@all",
        "allcommands",
        "nocommands",
        "~a*",
        "~s[ab]",
        "%R~b*",
        "%W~c*",
        "%RW~d*",
        "%r~e",
        "&a*",
        "&b",
        "allkeys",
        "resetkeys",
        "allchannels",
        "resetchannels",
        "on",
        "off",
        "nopass",
        "resetpass",
        ">one",
        ">two",
        "<one",
        "reset",
        "clearselectors",
        "+select|0",
        "+get|a",
        "(+@read ~b*)",
        "(+@write %W~c*)",
        "(allkeys",
        "-@all",
        "+@string",
        "&c)",
        "(~a",
        "+get)",
        "()",
        "+nothing",
        "-nothing",
        "+@nothing",
        "+config|nothing",
        "+config|get|x",
        "%~a",
        "%x~a",
        "bogus",
        ")",
        "+get|",
        "#12",
        "ON",
        "ALLKEYS",
        "+GET",
        "+@READ",
        "~a b",
        "#2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "sanitize-payload",
        "skip-sanitize-payload",
        "",
    ];
    const CATEGORIES: &[&str] = &[
        "keyspace",
        "read",
        "write",
        "set",
        "sortedset",
        "list",
        "hash",
        "string",
        "bitmap",
        "hyperloglog",
        "geo",
        "stream",
        "pubsub",
        "admin",
        "fast",
        "slow",
        "blocking",
        "dangerous",
        "connection",
        "transaction",
        "scripting",
    ];
    let sign = if rng.random_range(0..2) == 0 { '+' } else { '-' };
    match rng.random_range(0..4) {
        0 => format!("{sign}@{}", CATEGORIES[rng.random_range(0..CATEGORIES.len())]),
        1 => format!("{sign}{}", counted_names()[rng.random_range(0..counted_names().len())]),
        _ => PLAIN[rng.random_range(0..PLAIN.len())].into(),
    }
}

/// A command with words of which some are keys, numbers of keys and options.
fn words(rng: &mut Pcg64Mcg) -> Vec<String> {
    const WORDS: &[&str] = &[
        "a1", "a2", "b1", "c1", "d1", "e", "sa", "sc", "0", "1", "2", "3", "get", "set", "u8",
        "streams", "STREAMS", "keys", "auth", "count", "store", "", "-1", "overflow", "b", "c2",
    ];
    let spec = &TABLE[rng.random_range(0..TABLE.len())];
    let mut words = vec![spec.name.to_string()];
    if let Some(known) = spec.subcommands()
        && rng.random_range(0..20) > 0
    {
        words.push(known[rng.random_range(0..known.len())].0.to_lowercase());
    }
    let least = (spec.arity.unsigned_abs() as usize).saturating_sub(words.len());
    let more = rng.random_range(0..if spec.arity < 0 { 6 } else { 1 });
    let count = if rng.random_range(0..30) == 0 { 1 } else { least + more };
    words.extend((0..count).map(|_| WORDS[rng.random_range(0..WORDS.len())].to_string()));
    words
}

fn call(client: &mut Client, words: &[String]) -> Reply {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    client.command(&words)
}

/// `ACL GETUSER` without the rules on commands, whose text differs. With the same rules, users may
/// run the same commands.
fn shown(client: &mut Client) -> Vec<Reply> {
    let Reply::Array(fields) = client.call("acl getuser u") else { return Vec::new() };
    let mut shown = Vec::new();
    for field in fields.chunks(2) {
        match &field[1] {
            _ if field[0] == bulk("commands") => {}
            Reply::Array(selectors) if field[0] == bulk("selectors") => {
                for selector in selectors {
                    let Reply::Array(rules) = selector else { panic!("{selector:?}") };
                    shown.extend_from_slice(&rules[2..]);
                }
            }
            value => shown.push(value.clone()),
        }
    }
    shown
}

#[test]
fn random_rules_allow_the_commands_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    let seconds = std::env::var("EBBTIDE_FUZZ_SECONDS").ok();
    let seconds: u64 = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let known = |client: &mut Client, name: &str| {
        let Reply::Array(found) = client.call(&format!("command info {name}")) else {
            return false;
        };
        found != [Reply::Null]
    };
    let newer: Vec<String> = TABLE
        .iter()
        .map(|spec| spec.name.to_string())
        .filter(|name| !known(&mut redis.client, name))
        .chain(["client|no-touch".to_string(), "client|setinfo".to_string()])
        .collect();
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let (mut allowed, mut denied, mut round) = (0, 0, 0);
    let mut differences = Vec::new();
    while round < 150 || std::time::Instant::now() < until {
        round += 1;
        ours.call("acl deluser u");
        redis.client.call("acl deluser u");
        let mut history = Vec::new();
        // Without rights most commands are refused for the command.
        if rng.random_range(0..2) == 0 {
            let line = "acl setuser u +@all ~a* %R~b* %W~c* ~d* ~[0-9e] &a*";
            assert_eq!((ours.call(line), redis.client.call(line)), (ok(), ok()));
            history.push(line.to_string());
        }
        for _ in 0..rng.random_range(1..6) {
            let mut words: Vec<String> = ["acl", "setuser", "u"].map(String::from).into();
            words.extend((0..rng.random_range(1..6)).map(|_| rule(&mut rng)));
            let is_newer =
                |word: &String| newer.iter().any(|name| word[1.min(word.len())..] == **name);
            if words.iter().any(is_newer) {
                continue;
            }
            history.push(words.join(" "));
            let expected = call(&mut redis.client, &words);
            let ours = call(&mut ours, &words);
            if ours != expected {
                differences.push(format!("{history:?}: {ours:?}, in Redis {expected:?}"));
            }
        }
        let (mine, theirs) = (shown(&mut ours), shown(&mut redis.client));
        if mine != theirs {
            differences.push(format!("{history:?}: {mine:?}, in Redis {theirs:?}"));
            continue;
        }
        for _ in 0..60 {
            let command = words(&mut rng);
            // With a key and KEYS it is an error, and Redis checks no key.
            let both = command[0] == "migrate"
                && command.get(3).is_some_and(|key| !key.is_empty())
                && command.iter().skip(6).any(|word| word == "keys");
            if both {
                continue;
            }
            let two = command.get(1).map(|second| format!("{}|{second}", command[0]));
            if newer.contains(&command[0]) || two.is_some_and(|two| newer.contains(&two)) {
                continue;
            }
            let mut words: Vec<String> = ["acl", "dryrun", "u"].map(String::from).into();
            words.extend(command);
            let expected = call(&mut redis.client, &words);
            let ours = call(&mut ours, &words);
            if ours != expected {
                differences
                    .push(format!("{words:?} after {history:?}: {ours:?}, in Redis {expected:?}"));
            }
            *if expected == ok() { &mut allowed } else { &mut denied } += 1;
        }
    }
    differences.truncate(20);
    assert!(differences.is_empty(), "{differences:#?}");
    assert!(allowed > 1_000 && denied > 1_000, "{allowed} {denied}");
}

/// Lines of one connection have the same replies as in Redis.
#[test]
fn users_log_in_and_are_refused_as_in_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    for line in [
        "acl whoami",
        "acl setuser alice",
        "auth alice x",
        "acl setuser alice on >x +acl|whoami ~a* &c*",
        "auth alice wrong",
        "auth nobody x",
        "auth x",
        "auth alice x",
        "acl whoami",
        "acl list",
        "get a",
        "ping",
        "hello 2",
        "hello 2 auth default any",
        "acl setuser alice +@all -@dangerous",
        "auth alice x",
        "set a 1",
        "set b 1",
        "get a",
        "mset a 1 b 2",
        "keys *",
        "publish c1 text",
        "publish d1 text",
        "config get maxclients",
        "eval return(redis.call('get','b')) 0",
        "eval return(redis.pcall('keys','*').err) 0",
        "eval return(redis.call('publish','d1','x')) 0",
        "eval return(redis.call('get','a')) 1 a",
        "eval return(tostring(redis.acl_check_cmd('get','b'))) 0",
        "eval return(tostring(redis.acl_check_cmd('get','a1'))) 0",
        "eval return(redis.acl_check_cmd('nothing')) 0",
        "multi",
        "set a 2",
        "set b 2",
        "exec",
        "multi",
        "set a 3",
        "exec",
        "client kill user nobody",
        "reset",
        "acl whoami",
        "acl log 1",
        "acl log reset",
        "acl log",
        "acl log x",
        "acl log -1",
        "acl log 1 2",
        "acl getuser nobody",
        "acl getuser default",
        "acl users",
        "acl cat",
        "acl cat nothing",
        "acl genpass 0",
        "acl genpass 5000",
        "acl genpass x",
        "acl load",
        "acl save",
        "acl nothing",
        "acl",
        "acl setuser",
        "acl setuser default >secret",
        "auth default wrong",
        "auth secret",
        "acl deluser alice nobody",
        "acl deluser default",
        "acl setuser default off",
        "auth secret",
        "reset",
        "get a",
        "quit",
    ] {
        let (mut mine, mut theirs) = (ours.call(line), redis.client.call(line));
        if line.starts_with("hello")
            && matches!((&mine, &theirs), (Reply::Array(_), Reply::Array(_)))
        {
            // The numbers of the connections differ.
            continue;
        }
        if line == "acl log 1" {
            // Age and client differ.
            for reply in [&mut mine, &mut theirs] {
                let Reply::Array(entries) = reply else { panic!("{reply:?}") };
                let Reply::Array(fields) = &mut entries[0] else { panic!("{entries:?}") };
                fields.truncate(10);
            }
        }
        assert_eq!(mine, theirs, "{line}");
    }
}

#[test]
fn a_transaction_is_checked_when_it_is_queued_and_when_it_runs() {
    let server = Server::start(|_| {});
    let (mut admin, mut client) = (server.client(), server.client());
    assert_eq!(admin.call("acl setuser bob on nopass +@all ~a*"), ok());
    assert_eq!(client.call("auth bob x"), ok());
    client.call("multi");
    client.call("set a 1");
    client.call("incr a");
    assert_eq!(admin.call("acl setuser bob -incr"), ok());
    let Reply::Array(replies) = client.call("exec") else { panic!("an array") };
    assert_eq!(replies[0], ok());
    let Reply::Error(text) = &replies[1] else { panic!("{replies:?}") };
    assert!(text.starts_with("NOPERM ACLs rules changed between"), "{text}");
    assert_eq!(admin.call("get a"), bulk("1"));
    let Reply::Array(log) = admin.call("acl log") else { panic!("an array") };
    let Reply::Array(entry) = &log[0] else { panic!("{log:?}") };
    assert_eq!(entry[4..8], [bulk("context"), bulk("multi"), bulk("object"), bulk("incr")]);
    // The commands after AUTH are those of the new user.
    client.call("multi");
    client.call("set a 2");
    client.call("auth default x");
    client.call("set b 2");
    let refused = "NOPERM this user has no permissions to access one of the keys used as arguments";
    client.call("discard");
    assert_eq!(client.call("set b 2"), error(refused));
}

#[test]
fn the_connections_of_a_deleted_user_are_closed() {
    let server = Server::start(|options| options.cores = 2);
    let mut admin = server.client();
    admin.call("acl setuser bob on nopass +@all allkeys allchannels");
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.call("auth bob x"), ok());
        match number % 3 {
            0 => client.request(&[b"blpop", b"list", b"0"]),
            1 => drop(client.call("subscribe news")),
            _ => drop(client.call("ping")),
        }
    }
    let listed = |admin: &mut Client| match admin.call("client list") {
        Reply::Bulk(text) => String::from_utf8_lossy(&text).matches("user=bob").count(),
        other => panic!("{other:?}"),
    };
    assert_eq!(listed(&mut admin), 6);
    assert_eq!(admin.call("acl deluser bob"), Reply::Integer(1));
    clients.iter_mut().for_each(|client| assert!(client.is_closed()));
    assert_eq!(admin.call("ping"), Reply::Status("PONG".into()));
    let Reply::Error(text) = admin.call("auth bob x") else { panic!("bob is gone") };
    assert!(text.starts_with("WRONGPASS"), "{text}");
}

#[test]
fn a_waiting_client_gets_nothing_that_it_may_no_longer_have() {
    let server = Server::start(|_| {});
    let (mut admin, mut client) = (server.client(), server.client());
    admin.call("acl setuser bob on nopass +@all ~list");
    client.call("auth bob x");
    client.request(&[b"blpop", b"list", b"0"]);
    while admin.call("client list").clone() != Reply::Null {
        let Reply::Bulk(text) = admin.call("info clients") else { panic!("a text") };
        if String::from_utf8_lossy(&text).contains("blocked_clients:1") {
            break;
        }
    }
    admin.call("acl setuser bob resetkeys");
    admin.call("rpush list secret");
    let refused = "NOPERM this user has no permissions to access one of the keys used as arguments";
    assert_eq!(client.reply(), Some(error(refused)));
    assert_eq!(admin.call("llen list"), Reply::Integer(1));
}

#[test]
fn a_subscriber_that_loses_its_channel_is_closed() {
    let server = Server::start(|_| {});
    let mut admin = server.client();
    admin.call("acl setuser bob on nopass +@all &news &w*");
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    for (client, line) in
        clients.iter_mut().zip(["subscribe news", "psubscribe w*", "subscribe weather"])
    {
        client.call("auth bob x");
        assert!(matches!(client.call(line), Reply::Array(_)));
    }
    admin.call("acl setuser bob resetchannels &w*");
    assert!(clients[0].is_closed());
    assert_eq!(admin.call("publish weather rain"), Reply::Integer(2));
    assert_eq!(admin.call("acl setuser bob resetchannels &weather"), ok());
    assert!(matches!(clients[1].reply(), Some(Reply::Array(_))), "a message");
    assert!(clients[1].is_closed());
    assert_eq!(admin.call("publish weather sun"), Reply::Integer(1));
}

/// A folder with an ACL file of these lines.
fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("users.acl");
    std::fs::write(&path, text).expect("written");
    (folder, path)
}

#[test]
fn users_come_from_a_file_and_are_saved_to_it() {
    let (folder, path) = file("user alice on >alice ~* &* +@all\n\nuser bob on nopass +ping\n");
    let given = path.clone();
    let server = Server::start(|options| {
        options.acl_file = Some(given);
        options.password = Some("secret".into());
    });
    let mut client = server.client();
    // The file has no default user, so that has the password.
    assert_eq!(client.call("ping"), error("NOAUTH Authentication required."));
    assert_eq!(client.call("auth secret"), ok());
    assert_eq!(
        client.call("acl users"),
        Reply::Array(["alice", "bob", "default"].map(bulk).into())
    );
    let mut bob = server.client();
    bob.call("auth bob x");
    assert_eq!(client.call("acl setuser carol on nopass +get ~c*"), ok());
    assert_eq!(client.call("acl save"), ok());
    let saved = std::fs::read_to_string(&path).expect("a text");
    assert!(saved.contains("user carol on nopass ~c* resetchannels -@all +get\n"), "{saved}");
    assert!(!saved.contains("secret") && saved.lines().count() == 4, "{saved}");
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(names.len(), 1, "{names:?}");
    // Whatever was not saved is gone, and with it the connections of all but the default user.
    client.call("acl setuser dave");
    assert_eq!(client.call("acl load"), ok());
    assert_eq!(client.call("acl getuser dave"), Reply::Null);
    assert!(bob.is_closed());
    std::fs::write(&path, "user default off\nuser eve +nothing\n").expect("written");
    let Reply::Error(text) = client.call("acl load") else { panic!("a wrong file") };
    assert!(text.contains("users.acl:2: ") && text.contains("no change"), "{text}");
    assert_eq!(client.call("auth carol x"), ok());
    drop(server);
    std::fs::remove_dir_all(folder.path()).expect("removed");
    let (folder, path) = file(&saved);
    let given = path.clone();
    let server = Server::start(|options| options.acl_file = Some(given));
    let mut client = server.client();
    assert_eq!(client.call("auth secret"), ok());
    // A folder that is gone takes no file, and the error says so.
    std::fs::remove_dir_all(folder.path()).expect("removed");
    let Reply::Error(text) = client.call("acl save") else { panic!("no folder") };
    assert!(text.starts_with("ERR There was an error trying to save the ACLs"), "{text}");
}

#[test]
fn metrics_are_there_whatever_clients_may_do() {
    let (_folder, path) = file("user default off\n");
    let server = Server::start(|options| {
        options.acl_file = Some(path);
        options.metrics = Some(([127, 0, 0, 1], 0).into());
    });
    assert_eq!(server.client().call("ping"), error("NOAUTH Authentication required."));
    let address = server.metrics.expect("it was asked for");
    let mut socket = std::net::TcpStream::connect(address).expect("a connection");
    std::io::Write::write_all(&mut socket, b"GET /metrics HTTP/1.1\r\n\r\n").expect("sent");
    let mut page = String::new();
    std::io::Read::read_to_string(&mut socket, &mut page).expect("a page");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("connected_clients"), "{page}");
    let mut client = server.client();
    let Reply::Error(text) = client.command(&[b"auth", b"(metrics)", b""]) else {
        panic!("it has a password")
    };
    assert!(text.starts_with("WRONGPASS"), "{text}");
}

#[test]
fn sort_reads_other_keys_only_with_the_right_to_read_every_key() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let (mut mine, mut theirs) = (server.client(), redis.another());
    for rules in [
        "+sort ~l",
        "+sort ~l ~v*",
        "+sort ~l %W~*",
        "+sort ~l %R~*",
        "+sort ~*",
        "+@all ~* &*",
        "+@all ~l ~to",
        "+sort ~l (+sort_ro %R~*)",
        "+get ~* (+sort ~l)",
    ] {
        for client in [&mut ours, &mut redis.client] {
            client.call("acl deluser u");
            client.call(&format!("acl setuser u on nopass {rules}"));
            client.call("del l");
            client.call("rpush l 2 1");
        }
        for line in [
            "auth u x",
            "sort l by v*",
            "sort l get v*",
            "sort l by nosort get #",
            "sort_ro l by v*",
            "sort l store to",
            "sort to",
            "georadius l 1 1 1 km store to",
            "georadius to 1 1 1 km",
        ] {
            assert_eq!(mine.call(line), theirs.call(line), "{rules}: {line}");
        }
        for client in [&mut mine, &mut theirs] {
            client.call("reset");
        }
    }
}
