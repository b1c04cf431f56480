//! `ebbtide serve` and `ebbtide load` together, as users run them.

mod common;

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{complaint, ebbtide, folder, names, printed, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// A server that is killed when it is dropped.
struct Server {
    process: Child,
    address: String,
    folder: Option<TempDir>,
}

impl Server {
    fn with(arguments: &[&str]) -> Server {
        let usual = ["--port", "0", "--capacity", "64MiB", "--durability", "none"];
        // Not the temporary directory: it may be in DRAM.
        Server::on(folder(), &[&usual, arguments].concat())
    }

    fn on(folder: TempDir, arguments: &[&str]) -> Server {
        let process = ebbtide(folder.path(), &["serve", "--data", "store"])
            .args(["--dram", "16MiB"].iter().filter(|_| !arguments.contains(&"--dram")))
            .args(arguments)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        Server::ready(process, folder)
    }

    /// Waits until it answers.
    fn ready(mut process: Child, folder: TempDir) -> Server {
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        let address = line.strip_prefix("ready on ").and_then(|rest| rest.split_once(": "));
        let address = address.expect("it says where it answers").0.to_string();
        Server { process, address, folder: Some(folder) }
    }

    /// Kills it, and returns its folder.
    fn kill(mut self) -> TempDir {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
        self.folder.take().expect("it has one")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_server_that_was_killed_while_it_started_for_the_first_time_starts_again() {
    let usual = ["--port", "0", "--capacity", "64MiB", "--durability", "always"];
    for kill in 0..12 {
        let here = folder();
        let mut first = ebbtide(here.path(), &["serve", "--data", "store", "--dram", "16MiB"])
            .args(usual)
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(kill * 6));
        first.kill().expect("it runs");
        first.wait().expect("it ends");
        // Says where it answers, or the test ends here.
        Server::on(here, &usual);
    }
}

#[test]
fn a_load_finds_every_value_right_and_every_acknowledged_write_there() {
    let here = folder();
    let load = ["--keys", "20000", "--writes", "0.5", "--deletes", "0.2", "--value", "16..3000"];
    let times =
        ["--warm-up", "0.1", "--seconds", "0.5", "--clients", "20", "--check-all", "--json"];
    let two_cores = ["--cores", "2", "--dram", "24MiB"];
    let cases: [(&[&str], &[&str]); 5] = [
        (&[], &[]),
        (&[], &["--pipeline", "16"]),
        (&[], &["--rate", "2000"]),
        (&two_cores, &[]),
        (&two_cores, &["--pipeline", "16"]),
    ];
    for (of_server, more) in cases {
        // A load knows only what it has written itself.
        let server = Server::with(of_server);
        let mut arguments = vec!["load", "--server", server.address.as_str()];
        arguments.extend(load.iter().chain(&times).chain(more));
        let output = ebbtide(here.path(), &arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["wrong"], &report["errors"]), (&0.into(), &0.into()));
        assert_eq!(report["keys_checked"], 20_000);
        assert!(report["commands"].as_u64().expect("a count") > 0, "{report}");
    }
}

#[test]
fn a_load_of_every_type_finds_every_reply_right() {
    let here = folder();
    let usual = ["--keys", "5000", "--writes", "0.5", "--value", "16..200", "--clients", "20"];
    let times = ["--warm-up", "0.1", "--seconds", "0.4", "--json"];
    let versions = ["--check-all"];
    let deletes = ["--check-all", "--deletes", "0.2"];
    let cases: [(&str, &[&str]); 5] = [
        ("hash", &deletes),
        ("set", &deletes),
        ("sorted-set", &["--deletes", "0.2"]),
        ("list", &["--elements", "3", "--pipeline", "4"]),
        ("script", &versions),
    ];
    for (kind, more) in cases {
        let server = Server::with(&[]);
        let mut arguments = vec!["load", "--server", &server.address, "--type", kind];
        arguments.extend(usual.iter().chain(&times).chain(more));
        let output = ebbtide(here.path(), &arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["wrong"], &report["errors"]), (&0.into(), &0.into()), "{kind}");
        assert!(report["commands"].as_u64() > Some(100), "{kind}: {report}");
    }
    let list = ["load", "--type", "list", "--check-all"];
    let error = complaint(&mut ebbtide(here.path(), &list), 2);
    assert!(error.contains("--check-all"), "{error}");
}

