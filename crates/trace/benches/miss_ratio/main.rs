//! Prints the miss ratio of every replacement policy on synthetic and shipped request streams.
//! Compares it with LRU, with published policies that Ebbtide does not have, and with an oracle
//! that pins the hottest pages. Also prints the cost of a decision, a table
//! of all streams and a table of all policies.
//!
//!     cargo bench -p ebbtide-trace --bench miss_ratio -- [--scale N] [--stream NAME]… [POLICY]…
//!
//! `--scale N` divides the pages and requests of most synthetic streams. `--stream design` names
//! the streams that policies were designed with. `--stream looked-at` names streams that were held
//! out of a design and have been looked at since. `--stream held-out` names the streams kept for
//! the end.

mod peers;
mod streams;
#[path = "../../../core/benches/touches/mod.rs"]
mod touches;

use std::process::exit;
use std::time::{Duration, Instant};

use ebbtide_core::replacement::{Geometry, PolicyKind};
use ebbtide_core::{FrameId, PageId};
use peers::PEERS;
use streams::{Stream, Use};
use touches::Touches;

/// Published policies to compare with: those of `core` that the papers' authors would know.
const PUBLISHED: [PolicyKind; 2] = [PolicyKind::Lru, PolicyKind::S3Fifo];

fn main() {
    let (mut scale, mut wanted, mut kinds) = (1, Vec::new(), Vec::new());
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| fail(&format!("{word} needs a value")));
        match word.as_str() {
            "--scale" => {
                let given = value().parse().ok().filter(|scale| (1..=50).contains(scale));
                scale = given.unwrap_or_else(|| fail("--scale takes a number from 1 to 50"));
            }
            "--stream" => wanted.push(value()),
            name => match name.parse::<PolicyKind>() {
                Ok(kind) => kinds.push(kind),
                Err(error) => fail(&error.to_string()),
            },
        }
    }
    if kinds.is_empty() {
        // The cache is one set, which those that search sets are not made for.
        let all = PolicyKind::ALL.iter().copied();
        kinds = all.filter(|kind| !kind.searches_set()).collect();
    }
    kinds.retain(|kind| !PUBLISHED.contains(kind));
    let mut rows = Vec::new();
    for (name, purpose, make) in streams::all(scale) {
        let is_group = |group: &str| match purpose {
            Use::Design => group == "design",
            Use::LookedAt => group == "looked-at",
            Use::HeldOut => group == "held-out",
        };
        if wanted.is_empty() || wanted.iter().any(|word| word == name || is_group(word)) {
            rows.extend(make().iter().map(|stream| (purpose, report(stream, &kinds))));
        }
    }
    if rows.is_empty() {
        fail("no such stream");
    }
    summary(&rows, &kinds);
    league(&rows, &kinds);
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(2)
}

/// The misses of every policy on one stream.
struct Row {
    name: String,
    requests: usize,
    /// Of [`PUBLISHED`], then of [`PEERS`].
    published: Vec<usize>,
    /// Of the policies asked for.
    ours: Vec<usize>,
}

/// Runs and prints the policies on one stream.
fn report(stream: &Stream, kinds: &[PolicyKind]) -> Row {
    println!("\n{}\n{} pages, {} frames", stream.name, stream.pages, stream.frames);
    println!("policy              all   / LRU   late   / LRU   ns per victim");
    let lru = simulate(PolicyKind::Lru, stream);
    let show = |name: &str, outcome: &Outcome| {
        let (all, late) = (outcome.miss_ratio(), outcome.late_miss_ratio());
        let (all_to_lru, late_to_lru) = (all / lru.miss_ratio(), late / lru.late_miss_ratio());
        print!("{name:<16} {all:>6.4}  {all_to_lru:>6.3} {late:>6.4}  {late_to_lru:>6.3}");
        match outcome.victim_ns() {
            Some(ns) => println!("  {ns:>14.0}"),
            None => println!("               -"),
        }
    };
    let run = |kind: &PolicyKind| {
        let outcome = simulate(*kind, stream);
        show(kind.name(), &outcome);
        outcome.misses
    };
    let mut published: Vec<usize> = PUBLISHED.iter().map(run).collect();
    for (name, make) in PEERS {
        let outcome = simulate_peer(make, stream);
        show(name, &outcome);
        published.push(outcome.misses);
    }
    let ours = kinds.iter().map(run).collect();
    if let Some(popularity) = &stream.popularity {
        show("(pinned oracle)", &pin_the_hottest(popularity, stream, stream.frames));
    }
    Row { name: stream.name.clone(), requests: stream.requests.len(), published, ours }
}

/// Prints a line a stream: its miss ratios, and the distance of each requested policy from LRU and
/// from the best published policy, in percent.
fn summary(rows: &[(Use, Row)], kinds: &[PolicyKind]) {
    let published = PUBLISHED.iter().map(|kind| kind.name()).chain(PEERS.map(|(name, _)| name));
    print!("\n{:<62}", "misses a request");
    published.clone().for_each(|name| print!(" {name:>9}"));
    kinds.iter().for_each(|kind| print!(" | {:>13}  / LRU / best", kind.name()));
    println!();
    let mut worst = vec![(f64::MIN, f64::MIN); kinds.len()];
    for (purpose, row) in rows {
        let purpose = match purpose {
            Use::Design => "",
            Use::LookedAt => "(looked at) ",
            Use::HeldOut => "(held out) ",
        };
        print!("{:<62}", format!("{purpose}{}", row.name));
        let ratio = |misses: usize| misses as f64 / row.requests as f64;
        row.published.iter().for_each(|misses| print!(" {:>9.4}", ratio(*misses)));
        let best = *row.published.iter().min().expect("there are peers");
        for (misses, worst) in row.ours.iter().zip(&mut worst) {
            let over = |other: usize| 100.0 * (*misses as f64 / other as f64 - 1.0);
            let (lru, best) = (over(row.published[0]), over(best));
            print!(" | {:>13.4} {lru:>+6.1} {best:>+6.1}", ratio(*misses));
            *worst = (worst.0.max(lru), worst.1.max(best));
        }
        println!();
    }
    print!("{:<62}", "at worst");
    published.for_each(|_| print!(" {:>9}", ""));
    worst.iter().for_each(|(lru, best)| print!(" | {:>13} {lru:>+6.1} {best:>+6.1}", ""));
    println!();
}

