//! `INFO`: facts about the server.

use std::sync::atomic::Ordering;

use ebbtide_core::{FullMemory, PAGE_BYTES};
use ebbtide_structures::keyspace::DATABASES;

use super::clients::mode;
use super::server::COMPATIBLE_VERSION;
use super::{Call, Outcome, counted_names, replication};
use crate::copying::Copied;
use crate::slow::Times;
use crate::statistics::{Counter, Statistics};

/// The section with the counts and times of each command.
const COMMANDS: &str = "Commandstats";

/// Writes a section of `INFO`.
type Section<'a, M> = fn(&mut Call<'a, M>) -> String;

pub(super) fn info<'a, M: FullMemory>(call: &mut Call<'a, M>) -> Outcome {
    let asked = &call.arguments[1..];
    let names = |word: &str| asked.iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
    let all = ["all", "everything"].into_iter().any(names);
    let usual = asked.is_empty() || names("default");
    // As in Redis, the long section is included only on request.
    let wanted = |section: &str| all || usual && section != COMMANDS || names(section);
    let mut text = String::new();
    let sections: [(&str, Section<'a, M>); 12] = [
        ("Server", server_section),
        ("Clients", clients_section),
        ("Memory", memory_section),
        ("Persistence", persistence_section),
        ("Stats", stats_section),
        ("Replication", |call| replication::section(call.state)),
        ("CPU", |_| cpu_section()),
        (COMMANDS, commands_section),
        ("Errorstats", errors_section),
        ("Cluster", cluster_section),
        ("Keyspace", keyspace_section),
        ("Ebbtide", ebbtide_section),
    ];
    let wanted = sections.map(|(name, section)| (name, section, wanted(name)));
    for (name, section, _) in wanted.into_iter().filter(|(.., wanted)| *wanted) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str(&format!("# {name}\r\n{}", section(call)));
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn server_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let settings = call.state.settings();
    let uptime = call.state.shared.started.elapsed().as_secs();
    format!(
        "redis_version:{COMPATIBLE_VERSION}\r\nredis_git_sha1:00000000\r\nebbtide_version:{}\r\nredis_mode:{}\r\n\
         os:Linux\r\narch_bits:64\r\nprocess_id:{}\r\nrun_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{uptime}\r\n\
         uptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        mode(call.state),
        std::process::id(),
        call.state.shared.run_id,
        settings.port,
        uptime / 86_400,
    )
}

fn clients_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let most = call.state.settings().clients_max;
    let clients = call.state.shared.total(|core| &core.clients);
    let shared = &call.state.shared;
    let blocked = shared.waiting.clients() + shared.pause.clients(call.state.now_ms.get());
    format!("connected_clients:{clients}\r\nmaxclients:{most}\r\nblocked_clients:{blocked}\r\n")
}

fn memory_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let resident = resident.unwrap_or(0) * rustix::param::page_size() as u64;
    let (settings, eviction) = (call.state.settings(), &call.state.shared.eviction);
    let (free, all) = call.keyspace().free_pages(call.memory);
    let [free, all] = [free, all].map(|pages| pages * PAGE_BYTES as u64);
    let (used, scripts) = (all - free, call.state.shared.sources.size().0);
    format!(
        "used_memory:{used}\r\nused_memory_human:{}\r\nused_memory_rss:{resident}\r\n\
         used_memory_rss_human:{}\r\nmaxmemory:{all}\r\nmaxmemory_human:{}\r\n\
         maxmemory_policy:{}\r\nnumber_of_cached_scripts:{scripts}\r\nflash_bytes:{all}\r\nflash_bytes_free:{free}\r\n\
         dram_bytes:{}\r\ndram_uses_bytes:{}\r\n",
        human(used),
        human(resident),
        human(all),
        eviction.policy(),
        settings.dram_bytes,
        eviction.table_bytes(),
    )
}

/// Returns an amount of bytes as Redis writes it for people.
fn human(bytes: u64) -> String {
    let (unit, divisor) = match bytes {
        0..0x400 => return format!("{bytes}B"),
        0x400..0x10_0000 => ("K", 1u64 << 10),
        0x10_0000..0x4000_0000 => ("M", 1 << 20),
        0x4000_0000..0x100_0000_0000 => ("G", 1 << 30),
        _ => ("T", 1 << 40),
    };
    format!("{:.2}{unit}", bytes as f64 / divisor as f64)
}

