//! [`run`]: compares Ebbtide's server with a stock Redis that has all data in DRAM, under the same
//! load.
//!
//! Both servers run on the same CPU. The load runs on another CPU if there is one. Only one server
//! has work at a time. Every round measures every mix on both, and starts with the other server.
//! Ratios are taken within a round. One mix uses only keys that fit in DRAM: it shows the cost of a
//! command without misses. The further cost of the other mixes is the cost of misses.
//!
//! With a rate, commands arrive at random times at that rate. Then response times are compared, and
//! a probe reads the disk of Ebbtide's store at the same time.

mod report;
mod servers;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;
use ebbtide_core::{PAGE_BYTES, Watch};
use ebbtide_engine::affinity;

use super::drive::Load;
use super::kind::Kind;
use super::options::{LoadError, LoadOptions};
use super::probe;
use super::report::ResponseTimes;
use crate::disturbance::{Activity, Disturbance};
use crate::doctor::machine::MachineSummary;
use crate::doctor::probe::{Target, random_reads};

pub use report::{AgainstReport, Bound, MixReport, SideReport};
use servers::{Running, Servers};

/// Bytes of data for a byte of DRAM, by default.
const DATA_PER_DRAM: u64 = 20;

/// The least DRAM that a comparison chooses: enough for the server, its connections, its page
/// states and some frames.
const DRAM_BYTES_MIN: u64 = 8 << 20;

/// Flash for keys and values, as a multiple of their bytes: pages of the index are not full. A
/// sorted set of a hundred members has two trees of pages, one by member and one by score. An
/// element counts at least [`ELEMENT_BYTES_MIN`], because an entry has a header and a hash.
const CAPACITY_PER_DATA: u64 = 3;
const CAPACITY_PER_SORTED_SET: u64 = 9;
const ELEMENT_BYTES_MIN: u64 = 32;

/// The keys of the mix without misses are a page each, in this share of Ebbtide's frames.
const CACHED_SHARE: u64 = 4;

/// Reads in flight for the measurement of the disk's most reads.
const QUEUE_DEPTH: u32 = 128;

/// Length of that measurement.
const PROBED: Duration = Duration::from_millis(300);

/// Options of a comparison.
#[derive(Debug, Clone)]
pub struct AgainstOptions {
    /// Keys, values, skew, clients, warm-up and duration. The comparison sets the mix and the
    /// server.
    pub load: LoadOptions,
    /// Number of rounds. Each measures every mix on both servers.
    pub rounds: usize,
    /// DRAM of Ebbtide's server in bytes. With `None`, a twentieth of the data, but at least 8 MiB.
    pub dram_bytes: Option<u64>,
    /// The durability of Ebbtide's server. With [`Policy::Always`], Redis flushes its log as often.
    /// Otherwise Redis keeps nothing on disk.
    pub durability: Policy,
    /// Path of the `ebbtide` program.
    pub ebbtide: PathBuf,
    /// Path of the `redis-server` program.
    pub redis: PathBuf,
    /// The folder for the files of both servers.
    pub folder: PathBuf,
}

impl AgainstOptions {
    fn element_bytes(&self) -> u64 {
        let (least, most) = self.load.value_bytes;
        let per_collection = self.load.per_collection() as u64;
        self.load.kind.element_bytes((least + most) as u64 / 2, per_collection)
    }

    fn data_bytes(&self) -> u64 {
        self.load.keys as u64 * self.element_bytes()
    }

    fn dram_bytes(&self) -> u64 {
        let share = self.data_bytes() / DATA_PER_DRAM;
        self.dram_bytes.unwrap_or(share.max(DRAM_BYTES_MIN))
    }

    /// DRAM while the keys are written. A server that keeps its keys is filled with all of them in
    /// DRAM, and then restarted. With a twentieth of the DRAM, every key would cost a read and a
    /// write of a page.
    fn fill_dram_bytes(&self) -> u64 {
        if self.durability == Policy::None {
            return self.dram_bytes();
        }
        self.dram_bytes() + self.capacity_bytes()
    }

