//! The text format of Prometheus: each metric with help, type and numeric values.

use std::fmt::Write as _;

use crate::slow::Times;

/// The type of a metric.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
}

use Kind::{Counter, Gauge};

/// Fields of `INFO` that are metrics.
const FIELDS: &[(&str, Kind, &str)] = &[
    ("uptime_in_seconds", Gauge, "Seconds since the server started."),
    ("connected_clients", Gauge, "Connections that are open."),
    ("maxclients", Gauge, "The most connections at once."),
    ("used_memory_rss", Gauge, "Bytes of DRAM that the process has."),
    ("maxmemory", Gauge, "Bytes of flash for keys and values."),
    ("dram_bytes", Gauge, "The DRAM budget in bytes."),
    ("dram_uses_bytes", Gauge, "DRAM for the uses of keys, in bytes."),
    ("flash_bytes", Gauge, "Bytes of flash for keys and values."),
    ("flash_bytes_free", Gauge, "Bytes of flash that nothing uses."),
    ("writes_refused", Gauge, "1 while changes are refused: the device fails or is full."),
    ("rdb_changes_since_last_save", Gauge, "Changes since the last save."),
    ("rdb_bgsave_in_progress", Gauge, "1 while a save or a copy is under way."),
    ("rdb_last_save_time", Gauge, "The Unix time of the last save, in seconds."),
    ("total_connections_received", Counter, "Connections accepted."),
    ("total_commands_processed", Counter, "Commands run."),
    ("instantaneous_ops_per_sec", Gauge, "Commands a second, over the last second."),
    ("total_net_input_bytes", Counter, "Bytes received."),
    ("total_net_output_bytes", Counter, "Bytes sent."),
    ("rejected_connections", Counter, "Connections refused."),
    ("expired_keys", Counter, "Keys removed because they had expired."),
    ("expired_subkeys", Counter, "Fields of hashes that upkeep removed after their expiry."),
    ("evicted_keys", Counter, "Keys removed because the store was full."),
    ("keyspace_hits", Counter, "Look-ups of keys that were there."),
    ("keyspace_misses", Counter, "Look-ups of keys that were not there."),
    ("total_error_replies", Counter, "Error replies."),
    ("used_cpu_sys", Counter, "Seconds of CPU in the kernel."),
    ("used_cpu_user", Counter, "Seconds of CPU in the program."),
    ("cores", Gauge, "Cores of the server."),
    ("memory_accesses", Counter, "Accesses to memory."),
    ("memory_hits", Counter, "Accesses that found their page in DRAM."),
    ("memory_misses", Counter, "Accesses that waited for flash."),
    ("memory_miss_ratio", Gauge, "Misses by accesses, since the start."),
    ("flash_reads", Counter, "Pages read from flash."),
    (
        "flash_reads_per_command",
        Gauge,
        "Pages read by commands run, since the last CONFIG RESETSTAT.",
    ),
    ("flash_writes", Counter, "Pages written to flash."),
    ("flash_bytes_written", Counter, "Bytes written to flash, the log included."),
    ("flash_full_writes_per_day", Gauge, "Times a day that the capacity is written."),
    ("jobs", Counter, "Jobs that the engine ran."),
    ("dram_frames_bytes", Gauge, "DRAM for pages, in bytes."),
    ("dram_states_bytes", Gauge, "DRAM for the states of pages, in bytes."),
    ("dram_policy_bytes", Gauge, "DRAM for the replacement policy, in bytes."),
    ("dram_cores_bytes", Gauge, "DRAM for stacks and queues, in bytes."),
    ("dram_connections_bytes", Gauge, "DRAM for buffers of connections, in bytes."),
    (
        "cpu_us_per_command_without_misses",
        Gauge,
        "CPU of a command that misses nothing, in microseconds.",
    ),
    ("cpu_us_per_miss", Gauge, "CPU of a miss, in microseconds."),
];

