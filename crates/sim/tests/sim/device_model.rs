//! Compares the CXL-flash device with a simple, independent model. The model has the queues and
//! sets of MQSim_CXL, the study's simulator. Also checks golden counts of every policy and
//! prefetcher.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ebbtide_core::{Addr, Time};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::CacheCounters;
use ebbtide_sim::{Replay, replay};
use ebbtide_trace::{Access, Op, Source, TraceError};

const PAGES: u64 = 1 << 16;
const DRAM_NS: u64 = 46;
const READ_NS: u64 = 50_000;
const WRITE_NS: u64 = 100_000;
const DRAM_QUEUE: usize = 8;
const ROWS: usize = 1_024;
const ROW: usize = 65;
const FLASH: usize = 1_024;
const PREFETCHES: usize = 1_024;

/// A request: its time, its page, and whether it writes.
type Request = (u64, u64, bool);

struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Pages one after the other, 64 lines each, with later write-backs.
fn scan(count: u64, gap: u64) -> Vec<Request> {
    let line = |i: u64| if i.is_multiple_of(2) { i / 2 } else { (i / 2).saturating_sub(5_000) };
    (0..count).map(|i| (i * gap, line(i) / 64 % PAGES, i % 2 == 1)).collect()
}

/// Random pages of `pages`. A third of the requests write.
fn anywhere(count: u64, gap: u64, pages: u64) -> Vec<Request> {
    let mut random = Xorshift(7);
    (0..count).map(|i| (i * gap, random.below(pages), random.below(3) == 0)).collect()
}

/// Short runs of lines. Half of them start at one of 200 hot pages.
fn mixed(count: u64) -> Vec<Request> {
    let (mut random, mut at, mut page) = (Xorshift(3), 0, 0);
    let step = |_| {
        at += random.below(400);
        if random.below(6) == 0 {
            let hot = random.below(2) == 0;
            page = if hot { random.below(200) } else { random.below(PAGES / 2) };
        } else if random.below(8) == 0 {
            page += 1;
        }
        (at, page, random.below(4) == 0)
    };
    (0..count).map(step).collect()
}

struct Made(VecDeque<Vec<Access>>);

impl Source for Made {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        *batch = self.0.pop_front().unwrap_or_default();
        Ok(!batch.is_empty())
    }
}

fn simulated(requests: &[Request], keys: &[(&str, &str)]) -> Replay {
    let access = |(at, page, write): &Request| {
        Access::new(
            Time::from_ns(*at),
            Addr(page * 4096),
            64,
            if *write { Op::Write } else { Op::Read },
        )
    };
    let batches = requests.chunks(1_000).map(|part| part.iter().map(access).collect());
    let small = [
        ("preset", "atc23"),
        ("dataset.size", "256MiB"),
        ("dram_cache.size", "2MiB"),
        ("flash.preset", "flat"),
    ];
    let config = resolve("cxl-flash", &[&small, keys].concat()).unwrap();
    replay(&config, &mut Made(batches.collect())).unwrap()
}

#[derive(Clone, Copy, PartialEq)]
enum Policy {
    Fifo,
    Lru,
    Cflru,
}

#[derive(Default, Debug)]
struct Counts {
    hits: u64,
    under_miss: u64,
    reads: u64,
    flushes: u64,
}

/// The device: 512 frames.
struct Model {
    policy: Policy,
    prefetches: bool,
    ways: usize,
    now: u64,
    /// Pages of each set with their dirty marks. The next victim is first.
    sets: Vec<Vec<(u64, bool)>>,
    rows: BTreeMap<u64, VecDeque<bool>>,
    full_rows: usize,
    /// Completions of flash by time: pages read, or `None` for a flush.
    flash: BTreeMap<(u64, u64), Option<u64>>,
    commands: u64,
    ahead: BTreeSet<u64>,
    prefetched: BTreeSet<u64>,
    untagged: BTreeSet<u64>,
    /// Arrived pages without a served request, then those with some.
    came: BTreeSet<u64>,
    half_served: BTreeSet<u64>,
    dram_ends: Option<u64>,
    dram_queue: usize,
    counts: Counts,
}

