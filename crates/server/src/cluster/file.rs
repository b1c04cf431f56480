//! The file that describes a cluster, in TOML: a table `[[node]]` for each server.

use std::net::IpAddr;
use std::path::Path;

use ebbtide_structures::keyspace::SLOTS;
use serde::Deserialize;
use toml::Spanned;

use super::map::{Cluster, Node};

/// Maximum number of nodes, as the specification of Redis Cluster recommends.
const NODES_MAX: usize = 1_000;

/// The longest name of a node or a host in bytes (RFC 1035, section 2.3.4).
const NAME_BYTES_MAX: usize = 253;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    node: Vec<Spanned<Table>>,
}

/// A node as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: Spanned<String>,
    host: Spanned<String>,
    port: Spanned<i64>,
    /// Slots such as `7` and ranges such as `0-5460`.
    slots: Vec<Spanned<String>>,
}

/// An error, and its place in the text.
type Wrong = (usize, String);

/// Reads the file of a cluster whose node `own` is this server.
///
/// # Errors
/// Returns one line: the file, the line, what is wrong, and what was expected.
pub fn read(path: &Path, own: &str) -> Result<Cluster, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let nodes = parse(&text).map_err(|(at, problem)| {
        let line = text[..at.min(text.len())].matches('\n').count() + 1;
        format!("{shown}:{line}: {problem}")
    })?;
    nodes.of(own).map_err(|problem| format!("{shown}: {problem}"))
}

/// The nodes of a file, and the index of the node of each slot.
#[derive(Debug)]
struct Nodes {
    nodes: Vec<Node>,
    owners: Box<[Option<u16>]>,
}

impl Nodes {
    /// Returns the cluster of the node `own`.
    fn of(self, own: &str) -> Result<Cluster, String> {
        let Nodes { nodes, owners } = self;
        match nodes.iter().position(|node| node.name == own) {
            Some(index) => Ok(Cluster::new(nodes, index, owners)),
            None => {
                let names = nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>();
                Err(format!("no node '{own}': expected one of {}", names.join(", ")))
            }
        }
    }
}

fn parse(text: &str) -> Result<Nodes, Wrong> {
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (at, error.message().lines().collect::<Vec<_>>().join(", "))
    })?;
    if file.node.is_empty() {
        return Err((0, "no node: expected tables [[node]]".into()));
    }
    let mut nodes: Vec<Node> = Vec::new();
    let mut owners: Box<[Option<u16>]> = (0..SLOTS).map(|_| None).collect();
    for table in file.node {
        if nodes.len() == NODES_MAX {
            return Err((table.span().start, format!("expected at most {NODES_MAX} nodes")));
        }
        let Table { name, host, port, slots } = table.into_inner();
        let node = node(&nodes, &name, &host, &port)?;
        for range in &slots {
            take(&nodes, &node, &mut owners, range)?;
        }
        nodes.push(node);
    }
    Ok(Nodes { nodes, owners })
}

/// Returns a node whose name and address no other has.
fn node(
    others: &[Node],
    name: &Spanned<String>,
    host: &Spanned<String>,
    port: &Spanned<i64>,
) -> Result<Node, Wrong> {
    let (shown, at) = (name.get_ref(), name.span().start);
    if shown.is_empty() || shown.len() > NAME_BYTES_MAX || !shown.chars().all(is_graphic) {
        let expected = format!("expected 1 to {NAME_BYTES_MAX} letters without spaces");
        return Err((at, format!("name {shown:?}: {expected}")));
    }
    if others.iter().any(|other| other.name == *shown) {
        return Err((at, format!("name '{shown}' again: expected a name for each node")));
    }
    let is_good = match host.get_ref().parse::<IpAddr>() {
        Ok(address) => !address.is_unspecified(),
        Err(_) => is_host(host.get_ref()),
    };
    if !is_good {
        let expected = "expected an IP address or a name that clients can reach";
        return Err((host.span().start, format!("host {:?}: {expected}", host.get_ref())));
    }
    let Some(number) = u16::try_from(*port.get_ref()).ok().filter(|port| *port > 0) else {
        return Err((port.span().start, format!("port {}: expected 1 to 65535", port.get_ref())));
    };
    let node = Node { name: shown.clone(), host: host.get_ref().clone(), port: number };
    let same = |other: &&Node| (&other.host, other.port) == (&node.host, node.port);
    if let Some(other) = others.iter().find(same) {
        let expected = "expected an address for each node";
        return Err((host.span().start, format!("node '{}' has {node}: {expected}", other.name)));
    }
    Ok(node)
}