    fn capacity_bytes(&self) -> u64 {
        let data_bytes = self.load.keys as u64 * self.element_bytes().max(ELEMENT_BYTES_MIN);
        let per_byte = match self.load.kind {
            Kind::SortedSet => CAPACITY_PER_SORTED_SET,
            _ => CAPACITY_PER_DATA,
        };
        (data_bytes * per_byte).max(64 << 20)
    }
}

/// A mix of commands.
#[derive(Debug, Clone, PartialEq)]
struct Mix {
    name: String,
    writes: f64,
    pipeline: usize,
    cached: bool,
}

/// Returns the mixes of a comparison, in the order of the table. A mix whose keys are all in DRAM
/// stands before those with the same commands: it shows the cost of a command without misses.
/// With random arrivals, pipelines are omitted because they make no difference.
fn mixes(options: &LoadOptions) -> Vec<Mix> {
    let [read, write] = options.kind.commands();
    let mix = |name: &str, writes, pipeline, cached| {
        let cache = if cached { ", data in cache" } else { "" };
        let pipelined = if pipeline > 1 { format!(", pipeline {pipeline}") } else { String::new() };
        Mix { name: format!("{name}{pipelined}{cache}"), writes, pipeline, cached }
    };
    let half = format!("{read} and {write}");
    let mixes = match options.kind {
        Kind::String => vec![
            mix(read, 0.0, 1, true),
            mix(read, 0.0, 1, false),
            mix(read, 0.0, 16, false),
            mix("50/50", 0.5, 1, false),
            mix("50/50", 0.5, 16, false),
        ],
        Kind::Hash | Kind::Set | Kind::SortedSet => vec![
            mix(read, 0.0, 1, true),
            mix(read, 0.0, 1, false),
            mix(write, 1.0, 1, true),
            mix(write, 1.0, 1, false),
        ],
        // As many elements must come as go.
        Kind::List => vec![mix(&half, 0.5, 1, true), mix(&half, 0.5, 1, false)],
        Kind::Script => vec![mix(write, 1.0, 1, true), mix(write, 1.0, 1, false)],
    };
    let open_loop = options.rate.is_some();
    mixes.into_iter().filter(|mix| !open_loop || mix.pipeline == 1).collect()
}

/// Results of one server in one round of a mix.
#[derive(Debug, Clone)]
struct Window {
    throughput: f64,
    response: ResponseTimes,
    /// Reads of the disk during the mix, in an open loop.
    probe: Option<ResponseTimes>,
    cpu_us: f64,
    busy: f64,
    reads: f64,
    disturbance: Disturbance,
}

/// Runs a comparison.
///
/// # Errors
/// [`LoadError`] if a server does not start or does not answer, or `watch` requests a stop.
pub fn run(options: &AgainstOptions, watch: Watch<'_>) -> Result<AgainstReport, LoadError> {
    if !(1..=1000).contains(&options.rounds) {
        let given = options.rounds.to_string();
        return Err(LoadError::Option { option: "--rounds", given, expected: "1 to 1000" });
    }
    let cpus = affinity::allowed().map_err(LoadError::Cpus)?;
    let (server_cpu, load_cpu) = (cpus[0], cpus[cpus.len() - 1]);
    // The kernel pins a thread with all that it starts: the servers are started on their CPU, by a
    // thread of its own.
    let pinned = |cpu: usize| affinity::confine(&[cpu]).map_err(LoadError::Cpus);
    std::thread::scope(|scope| {
        let servers = scope.spawn(|| {
            pinned(server_cpu)?;
            Servers::start(options)
        });
        let servers = servers.join().expect("starting does not panic")?;
        let load = scope.spawn(|| {
            pinned(load_cpu)?;
            Comparison { options, cpus: &cpus, watch, sides: Vec::new(), fill_seconds: Vec::new() }
                .run(servers)
        });
        load.join().expect("a load does not panic")
    })
}