impl Model {
    fn new(policy: Policy, ways: usize, prefetches: bool) -> Model {
        Model {
            policy,
            prefetches,
            ways,
            now: 0,
            sets: vec![Vec::new(); 512 / ways],
            rows: BTreeMap::new(),
            full_rows: 0,
            flash: BTreeMap::new(),
            commands: 0,
            ahead: BTreeSet::new(),
            prefetched: BTreeSet::new(),
            untagged: BTreeSet::new(),
            came: BTreeSet::new(),
            half_served: BTreeSet::new(),
            dram_ends: None,
            dram_queue: 0,
            counts: Counts::default(),
        }
    }

    fn run(mut self, requests: &[Request]) -> Counts {
        for &(due, page, write) in requests {
            let due = due.max(self.now);
            while self.next().is_some_and(|at| at <= due) {
                self.step();
            }
            self.now = due;
            // All events of one time come before the device opens.
            while self.is_closed() || self.next().is_some_and(|at| at <= self.now) {
                self.step();
            }
            self.request(page, write);
        }
        while self.next().is_some() {
            self.step();
        }
        self.counts
    }

    fn is_closed(&self) -> bool {
        self.rows.len() >= ROWS
            || self.full_rows > 0
            || self.flash.len() + self.came.len() >= FLASH
            || self.dram_queue >= DRAM_QUEUE
            || !self.came.is_empty()
            || !self.half_served.is_empty()
    }

    fn next(&self) -> Option<u64> {
        let flash = self.flash.keys().next().map(|(at, _)| *at);
        flash.into_iter().chain(self.dram_ends).min()
    }

    fn step(&mut self) {
        let at = self.next().expect("a closed device has something to do");
        self.now = self.now.max(at);
        if self.dram_ends == Some(at) {
            self.dram_ends = (self.dram_queue > 0).then(|| at + DRAM_NS);
            self.dram_queue = self.dram_queue.saturating_sub(1);
        } else {
            let (_, done) = self.flash.pop_first().expect("flash is next");
            self.came.extend(done);
        }
        self.serve();
    }

    /// Serves arrived pages while the DRAM takes lines.
    fn serve(&mut self) {
        while self.dram_room() > 0 {
            if let Some(page) = self.half_served.first().copied() {
                self.serve_row(page);
            } else if let Some(page) = self.came.pop_first() {
                self.install(page);
                self.serve_row(page);
            } else {
                return;
            }
        }
    }

    /// Takes the first waiting request for `page`. Returns whether it writes.
    fn pop(&mut self, page: u64) -> Option<bool> {
        let row = self.rows.get_mut(&page)?;
        self.full_rows -= usize::from(row.len() == ROW);
        row.pop_front()
    }

    fn serve_row(&mut self, page: u64) {
        self.half_served.remove(&page);
        while self.dram_room() > 0 {
            let Some(write) = self.pop(page) else { break };
            self.dram();
            self.touch(page, write);
        }
        match self.rows.get(&page) {
            Some(row) if row.is_empty() => drop(self.rows.remove(&page)),
            Some(_) => drop(self.half_served.insert(page)),
            None => {}
        }
    }

    fn dram_room(&self) -> usize {
        DRAM_QUEUE - self.dram_queue.min(DRAM_QUEUE) + usize::from(self.dram_ends.is_none())
    }

    fn dram(&mut self) {
        match self.dram_ends {
            None => self.dram_ends = Some(self.now + DRAM_NS),
            Some(_) => self.dram_queue += 1,
        }
    }

    fn install(&mut self, page: u64) {
        let set = page as usize % self.sets.len();
        let by_prefetch = self.ahead.remove(&page);
        if self.sets[set].len() == self.ways {
            let window = if self.policy == Policy::Cflru { self.ways / 2 } else { 0 };
            let clean = self.sets[set][..window].iter().position(|(_, dirty)| !dirty);
            let (victim, dirty) = self.sets[set].remove(clean.unwrap_or(0));
            self.prefetched.remove(&victim);
            self.untagged.remove(&victim);
            if dirty {
                self.counts.flushes += 1;
                self.command(WRITE_NS, None);
            }
        }
        // The first waiter decides whether the page arrives dirty. It does not count as a use.
        let first = self.pop(page);
        self.sets[set].push((page, first == Some(true)));
        if first.is_some() || by_prefetch {
            self.dram();
        }
        if self.prefetched.contains(&page) {
            self.untagged.insert(page);
        }
    }

