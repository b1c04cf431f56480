//! The commands of Redis Cluster.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{SLOTS, Scanned, hashes_of_slot, slot};

use super::keys::{Names, scan_leaf};
use super::{Call, Failure, Outcome, Stop};
use crate::cluster::{Cluster, Node};
use crate::state::State;

const DISABLED: &str = "ERR This instance has cluster support disabled";

/// The subcommands that `HELP` lists, in the words of Redis. The others change the cluster.
const HELP: &[&str] = &[
    "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "COUNT-FAILURE-REPORTS <node-id>",
    "    Return number of failure reports for <node-id>.",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "LINKS",
    "    Return information about all network links between this node and its peers.",
    "MYID",
    "    Return the node id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
    "REPLICAS <node-id>",
    "    Return <node-id> replicas.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, master and replicas IP addresses, ports and ids",
    "HELP",
    "    Prints this help.",
];

/// `READONLY`, `READWRITE` and `ASKING`. They change nothing, because there are no replicas and no
/// slots that move.
pub(super) fn accept<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    of(call)?;
    call.reply.ok();
    Ok(())
}

fn of<'a, M>(call: &Call<'a, M>) -> Result<&'a Cluster, Failure> {
    let state: &'a State = call.state;
    state.settings().cluster.as_deref().ok_or(DISABLED.into())
}

pub(super) fn cluster<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let cluster = of(call)?;
    match call.arguments[1].to_ascii_uppercase().as_slice() {
        b"COUNT-FAILURE-REPORTS" => {
            check_node(call, cluster)?;
            call.reply.integer(0);
        }
        b"COUNTKEYSINSLOT" => {
            let slot = slot_argument(call, "ERR Invalid slot")?;
            let mut count = 0;
            each_leaf(call, slot, |_, found| {
                count += found.len();
                Ok(true)
            })?;
            call.reply.integer(count as i64);
        }
        b"GETKEYSINSLOT" => return keys_in_slot(call),
        b"HELP" => call.reply.help(HELP),
        b"INFO" => call.reply.verbatim(&info(cluster)),
        b"KEYSLOT" => call.reply.integer(slot(call.arguments[2]).into()),
        b"LINKS" => call.reply.array(0),
        b"MYID" => call.reply.bulk(cluster.nodes()[cluster.own()].id().as_bytes()),
        b"NODES" => call.reply.verbatim(&nodes(cluster)),
        b"REPLICAS" | b"SLAVES" => {
            check_node(call, cluster)?;
            call.reply.array(0);
        }
        b"SHARDS" => shards(call, cluster),
        b"SLOTS" => slots(call, cluster),
        changes => {
            let name = String::from_utf8_lossy(changes);
            let text = format!(
                "ERR CLUSTER {name} is refused: the file of --cluster-slots has the nodes and their slots"
            );
            return Err(text.into());
        }
    }
    Ok(())
}

/// Returns an error unless the argument is the identity of a node.
fn check_node<M>(call: &Call<'_, M>, cluster: &Cluster) -> Outcome {
    let given = call.arguments[2];
    if cluster.nodes().iter().any(|node| node.id().as_bytes() == given) {
        return Ok(());
    }
    Err(format!("ERR Unknown node {}", String::from_utf8_lossy(given)).into())
}

/// Parses the argument that is a slot.
fn slot_argument<M: FullMemory>(
    call: &Call<'_, M>,
    otherwise: &'static str,
) -> Result<u16, Failure> {
    let slot = u16::try_from(call.integer(2)?).ok().filter(|slot| *slot < SLOTS);
    slot.ok_or(otherwise.into())
}

fn keys_in_slot<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    const INVALID: &str = "ERR Invalid slot or number of keys";
    call.integer(2)?;
    let most = u64::try_from(call.integer(3)?).map_err(|_| INVALID)?;
    let slot = slot_argument(call, INVALID)?;
    let mut names = Names::new(call.state);
    each_leaf(call, slot, |call, mut found| {
        found.truncate(usize::try_from(most - names.count()).unwrap_or(usize::MAX));
        names.add(call, &found)?;
        Ok(names.count() < most)
    })?;
    names.reply(call);
    Ok(())
}