#[test]
fn a_load_over_tls_finds_every_value_right_and_trusts_nobody_else() {
    let here = folder();
    let certificate = |name: &str| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("made");
        let paths = ["pem", "key"].map(|ending| here.path().join(format!("{name}.{ending}")));
        std::fs::write(&paths[0], made.cert.pem()).expect("written");
        std::fs::write(&paths[1], made.signing_key.serialize_pem()).expect("written");
        paths.map(|path| path.to_str().expect("text").to_string())
    };
    let ([ours, key], [other, _]) = (certificate("ours"), certificate("other"));
    let tls = ["--port", "0", "--capacity", "64MiB", "--tls-cert", &ours, "--tls-key", &key];
    let server = Server::on(folder(), &tls);
    let address = server.address.replace("127.0.0.1", "localhost");
    let load = ["load", "--server", &address, "--keys", "2000", "--value", "16..3000"];
    let load =
        [&load[..], &["--warm-up", "0", "--seconds", "0.3", "--check-all", "--json"]].concat();
    let text = printed(ebbtide(here.path(), &load).args(["--tls", &ours, "--pipeline", "4"]));
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&report["wrong"], &report["keys_checked"]), (&0.into(), &2_000.into()));
    let error = complaint(ebbtide(here.path(), &load).args(["--tls", &other]), 1);
    assert!(error.contains("certificate"), "{error}");
}

#[test]
fn a_running_server_gives_a_copy_of_its_store_that_another_serves() {
    let server = Server::on(folder(), &["--port", "0", "--capacity", "64MiB"]);
    let ask = |server: &Server, request: &str| {
        let mut socket = TcpStream::connect(&server.address).expect("a connection");
        socket.write_all(request.as_bytes()).expect("sent");
        let mut reply = String::new();
        BufReader::new(socket).read_line(&mut reply).expect("a reply");
        reply
    };
    assert_eq!(ask(&server, "SET a 1\r\n"), "+OK\r\n");
    let data = folder();
    let copy = ["store", "copy", "store", "--server", &server.address];
    let text = printed(&mut ebbtide(data.path(), &copy));
    assert!(text.trim_end().ends_with("/store"), "{text}");
    let error = complaint(&mut ebbtide(data.path(), &copy), 1);
    assert!(error.contains("is there already"), "{error}");
    let other = Server::on(data, &["--port", "0"]);
    assert_eq!(ask(&other, "STRLEN a\r\n"), ":1\r\n");
}

#[test]
fn a_server_that_is_not_there_is_one_line() {
    let here = folder();
    let error = complaint(&mut ebbtide(here.path(), &["load", "--server", "127.0.0.1:1"]), 1);
    assert!(error.contains("cannot connect to 127.0.0.1:1"), "{error}");
}

#[test]
fn a_killed_server_has_every_write_that_it_acknowledged() {
    let server =
        Server::on(folder(), &["--port", "0", "--capacity", "64MiB", "--durability", "always"]);
    let (here, address) = (folder(), server.address.clone());
    let load = ["load", "--server", address.as_str(), "--keys", "300", "--value", "16..1500"];
    let more = ["--writes", "0.7", "--deletes", "0.2", "--warm-up", "0", "--seconds", "1000"];
    let mut load = ebbtide(here.path(), &load);
    let load = load.args(more).args(["--survive", "100", "--json"]).spawn().expect("it starts");
    let written = || counter(&address, "total_commands_processed:").filter(|count| *count > 2_000);
    wait_for("some writes", written);
    let data = server.kill();
    let port = address.rsplit_once(':').expect("a port").1;
    let _again = Server::on(data, &["--port", port, "--durability", "always"]);
    let output = load.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&report["restarts"], &report["keys_checked"]), (&1.into(), &300.into()));
    assert_eq!(report["wrong"], 0);
    assert!(report["writes_acknowledged"].as_u64().expect("a count") > 300, "{report}");
}

