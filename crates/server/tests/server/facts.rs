//! Every command has the arity, flags, categories and key specifications of a stock `redis-server`.

use super::client::{Reply, Server};
use super::redis::Redis;

/// Subcommands that Redis has since 7.2, and options of ours.
const NEWER: [&str; 2] = ["client|no-touch", "client|setinfo"];

/// Commands that Redis has since 7.4 or 8.0.
const NEWER_COMMANDS: [&str; 12] = [
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hgetdel",
    "hgetex",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hsetex",
    "httl",
];

/// Commands whose arity differs: this server has options that Redis does not have.
const OTHER_ARITY: [&str; 0] = [];

fn parts(reply: &Reply) -> &[Reply] {
    let Reply::Array(parts) = reply else { panic!("{reply:?}") };
    parts
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Status(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// Flags in order.
fn flags(reply: &Reply) -> Vec<String> {
    let mut flags: Vec<String> = parts(reply).iter().map(text).collect();
    flags.sort();
    flags
}

/// Key specifications without their notes, as text.
fn specs(reply: &Reply) -> Vec<String> {
    let spec = |spec: &Reply| {
        let fields = parts(spec).chunks(2).filter(|field| text(&field[0]) != "notes");
        fields.map(|field| format!("{field:?}")).collect::<String>()
    };
    parts(reply).iter().map(spec).collect()
}

fn compare(ours: &Reply, theirs: &Reply) -> Vec<String> {
    let (ours, theirs) = (parts(ours), parts(theirs));
    let name = text(&ours[0]);
    let mut differences = Vec::new();
    let mut same = |what: &str, ours: String, theirs: String| {
        if ours != theirs {
            differences.push(format!("{name}: {what} {ours}, in Redis {theirs}"));
        }
    };
    if !OTHER_ARITY.contains(&&*name) {
        same("arity", format!("{:?}", ours[1]), format!("{:?}", theirs[1]));
    }
    same("flags", flags(&ours[2]).join(" "), flags(&theirs[2]).join(" "));
    same("positions", format!("{:?}", &ours[3..6]), format!("{:?}", &theirs[3..6]));
    same("categories", flags(&ours[6]).join(" "), flags(&theirs[6]).join(" "));
    same("key specifications", specs(&ours[8]).join(" "), specs(&theirs[8]).join(" "));
    for ours in parts(&ours[9]) {
        let name = text(&parts(ours)[0]);
        let theirs = parts(&theirs[9]).iter().find(|theirs| text(&parts(theirs)[0]) == name);
        match theirs {
            Some(theirs) => differences.extend(compare(ours, theirs)),
            None if NEWER.contains(&&*name) => {}
            None => differences.push(format!("{name}: not in Redis")),
        }
    }
    differences
}

#[test]
fn every_command_has_the_arity_flags_categories_and_key_specifications_of_redis() {
    let Some(mut redis) = Redis::start() else {
        eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
        return;
    };
    let server = Server::start(|_| {});
    let ours = server.client().call("command");
    let mut differences = Vec::new();
    for ours in parts(&ours) {
        let name = text(&parts(ours)[0]);
        let theirs = redis.client.command(&[b"COMMAND", b"INFO", name.as_bytes()]);
        match &parts(&theirs)[0] {
            Reply::Null if NEWER_COMMANDS.contains(&&*name) => {}
            Reply::Null => differences.push(format!("{name}: not in Redis")),
            theirs => differences.extend(compare(ours, theirs)),
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

/// `COMMAND GETKEYS` finds the keys that Redis finds.
#[test]
fn the_keys_of_a_command_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut client = server.client();
    for line in [
        "get a",
        "mset a 1 b 2",
        "del a b c",
        "bitop and d x y",
        "copy a b",
        "eval return 2 a b c",
        "evalsha sha 1 a b",
        "eval_ro return 0 a",
        "memory usage a",
        "object encoding a",
        "xinfo stream a",
        "xread count 2 block 0 streams a b 0 $",
        "xread streams a b 0",
        "xreadgroup group g c streams a b > 0",
        "xgroup create a g 0",
        "xpending a g",
        "xack a g 0",
        "ping",
        "config get x",
        "nothing a",
        "set a 1",
        "set a 1 get",
        "bitfield a get u8 0",
        "bitfield a set u8 0 1",
        "sort a",
        "sort a by x* store b",
        "zunionstore d 2 a b",
        "zinter 2 a b",
        "georadius a 0 0 1 m store b",
        "migrate h 1 a 0 1",
        "migrate h 1  0 1 keys a b",
        "lmpop 2 a b left",
        "smove a b m",
        "pfcount a b",
        "touch a",
        "spublish a m",
    ] {
        for subcommand in ["getkeys", "getkeysandflags"] {
            let line = format!("command {subcommand} {line}");
            assert_eq!(client.call(&line), redis.client.call(&line), "{line}");
        }
    }
}