    fn touch(&mut self, page: u64, write: bool) {
        let set = page as usize % self.sets.len();
        let place = self.sets[set].iter().position(|(cached, _)| *cached == page).unwrap();
        self.sets[set][place].1 |= write;
        if self.policy != Policy::Fifo {
            let used = self.sets[set].remove(place);
            self.sets[set].push(used);
        }
    }

    fn is_cached(&self, page: u64) -> bool {
        self.sets[page as usize % self.sets.len()].iter().any(|(cached, _)| *cached == page)
    }

    fn command(&mut self, takes: u64, read: Option<u64>) {
        self.commands += 1;
        self.flash.insert((self.now + takes, self.commands), read);
    }

    fn request(&mut self, page: u64, write: bool) {
        if self.is_cached(page) {
            self.counts.hits += 1;
            self.dram();
            self.touch(page, write);
            if self.untagged.remove(&page) {
                self.prefetch(page);
            }
            return;
        }
        let known = self.rows.contains_key(&page);
        let row = self.rows.entry(page).or_default();
        row.push_back(write);
        self.full_rows += usize::from(row.len() == ROW);
        if known {
            self.counts.under_miss += 1;
        } else if !self.ahead.contains(&page) {
            self.prefetch(page);
            self.read(page);
        }
    }

    fn read(&mut self, page: u64) {
        self.counts.reads += 1;
        self.command(READ_NS, Some(page));
    }

    fn prefetch(&mut self, page: u64) {
        let in_flash = self.flash.len();
        if !self.prefetches || self.ahead.len() == PREFETCHES || FLASH - in_flash < 2 {
            return;
        }
        let room = (PREFETCHES - self.ahead.len()).min(FLASH - in_flash - 1);
        let new = |page: &u64| {
            let known = self.rows.contains_key(page) || self.ahead.contains(page);
            *page < PAGES && !known && !self.is_cached(*page)
        };
        let wanted: Vec<u64> = (page + 17..page + 21).filter(new).take(room).collect();
        for page in wanted {
            self.ahead.insert(page);
            self.prefetched.insert(page);
            self.read(page);
        }
    }
}

#[test]
fn counts_agree_with_a_plain_model_to_one_percent() {
    counts_agree(&[
        ("scan, faster than DRAM", scan(60_000, 38)),
        ("anywhere", anywhere(40_000, 400, 2_000)),
        ("mixed", mixed(60_000)),
    ]);
}

#[test]
fn counts_of_a_device_that_closes_agree_with_a_plain_model_to_one_percent() {
    counts_agree(&[
        ("scan", scan(60_000, 60)),
        ("anywhere, more than flash takes", anywhere(40_000, 30, 60_000)),
    ]);
}

/// Checks each policy and prefetcher on `traces`.
fn counts_agree(traces: &[(&str, Vec<Request>)]) {
    let policies = [("fifo", Policy::Fifo), ("lru", Policy::Lru), ("cflru", Policy::Cflru)];
    let devices =
        [(1, "none"), (16, "none"), (512, "none"), (4, "next-n-line"), (512, "next-n-line")];
    for (name, requests) in traces {
        for (policy_name, policy) in policies {
            for (ways, prefetcher) in devices {
                let model = Model::new(policy, ways, prefetcher != "none").run(requests);
                let keys = [
                    ("dram_cache.policy", policy_name),
                    ("dram_cache.ways", &ways.to_string()),
                    ("prefetch.policy", prefetcher),
                ];
                let ours = simulated(requests, &keys);
                for (what, ours, theirs) in [
                    ("hits", ours.memory.cache.hits, model.hits),
                    ("hits under miss", ours.memory.cache.hits_under_miss, model.under_miss),
                    ("flash reads", ours.flash.reads, model.reads),
                    ("flushes", ours.memory.cache.evictions_dirty, model.flushes),
                ] {
                    // If a count is small, a thousandth of all requests.
                    let most = (theirs as f64 * 0.01).max(requests.len() as f64 * 0.001);
                    let close = ours.abs_diff(theirs) as f64 <= most;
                    let on = format!("{name}, {policy_name}, {ways} ways, {prefetcher}");
                    assert!(close, "{on}: {what} {ours}, model {theirs}");
                }
            }
        }
    }
}