/// Prints a line a policy over all rows: its misses against LRU and against the best policy of each
/// row.
fn league(rows: &[(Use, Row)], kinds: &[PolicyKind]) {
    println!("\n| policy | to LRU, mean | rows over +2% | worst | to the best of each row |");
    println!("|---|---|---|---|---|");
    let published = PUBLISHED.iter().map(|kind| kind.name()).chain(PEERS.map(|(name, _)| name));
    let names = published.chain(kinds.iter().map(|kind| kind.name()));
    for (at, name) in names.enumerate() {
        let over = |misses: usize, other: usize| 100.0 * (misses as f64 / other as f64 - 1.0);
        let misses = |row: &Row| [&row.published[..], &row.ours].concat();
        let to_lru = |(_, row): &(Use, Row)| over(misses(row)[at], row.published[0]);
        let to_best = |(_, row): &(Use, Row)| {
            let misses = misses(row);
            over(misses[at], *misses.iter().min().expect("there are policies"))
        };
        let mean =
            |of: &dyn Fn(&(Use, Row)) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        println!(
            "| {name} | {:+.1}% | {} of {} | {:+.1}% | {:+.1}% |",
            mean(&to_lru),
            rows.iter().filter(|row| to_lru(row) > 2.0).count(),
            rows.len(),
            rows.iter().map(to_lru).fold(f64::MIN, f64::max),
            mean(&to_best)
        );
    }
}

/// Misses of one policy on one stream. *Late* misses are those in the second half of the stream,
/// after every miss that a warm cache would have avoided.
#[derive(Default)]
struct Outcome {
    requests: usize,
    misses: usize,
    late_misses: usize,
    victims: usize,
    deciding: Duration,
}

impl Outcome {
    fn count_miss(&mut self, request: usize) {
        self.misses += 1;
        self.late_misses += usize::from(request >= self.requests / 2);
    }

    fn miss_ratio(&self) -> f64 {
        self.misses as f64 / self.requests as f64
    }

    fn late_miss_ratio(&self) -> f64 {
        self.late_misses as f64 / (self.requests - self.requests / 2) as f64
    }

    fn victim_ns(&self) -> Option<f64> {
        (self.victims > 0).then(|| self.deciding.as_nanos() as f64 / self.victims as f64)
    }
}

fn simulate(kind: PolicyKind, stream: &Stream) -> Outcome {
    const ABSENT: u32 = u32::MAX;
    let frames = stream.frames;
    let mut policy = kind.build(Geometry::fully_associative(frames), stream.pages as u64, 1);
    let mut frame_of = vec![ABSENT; stream.pages];
    let mut page_of = Vec::with_capacity(frames);
    let mut touches = Touches::new(frames);
    let mut outcome = Outcome { requests: stream.requests.len(), ..Outcome::default() };
    for (request, &page) in stream.requests.iter().enumerate() {
        let frame = frame_of[page as usize];
        if frame != ABSENT {
            if kind.needs_every_hit() {
                policy.touch(FrameId(frame));
            }
            touches.hit(FrameId(frame));
            continue;
        }
        outcome.count_miss(request);
        let frame = if page_of.len() < frames {
            page_of.push(page);
            FrameId(page_of.len() as u32 - 1)
        } else {
            let start = Instant::now();
            let victim = policy.victim(0, &mut touches).expect("nothing is pinned");
            outcome.deciding += start.elapsed();
            outcome.victims += 1;
            frame_of[page_of[victim.index()] as usize] = ABSENT;
            page_of[victim.index()] = page;
            victim
        };
        frame_of[page as usize] = frame.0;
        touches.clear(frame);
        policy.insert(frame, PageId(u64::from(page)));
        policy.look_around(&mut touches);
    }
    outcome
}

fn simulate_peer(make: peers::Make, stream: &Stream) -> Outcome {
    let mut peer = make(stream.frames, stream.pages);
    let mut outcome = Outcome { requests: stream.requests.len(), ..Outcome::default() };
    for (request, &page) in stream.requests.iter().enumerate() {
        if peer.misses(page) {
            outcome.count_miss(request);
        }
    }
    outcome
}

/// Returns the misses of a cache that keeps the `frames` most popular pages once read, and never
/// keeps another page.
fn pin_the_hottest(popularity: &[f64], stream: &Stream, frames: usize) -> Outcome {
    let mut by_popularity: Vec<usize> = (0..stream.pages).collect();
    by_popularity.sort_unstable_by(|&a, &b| popularity[b].total_cmp(&popularity[a]));
    let mut is_hot = vec![false; stream.pages];
    for &page in &by_popularity[..frames] {
        is_hot[page] = true;
    }
    let mut is_cached = vec![false; stream.pages];
    let mut outcome = Outcome { requests: stream.requests.len(), ..Outcome::default() };
    for (request, &page) in stream.requests.iter().enumerate() {
        if !is_cached[page as usize] {
            outcome.count_miss(request);
            is_cached[page as usize] = is_hot[page as usize];
        }
    }
    outcome
}