/// Fields of a database in `INFO` that are metrics.
const OF_DATABASES: &[(&str, Kind, &str)] = &[
    ("keys", Gauge, "Keys of the database."),
    ("expires", Gauge, "Keys of the database with a time of expiry."),
];

/// Returns the page for a reply to `INFO` and the times of commands.
pub(super) fn page(info: &str, times: &[(&str, Times)]) -> String {
    let fields: Vec<(&str, &str)> =
        info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let mut text = String::new();
    for (name, kind, help) in FIELDS {
        let value = fields.iter().find(|(field, _)| field == name).map(|(_, value)| *value);
        if let Some(value) = value.filter(|value| is_number(value)) {
            head(&mut text, name, kind.word(), help);
            let _ = writeln!(text, "ebbtide_{name} {value}");
        }
    }
    let databases = fields.iter().filter_map(|(name, parts)| {
        let number = name.strip_prefix("db").filter(|number| number.parse::<u32>().is_ok())?;
        Some((number, *parts))
    });
    let databases: Vec<(&str, &str)> = databases.collect();
    for (part, kind, help) in OF_DATABASES.iter().filter(|_| !databases.is_empty()) {
        head(&mut text, &format!("db_{part}"), kind.word(), help);
        for (number, parts) in &databases {
            let value = parts.split(',').find_map(|of| of.strip_prefix(part)?.strip_prefix('='));
            if let Some(value) = value.filter(|value| is_number(value)) {
                let _ = writeln!(text, "ebbtide_db_{part}{{db=\"{number}\"}} {value}");
            }
        }
    }
    histograms(&mut text, times);
    text
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Counter => "counter",
            Gauge => "gauge",
        }
    }
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok_and(f64::is_finite)
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP ebbtide_{name} {help}\n# TYPE ebbtide_{name} {kind}\n");
}

/// Appends the histograms of command times, from start to reply.
fn histograms(text: &mut String, times: &[(&str, Times)]) {
    const NAME: &str = "command_duration_seconds";
    if times.is_empty() {
        return;
    }
    head(text, NAME, "histogram", "Time of commands, waiting for flash included.");
    for (command, times) in times {
        for (us, count) in times.buckets() {
            let seconds = us as f64 / 1e6;
            let _ = writeln!(
                text,
                "ebbtide_{NAME}_bucket{{command=\"{command}\",le=\"{seconds}\"}} {count}"
            );
        }
        let (calls, seconds) = (times.calls, times.total_us as f64 / 1e6);
        let _ = write!(
            text,
            "ebbtide_{NAME}_bucket{{command=\"{command}\",le=\"+Inf\"}} {calls}\n\
             ebbtide_{NAME}_sum{{command=\"{command}\"}} {seconds}\n\
             ebbtide_{NAME}_count{{command=\"{command}\"}} {calls}\n"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::slow::Slow;

    #[test]
    fn every_sample_is_a_number_behind_its_help_and_type() {
        let mut slow = Slow::default();
        [3, 900].into_iter().for_each(|us| slow.note(5, Duration::from_micros(us), &[], b"", 0));
        let info = "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nuptime_in_seconds:5\r\n\r\n\
                    # Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=0\r\nmemory_miss_ratio:nan\r\n";
        let text = page(info, &[("get", slow.times(5))]);
        let mut known = String::new();
        for line in text.lines() {
            if let Some(of_type) = line.strip_prefix("# TYPE ") {
                known = of_type.split(' ').next().unwrap().into();
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with(&known) && is_number(value), "{line}");
            }
        }
        for line in [
            "# TYPE ebbtide_uptime_in_seconds gauge",
            "ebbtide_uptime_in_seconds 5",
            "ebbtide_db_keys{db=\"0\"} 3",
            "ebbtide_command_duration_seconds_bucket{command=\"get\",le=\"0.000004\"} 1",
            "ebbtide_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"} 2",
            "ebbtide_command_duration_seconds_sum{command=\"get\"} 0.000903",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("redis_git_sha1") && !text.contains("miss_ratio"), "{text}");
    }
}