fn persistence_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let state = call.state;
    let log = u8::from(state.settings().durability != "none");
    let unsaved = state.shared.unsaved.lock().clone();
    let refuses = state.shared.storage.refuses();
    let (status, copied) = match state.shared.storage.copied() {
        Copied::Never => ("ok", "never".into()),
        Copied::UnderWay => ("ok", "under way".into()),
        Copied::Done(path) => ("ok", format!("done:{}", path.display())),
        Copied::Failed(reason) => ("err", format!("failed:{reason}")),
    };
    format!(
        "loading:0\r\nwrites_refused:{}\r\nrdb_changes_since_last_save:{}\r\nrdb_bgsave_in_progress:{}\r\nrdb_last_save_time:{}\r\n\
         rdb_last_bgsave_status:{status}\r\nlast_copy:{copied}\r\naof_enabled:{log}\r\naof_rewrite_in_progress:0\r\n\
         aof_last_write_status:{}\r\n{}",
        u8::from(refuses),
        state.shared.changes_since_save(),
        u8::from(state.shared.saving().is_some() || copied == "under way"),
        state.shared.saved_ms.load(Ordering::SeqCst) / 1000,
        if refuses { "err" } else { "ok" },
        unsaved.map_or(String::new(), |reason| format!("last_write_error:{reason}\r\n")),
    )
}

fn ebbtide_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let shared = &call.state.shared;
    let (commands, buffers) =
        (shared.total(|core| &core.commands), shared.total(|core| &core.buffers));
    format!("cores:{}\r\n{}", shared.cores.len(), shared.storage.section(commands, buffers))
}

/// Fields 14 and 15 of proc_pid_stat(5): ticks in the program and in the kernel.
fn cpu_section() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).map_while(|field| field.parse::<u64>().ok());
    let seconds: Vec<f64> = ticks
        .take(2)
        .map(|ticks| ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        .collect();
    match seconds[..] {
        [user, system] => {
            format!("used_cpu_sys:{system:.6}\r\nused_cpu_user:{user:.6}\r\n")
        }
        _ => String::new(),
    }
}

/// Counts and times of the commands that have run or were refused.
fn commands_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let slow = &call.state.shared.slow;
    let ran = counted_names().iter().enumerate().map(|(number, name)| (name, slow.times(number)));
    let ran = ran.filter(|(_, times)| times.calls + times.rejected > 0);
    ran.map(|(name, Times { calls, total_us, rejected, failed, .. })| {
        let each_us = total_us as f64 / calls.max(1) as f64;
        format!(
            "cmdstat_{name}:calls={calls},usec={total_us},usec_per_call={each_us:.2},\
             rejected_calls={rejected},failed_calls={failed}\r\n"
        )
    })
    .collect()
}

/// Counts of error replies by their first words.
fn errors_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let errors = call.state.shared.slow.errors().into_iter();
    errors.map(|(word, count)| format!("errorstat_{word}:count={count}\r\n")).collect()
}

fn stats_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let total = |of: fn(&Statistics) -> &Counter| call.state.shared.total(of);
    format!(
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\n\
         instantaneous_ops_per_sec:{}\r\ntotal_net_input_bytes:{}\r\n\
         total_net_output_bytes:{}\r\nrejected_connections:{}\r\nexpired_keys:{}\r\n\
         expired_subkeys:{}\r\nevicted_keys:{}\r\n\
         keyspace_hits:{}\r\nkeyspace_misses:{}\r\ntotal_error_replies:{}\r\n",
        total(|core| &core.connections),
        total(|core| &core.commands),
        call.state.shared.commands_a_second.get(),
        total(|core| &core.input_bytes),
        total(|core| &core.output_bytes),
        total(|core| &core.rejected),
        total(|core| &core.expired),
        total(|core| &core.expired_fields),
        total(|core| &core.evicted),
        total(|core| &core.hits),
        total(|core| &core.misses),
        total(|core| &core.errors),
    )
}

fn cluster_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    format!("cluster_enabled:{}\r\n", u8::from(call.state.settings().cluster.is_some()))
}

fn keyspace_section<M: FullMemory>(call: &mut Call<'_, M>) -> String {
    let mut text = String::new();
    for database in 0..DATABASES {
        let counts = call.keyspace().counts(call.memory, database);
        if counts.keys > 0 {
            text.push_str(&format!(
                "db{database}:keys={},expires={},avg_ttl=0\r\n",
                counts.keys, counts.expiring
            ));
        }
    }
    text
}