fn is_graphic(letter: char) -> bool {
    !letter.is_whitespace() && !letter.is_control()
}

/// True if a text may be the name of a host.
fn is_host(text: &str) -> bool {
    let may = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    // A name of digits and dots is an address that is wrong.
    (1..=NAME_BYTES_MAX).contains(&text.len())
        && text.bytes().all(may)
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Records a range of slots of a node, which comes after `others`.
fn take(
    others: &[Node],
    node: &Node,
    owners: &mut [Option<u16>],
    range: &Spanned<String>,
) -> Result<(), Wrong> {
    let (text, at) = (range.get_ref(), range.span().start);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |word: &str| word.trim().parse::<u16>().ok().filter(|slot| *slot < SLOTS);
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        let most = SLOTS - 1;
        return Err((
            at,
            format!("slots {text:?}: expected \"SLOT\" or \"FIRST-LAST\", 0 to {most}"),
        ));
    };
    if last < first {
        return Err((at, format!("slots {text:?}: expected the lower number first")));
    }
    for slot in first..=last {
        let owner = &mut owners[usize::from(slot)];
        if let Some(owner) = owner {
            let other = others.get(usize::from(*owner)).unwrap_or(node);
            let expected = "expected each slot once";
            return Err((at, format!("node '{}' has slot {slot}: {expected}", other.name)));
        }
        *owner = Some(others.len() as u16);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[node]]\nname = \"a\"\nhost = \"10.0.0.1\"\nport = 7000\n\
                       slots = [\"0-99\", \"200\"]\n\n\
                       [[node]]\nname = \"b\"\nhost = \"b.example\"\nport = 7000\nslots = []\n";

    #[test]
    fn a_file_has_nodes_with_addresses_and_slots() {
        let cluster = parse(TWO).expect("it is right").of("b").expect("it is there");
        assert_eq!(cluster.nodes()[cluster.own()].to_string(), "b.example:7000");
        assert_eq!(cluster.assigned(), 101);
        assert_eq!(cluster.nodes().len(), 2);
    }

    #[test]
    fn an_error_has_its_line_and_what_was_expected() {
        for (from, to, line, problem) in [
            ("\"b\"", "\"a\"", 8, "name 'a' again: expected a name for each node"),
            ("\"a\"", "\"a b\"", 2, "name \"a b\": expected 1 to 253 letters without spaces"),
            ("10.0.0.1", "10.0.0", 3, "expected an IP address or a name that clients can reach"),
            ("10.0.0.1", "0.0.0.0", 3, "expected an IP address or a name that clients can reach"),
            ("b.example", "b:7", 9, "expected an IP address or a name that clients can reach"),
            ("b.example", "10.0.0.1", 9, "node 'a' has 10.0.0.1:7000: expected an address"),
            ("port = 7000\nslots = []", "port = 70000\nslots = []", 10, "expected 1 to 65535"),
            ("port = 7000\nslots = []", "slots = []", 7, "missing field `port`"),
            ("slots = []", "slot = []", 11, "unknown field `slot`, expected one of `name`, `host`"),
            ("slots = []", "slots = [\"16384\"]", 11, "expected \"SLOT\" or \"FIRST-LAST\", 0 to"),
            ("slots = []", "slots = [\"x-1\"]", 11, "slots \"x-1\": expected"),
            ("slots = []", "slots = [\"9-8\"]", 11, "expected the lower number first"),
            ("slots = []", "slots = [\n\"300\",\n\"99\"]", 13, "node 'a' has slot 99: expected"),
            ("slots = []", "slots = [\"5000\", \"5000\"]", 11, "node 'b' has slot 5000: expected"),
            ("slots = []", "slots = 7", 11, "invalid type: integer `7`, expected a sequence"),
            ("[[node]]\nname = \"b\"", "[[node]\nname = \"b\"", 7, ""),
        ] {
            let text = TWO.replacen(from, to, 1);
            let (at, found) = parse(&text).expect_err(to);
            assert_eq!(text[..at].matches('\n').count() + 1, line, "{to}: {found}");
            assert!(found.contains(problem) && !found.contains('\n'), "{to}: {found}");
        }
        assert_eq!(parse("").expect_err("it is empty").1, "no node: expected tables [[node]]");
        let unknown = parse(TWO).expect("it is right").of("c").expect_err("it is not there");
        assert_eq!(unknown, "no node 'c': expected one of a, b");
    }
}