#[test]
fn a_server_that_is_told_to_end_leaves_nothing_to_recover() {
    let ask = |address: &str, request: &str, answer: &str| {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut reply = vec![0; answer.len()];
        stream.read_exact(&mut reply).expect("it answers");
        assert_eq!(String::from_utf8_lossy(&reply), answer);
    };
    let mut server = Server::on(folder(), &["--port", "0", "--capacity", "64MiB"]);
    let sets: String = (0..500).map(|key| format!("SET key:{key} value\r\n")).collect();
    ask(&server.address, &sets, &"+OK\r\n".repeat(500));
    kill_process(Pid::from_child(&server.process), Signal::TERM).expect("it runs");
    assert!(server.process.wait().expect("it ends").success());
    let data = server.folder.take().expect("it has one");
    let mut again = ebbtide(data.path(), &["serve", "--data", "store", "--dram", "16MiB"]);
    let mut process = again.args(["--port", "0"]).spawn().expect("it starts");
    let complaints = BufReader::new(process.stderr.take().expect("piped"));
    let mut said = complaints.lines().map(|line| line.expect("a line"));
    let recovered = said.find(|line| line.contains("recovered")).expect("it says so");
    assert!(recovered.contains("recovered 0 transactions"), "{recovered}");
    let again = Server::ready(process, data);
    ask(&again.address, "DBSIZE\r\nGET key:499\r\n", ":500\r\n$5\r\nvalue\r\n");
}

#[test]
fn a_server_killed_again_and_again_loses_at_most_the_last_second_and_keeps_a_prefix() {
    const ROUNDS: usize = 4;
    let mut data = folder();
    let mut known = 0;
    for round in 0..=ROUNDS {
        let server = Server::on(data, &["--port", "0", "--capacity", "64MiB"]);
        let mut socket = TcpStream::connect(&server.address).expect("a connection");
        let mut replies = BufReader::new(socket.try_clone().expect("a descriptor"));
        let mut line = String::new();
        // The default durability is every:1s.
        let mut ask = |request: String, line: &mut String| {
            socket.write_all(request.as_bytes()).expect("sent");
            line.clear();
            replies.read_line(line).expect("a reply");
        };
        // Keys are written in order, so those that are there are the first ones.
        ask("DBSIZE\r\n".into(), &mut line);
        let there: usize = line.trim_start_matches(':').trim_end().parse().expect("a number");
        assert!(there >= known, "round {round}: {there} keys, {known} were older than a second");
        for number in there.saturating_sub(3_000)..there {
            ask(format!("EXISTS k{number}\r\n"), &mut line);
            assert_eq!(line, ":1\r\n", "round {round}: key {number} of {there}");
        }
        // So that some of the writes are older than a second, and some are not.
        let since = Instant::now();
        let mut acknowledged = Vec::new();
        while round < ROUNDS && since.elapsed() < Duration::from_millis(1_200 + 150 * round as u64)
        {
            ask(format!("SET k{} v\r\n", there + acknowledged.len()), &mut line);
            assert_eq!(line, "+OK\r\n");
            acknowledged.push(Instant::now());
        }
        let killed = Instant::now();
        data = server.kill();
        let old = |at: &&Instant| killed - **at > Duration::from_secs(1);
        known = there + acknowledged.iter().filter(old).count();
    }
    assert!(known > ROUNDS, "hardly anything was written");
}

/// Returns the answer of a server without a password to `GET /metrics`.
fn metrics(address: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn options_come_from_a_file_and_an_unknown_one_is_named() {
    let here = folder();
    let write = |text: &str| std::fs::write(here.path().join("serve.toml"), text).expect("written");
    write("port = 0\ncapacity = \"64MiB\"\nrequirepas = \"x\"\n");
    let mut serve = ebbtide(here.path(), &["serve", "--config", "serve.toml"]);
    let error = complaint(&mut serve, 2);
    assert!(error.contains("serve.toml:3") && error.contains("requirepass"), "{error}");
    write("port = 0\ncapacity = \"64MiB\"\nrequirepass = \"x\"\n");
    let path = here.path().join("serve.toml");
    let config = ["--config", path.to_str().expect("text")];
    let server = Server::on(folder(), &config);
    let mut socket = TcpStream::connect(&server.address).expect("a connection");
    socket.write_all(b"GET a\r\n").expect("sent");
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("a reply");
    assert!(line.starts_with("-NOAUTH"), "{line}");
}

#[test]
fn prometheus_and_programs_are_told_what_the_server_does() {
    let here = folder();
    let arguments = ["serve", "--port", "0", "--capacity", "64MiB", "--dram", "16MiB"];
    let more = ["--metrics", "127.0.0.1:0", "--log", "json", "--requirepass", "secret"];
    let mut process = ebbtide(here.path(), &arguments).args(more).spawn().expect("it starts");
    let lines = BufReader::new(process.stderr.take().expect("piped")).lines();
    let mut events = lines.map(|line| -> serde_json::Value {
        serde_json::from_str(&line.expect("a line")).expect("an object a line")
    });
    let ready = events.find(|event| event["event"] == "ready").expect("it starts");
    let address = ready["facts"]["metrics"].as_str().expect("an address").to_string();
    let text = metrics(&address);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("\nebbtide_commands_processed_total ") && text.contains("_miss_ratio "));
    let server = ready["facts"]["address"].as_str().expect("an address");
    let mut socket = TcpStream::connect(server).expect("a connection");
    socket.write_all(b"AUTH secret\r\nSHUTDOWN\r\n").expect("sent");
    let ended = events.find(|event| event["event"] == "ended").expect("it says so");
    assert_eq!(ended["facts"]["failed"], false);
    assert!(process.wait().expect("it ends").success());
}