/// Hits, hits under miss, misses, prefetches used and issued, flushes.
fn counted(replay: &Replay) -> [u64; 6] {
    let (cache, prefetch) = (&replay.memory.cache, replay.prefetch.unwrap());
    let CacheCounters { hits, hits_under_miss, misses, evictions_dirty, .. } = *cache;
    [hits, hits_under_miss, misses, prefetch.used, prefetch.issued, evictions_dirty]
}

const GOLDEN: [(&str, &str, &str, [u64; 6]); 12] = [
    ("fifo", "none", "original", [39196, 33601, 7203, 0, 0, 4268]),
    ("random", "none", "original", [38786, 34010, 7204, 0, 0, 4166]),
    ("lru", "none", "original", [46244, 27327, 6429, 0, 0, 3590]),
    ("cflru", "none", "original", [47422, 26351, 6227, 0, 0, 3235]),
    ("cflru", "next-n-line", "original", [52927, 20401, 6486, 634, 16631, 3806]),
    ("cflru", "next-n-line", "atc23", [52966, 20369, 6467, 658, 16714, 3808]),
    ("cflru", "feedback-directed", "original", [54233, 19580, 6143, 218, 9024, 3322]),
    ("cflru", "feedback-directed", "atc23", [52088, 21214, 6546, 559, 17411, 3805]),
    ("cflru", "best-offset", "original", [46073, 27570, 4706, 1749, 4197, 3400]),
    ("cflru", "best-offset", "atc23", [51194, 21588, 5610, 1945, 56154, 4035]),
    ("cflru", "leap", "original", [47030, 26678, 5725, 587, 1427, 3291]),
    ("cflru", "leap", "atc23", [51547, 21925, 5679, 1180, 9840, 3650]),
];

#[test]
fn every_policy_and_prefetcher_counts_what_it_did_before() {
    let mut requests = mixed(40_000);
    let start = requests[requests.len() - 1].0;
    requests
        .extend(scan(40_000, 60).into_iter().map(|(at, page, write)| (start + at, page, write)));
    let found = GOLDEN.map(|(policy, prefetcher, preset, _)| {
        let keys = [
            ("dram_cache.policy", policy),
            ("prefetch.policy", prefetcher),
            ("prefetch.preset", preset),
        ];
        (policy, prefetcher, preset, counted(&simulated(&requests, &keys)))
    });
    assert_eq!(found, GOLDEN);
}

/// Lines of pages of 64 MiB with Zipfian popularity of skew 1, by inverting a sum of 1/r.
fn zipf(count: u64, gap: u64) -> Vec<Request> {
    let (mut random, pages) = (Xorshift(11), 1_u64 << 14);
    let rank = |random: &mut Xorshift| {
        let share = random.below(1 << 40) as f64 / (1_u64 << 40) as f64;
        (pages as f64).powf(share) as u64 - 1
    };
    let page = |rank: u64| rank * 40_503 % pages;
    (0..count).map(|i| (i * gap, page(rank(&mut random)), random.below(4) == 0)).collect()
}

/// 64 bytes of every KiB, read and written, like the study's stride program.
fn stride(count: u64, gap: u64) -> Vec<Request> {
    (0..count).map(|i| (i * gap, i / 2 / 4 % PAGES, i % 2 == 1)).collect()
}