/// Flash of Ebbtide's server.
struct Flash {
    /// Bytes of keys, values and the index.
    bytes: u64,
    /// The most reads a second of the disk, where that could be measured.
    reads_per_s: Option<f64>,
}

/// A server with its load.
struct Side {
    server: Running,
    load: Load,
}

/// The places of the two servers among the sides.
const REDIS: usize = 0;
const EBBTIDE: usize = 1;

struct Comparison<'a> {
    options: &'a AgainstOptions,
    /// CPUs to use. The servers run on the first, the load on the last.
    cpus: &'a [usize],
    watch: Watch<'a>,
    /// [`REDIS`], then [`EBBTIDE`].
    sides: Vec<Side>,
    fill_seconds: Vec<f64>,
}

impl Comparison<'_> {
    fn run(mut self, servers: Servers) -> Result<AgainstReport, LoadError> {
        for (side, server) in [servers.redis, servers.ebbtide].into_iter().enumerate() {
            let options =
                LoadOptions { server: server.address.clone(), ..self.options.load.clone() };
            let mut load = Load::open(&options)?;
            let (since, name) = (Instant::now(), server.name);
            let tell = |_: &str, share: f64| self.watch.show(&format!("filling {name}"), share);
            load.fill(self.watch.telling(&tell))?;
            self.sides.push(Side { server, load });
            if side == EBBTIDE && self.options.durability != Policy::None {
                self.restart()?;
            }
            self.fill_seconds.push(since.elapsed().as_secs_f64());
        }
        let flash_bytes = self.sides[EBBTIDE].server.counters()?.flash_bytes;
        let store = self.sides[EBBTIDE].server.folder().join(servers::STORE);
        let machine = MachineSummary::quick(&store, 1.0);
        // What cannot be measured says nothing of a limit.
        let reads =
            Target::open(&store).and_then(|target| random_reads(&target, QUEUE_DEPTH, PROBED));
        let disk_reads_per_s = reads.ok().map(|reads| reads.iops);
        let mut machine = machine.unwrap_or_else(|_| MachineSummary::of_system());
        machine.cores_usable = self.cpus.len();
        let mixes = mixes(&self.options.load);
        let mut windows: Vec<[Vec<Window>; 2]> = mixes.iter().map(|_| Default::default()).collect();
        for round in 0..self.options.rounds {
            for (number, mix) in mixes.iter().enumerate() {
                let done = (round * mixes.len() + number) as f64;
                let share = done / (self.options.rounds * mixes.len()) as f64;
                for turn in 0..2 {
                    let side = (round + turn) % 2;
                    self.watch.tell(&mix.name, share)?;
                    let window = self.window(side, mix)?;
                    windows[number][side].push(window);
                }
            }
        }
        let mixes = MixReport::all(&mixes, &windows, self.options.load.rate.is_none());
        let flash = Flash { bytes: flash_bytes, reads_per_s: disk_reads_per_s };
        Ok(self.report(mixes, &windows, &machine, flash))
    }

    /// Restarts Ebbtide's server with the DRAM of the measurement.
    fn restart(&mut self) -> Result<(), LoadError> {
        let (options, cpu) = (self.options, self.cpus[0]);
        let Side { server, load } = &mut self.sides[EBBTIDE];
        std::thread::scope(|scope| {
            let again = scope.spawn(|| {
                affinity::confine(&[cpu]).map_err(LoadError::Cpus)?;
                server.restart(options, options.dram_bytes())
            });
            again.join().expect("starting does not panic")
        })?;
        load.options.server = server.address.clone();
        load.reconnect()
    }

    /// Returns how many keys fit in Ebbtide's cache. Only Ebbtide reports its frames.
    fn cached_keys(&mut self) -> Result<usize, LoadError> {
        let mut frames_bytes = 0;
        for side in &mut self.sides {
            frames_bytes = frames_bytes.max(side.server.counters()?.frames_bytes);
        }
        Ok(((frames_bytes / CACHED_SHARE) as usize / PAGE_BYTES).max(1))
    }

    /// Measures a mix on one server.
    fn window(&mut self, side: usize, mix: &Mix) -> Result<Window, LoadError> {
        let options = self.options;
        let keys = if mix.cached { self.cached_keys()? } else { options.load.keys };
        let store = self.sides[EBBTIDE].server.folder().join(servers::STORE);
        let Side { server, load } = &mut self.sides[side];
        load.options.writes = mix.writes;
        load.options.pipeline = mix.pipeline;
        load.options.keys = keys.min(options.load.keys);
        let quiet = |_: &str, _: f64| ();
        let watch = self.watch.telling(&quiet);
        // The warm-up is a load of its own, so that what is read before and after has no part in
        // it.
        load.options.warm_up = Duration::ZERO;
        load.options.duration = options.load.warm_up;
        load.measure(watch)?;
        load.options.duration = options.load.duration;
        let cpus = [self.cpus[0]];
        let (before, counters) = (Activity::now(&cpus), server.counters()?);
        let (since, cpu_before) = (Instant::now(), server.cpu_s());
        let (measured, probe) = match load.options.rate {
            Some(_) => probe::beside(&store, || load.measure(watch))
                .map(|(measured, probe)| (measured, Some(probe.response)))?,
            None => (load.measure(watch)?, None),
        };
        let (histogram, seconds) = measured;
        let (wall_s, cpu_s) = (since.elapsed().as_secs_f64(), server.cpu_s() - cpu_before);
        let after = Activity::now(&cpus);
        let counted = server.counters()?;
        let cpu_s = cpu_s + after.kernel_cpu_s(&before);
        // Redis itself also counts the commands of scripts.
        let commands = histogram.len().max(1) as f64;
        Ok(Window {
            throughput: histogram.len() as f64 / seconds,
            response: ResponseTimes::of(&histogram),
            probe,
            cpu_us: cpu_s * 1e6 / commands,
            busy: cpu_s / wall_s,
            reads: (counted.flash_reads - counters.flash_reads) as f64 / commands,
            disturbance: after.disturbance(&before, server.id(), wall_s, 1),
        })
    }

    fn report(
        &self,
        mixes: Vec<MixReport>,
        windows: &[[Vec<Window>; 2]],
        machine: &MachineSummary,
        flash: Flash,
    ) -> AgainstReport {
        let [redis, ebbtide] = [REDIS, EBBTIDE].map(|side| &self.sides[side]);
        let all = windows.iter().flatten().flatten().map(|window| &window.disturbance);
        let first_of = |what: fn(&super::connection::Tally) -> &Option<String>| {
            self.sides.iter().find_map(|side| {
                let first = what(&side.load.tally).as_ref()?;
                Some(format!("{}: {first}", side.server.name))
            })
        };
        let load = &self.options.load;
        AgainstReport {
            machine: machine.headline(),
            redis_version: redis.server.version.clone(),
            kind: load.kind,
            keys: load.keys,
            value_bytes: load.value_bytes,
            data_bytes: self.options.data_bytes(),
            dram_bytes: self.options.dram_bytes(),
            flash_bytes: flash.bytes,
            durability: self.options.durability.to_string(),
            zipf: load.zipf,
            clients: load.clients,
            disk_reads_per_s: flash.reads_per_s,
            rate: load.rate,
            rounds: self.options.rounds,
            seconds: load.duration.as_secs_f64(),
            redis_fill_seconds: self.fill_seconds[REDIS],
            ebbtide_fill_seconds: self.fill_seconds[EBBTIDE],
            redis_resident_bytes: redis.server.resident_bytes(),
            ebbtide_resident_bytes: ebbtide.server.resident_bytes(),
            cpus_shared: self.cpus.len() < 2,
            disturbed: Disturbance::reason(all),
            first_error: first_of(|tally| &tally.first_error),
            first_wrong: first_of(|tally| &tally.first_wrong),
            mixes,
        }
    }
}