#[test]
fn a_comparison_with_redis_tells_both_throughputs_and_what_a_miss_costs() {
    let here = folder();
    let small = ["--keys", "100000", "--dram", "16MiB", "--rounds", "1", "--clients", "4"];
    let times = ["--warm-up", "0.05", "--seconds", "0.1", "--json"];
    let mut load = ebbtide(here.path(), &["load", "--against", "redis"]);
    load.args(small).args(times);
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        let error = complaint(&mut load, 1);
        assert!(error.contains("apt-get install redis-server"), "{error}");
        return;
    }
    let report: serde_json::Value = serde_json::from_str(&printed(&mut load)).expect("JSON");
    let mixes = report["mixes"].as_array().expect("a list");
    assert_eq!(mixes.len(), 5);
    for mix in mixes {
        for side in ["redis", "ebbtide"] {
            let median = &mix[side]["throughput"]["median"];
            assert!(median.as_f64().is_some_and(|rate| rate > 0.0), "{mix}");
        }
        assert_eq!(mix["redis"]["reads"]["max"], 0.0, "Redis has no flash");
    }
    assert!(report["first_wrong"].is_null() && report["first_error"].is_null(), "{report}");
    assert_eq!(names(here.path()), [] as [&str; 0], "the servers' files are gone");
}

#[test]
#[ignore = "slow"]
fn a_comparison_of_collections_tells_what_reads_allow() {
    for (kind, keys, [read, write]) in
        [("hash", "200000", ["HGET", "HSET"]), ("sorted-set", "150000", ["ZRANGEBYSCORE", "ZADD"])]
    {
        let here = folder();
        let small = ["--type", kind, "--keys", keys, "--value", "64", "--dram", "10MiB"];
        let times = ["--rounds", "1", "--warm-up", "0.1", "--seconds", "0.2", "--json"];
        let mut load = ebbtide(here.path(), &["load", "--against", "redis"]);
        load.args(small).args(times);
        if std::process::Command::new("redis-server").arg("--version").output().is_err() {
            complaint(&mut load, 1);
            return;
        }
        let report: serde_json::Value = serde_json::from_str(&printed(&mut load)).expect("JSON");
        let mixes = report["mixes"].as_array().expect("a list");
        let name = |mix: &serde_json::Value| mix["mix"].as_str().expect("a name").to_string();
        let names: Vec<String> = mixes.iter().map(name).collect();
        let cached = |command: &str| format!("{command}, data in cache");
        assert_eq!(names, [&cached(read), read, &cached(write), write]);
        for mix in mixes {
            let reads = mix["ebbtide"]["reads"]["median"].as_f64().expect("a number");
            let cached = name(mix).contains("cache");
            assert_eq!(mix["bound"].is_null(), cached || reads < 0.01, "{mix}");
        }
        assert!(report["first_wrong"].is_null() && report["first_error"].is_null(), "{report}");
    }
}