/// Runs `requests` on the study's device of 8 x 8 chips with the bus of its simulator. Returns
/// hits, hits under miss, commands to flash, and the time of the last completion in nanoseconds.
fn as_the_study_does(requests: &[Request], keys: &[(&str, &str)]) -> [u64; 4] {
    let device = [("dram_cache.policy", "lru"), ("preset", "atc23"), ("flash.preset", "ull")];
    let keys = [&device[..], &[("flash.bus_mt_per_s", "0")], keys].concat();
    let Replay { memory, flash, simulated_ns, .. } = simulated(requests, &keys);
    [memory.cache.hits, memory.cache.hits_under_miss, flash.reads + flash.writes, simulated_ns]
}

#[test]
fn programs_of_the_study_end_when_they_did_before() {
    let programs = [
        ("zipf", zipf(40_000, 100)),
        ("random", anywhere(40_000, 100, 1 << 14)),
        ("stride", stride(40_000, 100)),
    ];
    let devices = [
        ("whole", &[][..]),
        ("without registers", &[("dram_cache.mshr", "0")]),
        ("without a cache", &[("dram_cache.size", "0KiB")]),
    ];
    let found = programs.map(|(program, requests)| {
        devices.map(|(device, keys)| (program, device, as_the_study_does(&requests, keys)))
    });
    assert_eq!(found, ENDS);
}

const ENDS: [[(&str, &str, [u64; 4]); 3]; 3] = [
    [
        ("zipf", "whole", [20599, 912, 23833, 4085646]),
        ("zipf", "without registers", [20691, 0, 24673, 4091846]),
        ("zipf", "without a cache", [0, 0, 40000, 21551103]),
    ],
    [
        ("random", "whole", [1236, 695, 50205, 6777146]),
        ("random", "without registers", [1224, 0, 50904, 6812146]),
        ("random", "without a cache", [0, 0, 40000, 7386200]),
    ],
    [
        ("stride", "whole", [0, 35000, 9352, 4002568]),
        ("stride", "without registers", [0, 0, 44352, 4062446]),
        ("stride", "without a cache", [0, 0, 40000, 8142603]),
    ],
];

#[test]
fn without_registers_hits_hang_on_how_soon_a_page_is_there() {
    // A page has eight requests in a row. They hit if flash answers before the last.
    let hits = |gap| as_the_study_does(&stride(40_000, gap), &[("dram_cache.mshr", "0")])[0];
    let (fast, slow) = (hits(400), hits(1_000));
    assert!(fast == 0 && slow > 15_000, "{fast} and {slow} hits of 40000 requests");
}

#[test]
fn without_a_cache_popular_pages_wait_for_programs_that_a_write_buffer_spares() {
    let mean_us = |keys: &[(&str, &str)]| {
        let study = [("preset", "atc23"), ("flash.preset", "ull"), ("dram_cache.size", "0KiB")];
        let keys = [&study[..], &[("flash.bus_mt_per_s", "0")], keys].concat();
        simulated(&zipf(40_000, 100), &keys).device_latency_ns.mean / 1e3
    };
    let buffer = [("flash.write_done", "buffered"), ("flash.write_buffer_pages", "1024")];
    let planes = [("flash.independent_planes", "true")];
    let (none, buffered) = (mean_us(&[]), mean_us(&buffer));
    let (side_by_side, both) = (mean_us(&planes), mean_us(&[&buffer[..], &planes].concat()));
    // The study's simulator has both in part, and is 4 times as fast as neither.
    assert!(none > 2.5 * buffered && none < 1.5 * side_by_side, "{none}, {buffered} us");
    assert!(none > 4.0 * both, "{none}, {both} us");
}

#[test]
fn a_channel_of_the_study_takes_no_time_and_ours_takes_its_own() {
    let requests = anywhere(2_000, 2_000, 1 << 14);
    let mean = |keys: &[(&str, &str)]| {
        let study = [("flash.preset", "ull"), ("dram_cache.size", "0KiB")];
        simulated(&requests, &[&study[..], keys].concat()).device_latency_ns.mean
    };
    let (own, free) = (mean(&[]), mean(&[("flash.bus_mt_per_s", "0")]));
    // 4096 bytes at 1200 MB/s.
    assert!(own > free + 3_000.0, "{own} and {free} ns");
}