/// Calls `each` with the keys of a slot that have not expired, leaf by leaf, until it returns
/// false. Lets other jobs run in between.
fn each_leaf<M: FullMemory>(
    call: &mut Call<'_, M>,
    wanted: u16,
    mut each: impl FnMut(&mut Call<'_, M>, Vec<Scanned>) -> Result<bool, Stop>,
) -> Outcome {
    let hashes = hashes_of_slot(wanted);
    let mut from = hashes.start;
    while from < hashes.end {
        let mut found = Vec::new();
        from = scan_leaf(call, from, None, &mut found);
        found.retain(|scanned| slot(&scanned.key) == wanted);
        if !each(call, found)? {
            break;
        }
        call.let_others_run();
    }
    Ok(())
}

fn info(cluster: &Cluster) -> String {
    let (assigned, nodes) = (cluster.assigned(), cluster.nodes().len());
    let state = if cluster.is_complete() { "ok" } else { "fail" };
    format!(
        "cluster_state:{state}\r\ncluster_slots_assigned:{assigned}\r\ncluster_slots_ok:{assigned}\r\n\
         cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:{nodes}\r\n\
         cluster_size:{}\r\ncluster_current_epoch:{nodes}\r\ncluster_my_epoch:{}\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n",
        cluster.serving(),
        epoch(cluster.own()),
    )
}

/// Returns the configuration epoch of a node. In Redis each master has its own.
fn epoch(node: usize) -> usize {
    node + 1
}

/// Returns a line for each node. There is no bus between nodes, so its port is 0.
fn nodes(cluster: &Cluster) -> String {
    let ranges = cluster.ranges();
    let line = |(index, node): (usize, &Node)| {
        let own = if index == cluster.own() { "myself," } else { "" };
        let (id, epoch) = (node.id(), epoch(index));
        let mut line = format!("{id} {node}@0 {own}master - 0 0 {epoch} connected");
        for (range, _) in ranges.iter().filter(|(_, owner)| *owner == index) {
            let (first, last) = (range.start(), range.end());
            line.push_str(&match first == last {
                true => format!(" {first}"),
                false => format!(" {first}-{last}"),
            });
        }
        line + "\n"
    };
    cluster.nodes().iter().enumerate().map(line).collect()
}

fn slots<M>(call: &mut Call<'_, M>, cluster: &Cluster) {
    let ranges = cluster.ranges();
    call.reply.array(ranges.len());
    for (range, owner) in ranges {
        let node = &cluster.nodes()[owner];
        call.reply.array(3);
        call.reply.integer((*range.start()).into());
        call.reply.integer((*range.end()).into());
        call.reply.array(4);
        call.reply.bulk(node.host.as_bytes());
        call.reply.integer(node.port.into());
        call.reply.bulk(node.id().as_bytes());
        // There are no other addresses.
        call.reply.map(0);
    }
}

fn shards<M>(call: &mut Call<'_, M>, cluster: &Cluster) {
    let ranges = cluster.ranges();
    let port = if call.state.settings().has_tls { "tls-port" } else { "port" };
    let reply = &mut *call.reply;
    reply.array(cluster.nodes().len());
    for (index, node) in cluster.nodes().iter().enumerate() {
        let own = ranges.iter().filter(|(_, owner)| *owner == index);
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(own.clone().count() * 2);
        for (range, _) in own {
            reply.integer((*range.start()).into());
            reply.integer((*range.end()).into());
        }
        reply.bulk(b"nodes");
        reply.array(1);
        reply.map(7);
        for (name, value) in [
            ("id", node.id().as_str()),
            ("ip", &node.host),
            ("endpoint", &node.host),
            ("role", "master"),
            ("health", "online"),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        for (name, value) in [(port, node.port), ("replication-offset", 0)] {
            reply.bulk(name.as_bytes());
            reply.integer(value.into());
        }
    }
}
