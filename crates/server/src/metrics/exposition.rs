//! The metrics in the text format of Prometheus. A counter of `INFO` is named without `total_` and
//! with `_total`, as Prometheus wants it.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::MetricType::{Counter, Gauge};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::slow::Times;

pub(super) use prometheus_text::CONTENT_TYPE;

/// Fields of `INFO` that are metrics.
const FIELDS: &[(&str, MetricType, &str)] = &[
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
const OF_DATABASES: &[(&str, MetricType, &str)] = &[
    ("keys", Gauge, "Keys of the database."),
    ("expires", Gauge, "Keys of the database with a time of expiry."),
];

/// What a page shows: a reply to `INFO`, and the times of commands.
#[derive(Debug)]
struct Told {
    info: String,
    times: Vec<(&'static str, Times)>,
}

/// Returns the page for a reply to `INFO` and the times of commands.
pub(super) fn page(info: String, times: Vec<(&'static str, Times)>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("ebbtide");
    registry.register_collector(Box::new(Told { info, times }));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry)?;
    Ok(text)
}

impl Collector for Told {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let lines = self.info.lines().filter_map(|line| line.trim_end().split_once(':'));
        let fields: Vec<(&str, &str)> = lines.collect();
        for (name, kind, help) in FIELDS {
            let field = fields.iter().find(|(field, _)| field == name);
            if let Some(value) = field.and_then(|(_, value)| number(value)) {
                let name = name.strip_prefix("total_").unwrap_or(name);
                put(encoder.encode_descriptor(name, help, None, *kind)?, *kind, value)?;
            }
        }
        let databases = fields.iter().filter_map(|(name, parts)| {
            let number = name.strip_prefix("db").filter(|number| number.parse::<u32>().is_ok())?;
            Some((number, *parts))
        });
        let databases: Vec<(&str, &str)> = databases.collect();
        for (part, kind, help) in OF_DATABASES.iter().filter(|_| !databases.is_empty()) {
            let name = format!("db_{part}");
            let mut metric = encoder.encode_descriptor(&name, help, None, *kind)?;
            for (database, parts) in &databases {
                let mut parts = parts.split(',');
                let value = parts.find_map(|of| of.strip_prefix(part)?.strip_prefix('='));
                if let Some(value) = value.and_then(number) {
                    put(metric.encode_family(&[("db", *database)])?, *kind, value)?;
                }
            }
        }
        self.histograms(&mut encoder)
    }
}

impl Told {
    /// Writes the histograms of command times, from start to reply.
    fn histograms(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        const HELP: &str = "Time of commands, waiting for flash included.";
        if self.times.is_empty() {
            return Ok(());
        }
        let (name, kind) = ("command_duration_seconds", MetricType::Histogram);
        let mut metric = encoder.encode_descriptor(name, HELP, None, kind)?;
        for (command, times) in &self.times {
            let (calls, seconds) = (times.calls, times.total_us as f64 / 1e6);
            let buckets: Vec<(f64, u64)> = times.buckets().collect();
            let labels = [("command", *command)];
            let mut metric = metric.encode_family(&labels)?;
            metric.encode_histogram::<NoLabelSet>(seconds, calls, &buckets, None)?;
        }
        Ok(())
    }
}

/// Writes a value.
fn put(mut metric: MetricEncoder<'_>, kind: MetricType, value: f64) -> fmt::Result {
    match kind {
        Counter => metric.encode_counter(&value, None::<&Exemplar<NoLabelSet, f64>>),
        _ => metric.encode_gauge(&value),
    }
}

/// Reads a number that is finite.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
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
        let text = page(info.to_string(), vec![("get", slow.times(5))]).unwrap();
        let mut known = String::new();
        for line in text.lines() {
            if let Some(of_type) = line.strip_prefix("# TYPE ") {
                known = of_type.split(' ').next().unwrap().into();
            } else if !line.starts_with('#') {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert!(name.starts_with(&known) && number(value).is_some(), "{line}");
            }
        }
        for line in [
            "# TYPE ebbtide_uptime_in_seconds gauge",
            "ebbtide_uptime_in_seconds 5.0",
            "ebbtide_db_keys{db=\"0\"} 3.0",
            "ebbtide_command_duration_seconds_bucket{command=\"get\",le=\"4e-06\"} 1",
            "ebbtide_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"} 2",
            "ebbtide_command_duration_seconds_sum{command=\"get\"} 0.000903",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert!(!text.contains("redis_git_sha1") && !text.contains("miss_ratio"), "{text}");
    }
}
