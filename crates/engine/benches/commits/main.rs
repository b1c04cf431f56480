//! Cost of durability on this machine: TPC-B-like transactions in extend memory and under every
//! policy.
//!
//! `cargo bench -p ebbtide-engine --bench commits -- [FOLDER [ROUNDS]]`
//!
//! Every transaction adds an amount to an account, its teller and its branch, and appends to a
//! history (TPC-B, clause 1.2). So it changes 104 bytes. Data is 20 times the DRAM budget. Rounds
//! of all modes are interleaved. Tables show medians with the range, and ratios are taken round by
//! round.
//!
//! For `always` the bound is J / (F + J·c). J jobs wait together. F is the time of a flush of the
//! log in these rounds, under the same writes of pages. Under `none` a job keeps its core busy for
//! the time c.

mod clean_misses;
mod mode;
mod spread;

use std::error::Error;
use std::path::{Path, PathBuf};

use ebbtide_core::durability::Policy;
use ebbtide_core::{PAGE_BYTES, Span};

use crate::mode::{Mode, Round, STORED_BYTES};
use crate::spread::Spread;

/// Jobs at once, and the policy of the store they run on (by its place in the list of stores).
const SETTINGS: [(usize, usize); 8] =
    [(0, 64), (1, 64), (2, 1), (2, 16), (2, 64), (3, 1), (3, 16), (3, 64)];

/// The setting that the others are compared with, and the one that gives the time of a job.
const EXTEND: usize = 0;
const NONE: usize = 1;

fn modes(folder: &Path) -> Result<Vec<Mode>, Box<dyn Error>> {
    let every = Policy::Every(Span::from_us(1_000_000));
    Ok(vec![
        Mode::new(folder, "extend", None)?,
        Mode::new(folder, "none", Some(Policy::None))?,
        Mode::new(folder, "every:1s", Some(every))?,
        Mode::new(folder, "always", Some(Policy::Always))?,
    ])
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).filter(|word| word != "--bench");
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds = match arguments.next() {
        Some(rounds) => rounds.to_string_lossy().parse()?,
        None => 5,
    };
    let mut modes = modes(&folder)?;
    let mut measured: Vec<Vec<Round>> = SETTINGS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for ((mode, window), measured) in SETTINGS.iter().zip(&mut measured) {
            measured.push(modes[*mode].round(*window)?);
        }
    }
    println!(
        "{:<10} {:>4} {:>26} {:>18} {:>8} {:>8} {:>7} {:>7} {:>6}",
        "policy",
        "jobs",
        "commits/s",
        "of extend",
        "busy us",
        "log B",
        "a group",
        "bytes x",
        "of J/.."
    );
    let jobs_us = Spread::of(measured[NONE].iter().map(|round| round.busy_us));
    for ((mode, window), rounds) in SETTINGS.iter().zip(&measured) {
        let of = |what: fn(&Round) -> f64| Spread::of(rounds.iter().map(what));
        let pairs = rounds.iter().zip(&measured[EXTEND]);
        let of_extend = Spread::of(pairs.map(|(round, extend)| round.per_s / extend.per_s));
        let flush_s = of(|round| round.flush_s).median;
        let bound = *window as f64 / (flush_s + *window as f64 * jobs_us.median * 1e-6);
        let of_bound = match modes[*mode].waits {
            true => format!("{:.2}", of(|round| round.per_s).median / bound),
            false => "-".into(),
        };
        println!(
            "{:<10} {:>4} {:>26} {:>18} {:>8.1} {:>8.0} {:>7.1} {:>7.1} {:>6}",
            modes[*mode].name,
            window,
            of(|round| round.per_s).whole(),
            of_extend.hundredths(),
            of(|round| round.busy_us).median,
            of(|round| round.log_bytes).median,
            of(|round| round.group).median,
            of(|round| round.written_bytes / STORED_BYTES).median,
            of_bound
        );
        if modes[*mode].waits {
            println!(
                "{:>16}J = {window}, F = {:.2} ms, c = {:.1} us: J / (F + J c) = {bound:.0}",
                "",
                flush_s * 1e3,
                jobs_us.median
            );
        }
    }
    println!();
    println!(
        "busy us: time in which the core was busy, a commit. log B: what a commit takes of the log,"
    );
    println!(
        "with map records and ends of blocks. bytes x: bytes written for each byte stored, to the log,"
    );
    println!("the map and as pages. A lone commit under always writes {PAGE_BYTES} bytes of log.");
    clean_misses::measure(&mut modes, rounds)?;
    let budget = modes[1].jobs.engine().budget();
    println!();
    println!(
        "DRAM a page of the persist part: {:.1} bytes of states, slots, map and policy",
        mode::dram_bytes_a_page(&budget)
    );
    modes.into_iter().try_for_each(|mode| mode.remove(&folder))
}
