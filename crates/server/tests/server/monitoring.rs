//! Monitoring: `INFO`, and the port for Prometheus.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

use super::client::{Reply, Server, ok};

fn server() -> Server {
    Server::start(|options| options.metrics = Some((Ipv4Addr::LOCALHOST, 0).into()))
}

fn scrape(address: SocketAddr) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

/// The file of a dashboard for Grafana.
const DASHBOARD: &str = include_str!("../../../../packaging/grafana.json");

/// Words of a text that begin as the names of metrics do.
fn metrics_of(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|character: char| !character.is_alphanumeric() && character != '_');
    words.filter(|word| word.starts_with("ebbtide_"))
}

#[test]
fn the_dashboard_asks_for_metrics_that_are_there() {
    let server = server();
    let mut client = server.client();
    assert_eq!(client.call("set a 1 ex 1000"), ok());
    let text = scrape(server.metrics.expect("it listens"));
    // The costs of commands and misses come once their shares have changed.
    let later = ["ebbtide_cpu_us_per_command_without_misses", "ebbtide_cpu_us_per_miss"];
    let known: HashSet<&str> = metrics_of(&text).chain(later).collect();
    let asked: HashSet<&str> = metrics_of(DASHBOARD).collect();
    assert!(asked.len() > 20, "{asked:?}");
    let unknown: Vec<_> = asked.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?} in {text}");
}

#[test]
fn slow_scrapers_keep_neither_others_nor_the_end_of_the_server_waiting() {
    let server = server();
    assert_eq!(server.client().call("set a 1"), ok());
    let address = server.metrics.expect("it listens");
    let slow: Vec<TcpStream> = (0..10)
        .map(|_| {
            let mut slow = TcpStream::connect(address).expect("a connection");
            slow.write_all(b"GET /met").expect("sent");
            slow
        })
        .collect();
    let text = scrape(address);
    for line in [
        "HTTP/1.1 200 OK",
        "# TYPE ebbtide_uptime_in_seconds gauge",
        "# TYPE ebbtide_command_duration_seconds histogram",
        "ebbtide_command_duration_seconds_count{command=\"set\"} 1",
        "ebbtide_db_keys{db=\"0\"} 1.0",
    ] {
        assert!(text.lines().any(|found| found.trim_end() == line), "{line} in {text}");
    }
    drop(server);
    drop(slow);
}

#[test]
fn info_has_the_fields_that_monitoring_reads() {
    let server = server();
    let mut client = server.client();
    let Reply::Bulk(text) = client.call("info") else { panic!("text") };
    let text = String::from_utf8(text).expect("text");
    let value = |name: &str| {
        let found =
            text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {name} in {text}"))
    };
    for name in [
        "used_memory",
        "connected_clients",
        "blocked_clients",
        "total_commands_processed",
        "total_connections_received",
        "instantaneous_ops_per_sec",
        "uptime_in_seconds",
        "aof_rewrite_in_progress",
    ] {
        assert!(value(name).parse::<u64>().is_ok(), "{name} is {}", value(name));
    }
    assert_eq!(value("aof_last_write_status"), "ok");
    assert_eq!((value("cluster_enabled"), value("maxmemory_policy")), ("0", "noeviction"));
    assert_eq!((value("maxmemory"), value("maxmemory_human")), ("67108864", "64.00M"));
    assert_eq!(value("evicted_keys"), "0");
    let used: u64 = value("used_memory").parse().expect("a number");
    assert_eq!(value("used_memory_human"), format!("{:.2}K", used as f64 / 1024.0));
    assert!(value("run_id").len() == 40 && value("run_id").bytes().all(|c| c.is_ascii_hexdigit()));
    assert!(value("uptime_in_seconds").parse::<u64>().expect("a number") < 10_000);
}