#[test]
fn a_comparison_at_a_rate_tells_response_times_beside_those_of_the_disk() {
    let here = folder();
    let small = ["--keys", "20000", "--dram", "16MiB", "--rounds", "1", "--clients", "4"];
    let times = ["--warm-up", "0.05", "--seconds", "0.2", "--rate", "2000"];
    let mut load = ebbtide(here.path(), &["load", "--against", "redis"]);
    load.args(small).args(times);
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        complaint(&mut load, 1);
        return;
    }
    let text = printed(&mut load);
    for part in ["p50 us, Redis", "Ebbtide to disk", "2000 commands/s arriving at random"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    for part in ["pipeline", "is accepted"] {
        assert!(!text.contains(part), "{part} is of throughput: {text}");
    }
    let report: serde_json::Value =
        serde_json::from_str(&printed(load.arg("--json"))).expect("JSON");
    for mix in report["mixes"].as_array().expect("a list") {
        let disk = &mix["ebbtide"]["probe"]["p99_us"]["median"];
        assert!(disk.as_f64().is_some_and(|time| time > 0.0), "{mix}");
        let rate = mix["redis"]["throughput"]["median"].as_f64().expect("a number");
        assert!((1_000.0..3_000.0).contains(&rate), "{mix}");
    }
}

#[test]
fn a_comparison_refuses_too_little_dram_before_it_writes_a_key() {
    let here = folder();
    if std::process::Command::new("redis-server").arg("--version").output().is_err() {
        return;
    }
    // This Redis refuses the connections that write keys.
    let redis = here.path().join("redis-of-one");
    std::fs::write(&redis, "#!/bin/sh\nexec redis-server \"$@\" --maxclients 1\n")
        .expect("written");
    std::fs::set_permissions(&redis, Permissions::from_mode(0o755)).expect("permitted");
    let mut load = ebbtide(here.path(), &["load", "--against", "redis", "--keys", "20000"]);
    let error = complaint(load.args(["--dram", "3MiB", "--redis"]).arg(&redis), 1);
    assert!(error.contains("did not start"), "{error}");
    assert!(error.contains("--dram: a DRAM budget of 3145728 bytes is too small"), "{error}");
    assert_eq!(names(here.path()), ["redis-of-one"]);
}

#[test]
fn a_comparison_without_redis_says_what_to_install() {
    let here = folder();
    let arguments = ["load", "--against", "redis", "--redis", "no-such-redis"];
    let error = complaint(&mut ebbtide(here.path(), &arguments), 1);
    assert!(error.contains("no-such-redis") && error.contains("apt-get install"), "{error}");
    assert_eq!(names(here.path()), [] as [&str; 0]);
}

/// Returns a number from `INFO`.
fn counter(address: &str, name: &str) -> Option<u64> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.write_all(b"INFO stats\r\n").ok()?;
    let lines = BufReader::new(socket).lines().map_while(Result::ok);
    lines.filter_map(|line| line.strip_prefix(name)?.trim().parse().ok()).next()
}

#[test]
fn keys_are_exported_and_imported_and_a_damaged_file_is_one_line() {
    let here = folder();
    let (one, other) = (Server::with(&[]), Server::with(&[]));
    let load = ["load", "--server", &one.address, "--keys", "500", "--writes", "0"];
    printed(ebbtide(here.path(), &load).args(["--seconds", "0.1", "--warm-up", "0"]));
    let export = ["export", "dump.rdb", "--server", &one.address];
    assert_eq!(printed(&mut ebbtide(here.path(), &export)), "keys               500\n");
    let error = complaint(&mut ebbtide(here.path(), &export), 2);
    assert!(error.contains("dump.rdb: File exists"), "{error}");
    let import = ["import", "dump.rdb", "--server", &other.address];
    assert_eq!(printed(&mut ebbtide(here.path(), &import)), "keys               500\n");
    let again = ebbtide(here.path(), &import).output().expect("it runs");
    let text = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(text.lines().count(), 102, "a hundred keys, and two lines: {text}");
    assert!(text.trim_end().ends_with("dump.rdb: 500 keys refused"), "{text}");
    let replace = [&import[..], &["--replace"]].concat();
    assert_eq!(printed(&mut ebbtide(here.path(), &replace)), "keys               500\n");

    let path = here.path().join("dump.rdb");
    let bytes = std::fs::read(&path).expect("it is there");
    std::fs::write(&path, &bytes[..1000]).expect("written");
    let error = complaint(&mut ebbtide(here.path(), &replace), 2);
    assert!(error.contains("dump.rdb: byte ") && error.contains("cut off"), "{error}");
    std::fs::write(&path, b"no database").expect("written");
    let error = complaint(&mut ebbtide(here.path(), &replace), 2);
    assert!(error.contains("byte 0: no database file of Redis"), "{error}");
    let serve = ["serve", "--replicaof", "nowhere"];
    let error = complaint(&mut ebbtide(here.path(), &serve), 2);
    assert!(error.contains("expected a host and a port"), "{error}");
}
