//! The `ebbtide` command: arguments, progress and exit status.

mod bench;
mod compare;
mod designs;
mod doctor;
mod exit;
mod numbers;
mod output;
mod progress;
mod reproduce;
mod sim;
mod size;
mod sweep;
mod trace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Flash as memory: datasets 20 to 30 times larger than DRAM, at close to DRAM speed.
#[derive(Parser)]
#[command(name = "ebbtide", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// How good is my flash as memory, here and now?
    ///
    /// Runs the same jobs in DRAM, under OS paging, with blocking reads and in Ebbtide, side by
    /// side, with the same small DRAM budget, and prints what share of DRAM-only throughput each
    /// keeps. Without arguments it takes a few minutes and writes a data file in the current folder.
    Bench(bench::Arguments),
    /// What does this machine permit, how fast is its flash, what should be fixed?
    Doctor(doctor::Arguments),
    /// Which design would be best? Simulates a published system, or yours, on a program or a trace.
    ///
    /// Runs the program's real code in virtual time on the simulated machine, from a steady state
    /// that it first brings about, and compares its throughput with the same machine's with all
    /// data in DRAM. Without arguments it simulates AstriFlash at the paper's size, 256 GiB of data
    /// under 8 GiB of DRAM, and takes about a minute, nearly all of it to fill the DRAM cache;
    /// --scale 1/64 takes seconds. The same arguments give the same result.
    Sim(sim::Arguments),
    /// Which design would be best for this? Every design on the same program or trace.
    ///
    /// Gives all designs the same cores, data and amount of DRAM, and the same work, and prints
    /// throughput, tails, flash traffic, lifetime and cost of each. Without arguments it takes a
    /// minute or a few.
    Compare(compare::Arguments),
    /// Which systems can be simulated? What is each made of, and where do its numbers come from?
    Designs(designs::Arguments),
    /// How does it change with design, program or parameter? All combinations, on all cores.
    ///
    /// Simulates the cross product of the values that a TOML file lists. Ctrl-C loses nothing but the
    /// runs under way: the same command goes on from there. Without a file it takes seconds.
    Sweep(sweep::Arguments),
    /// How much DRAM does my program need, what does that cost, how long does the SSD live?
    ///
    /// Counts how often a trace or a program misses by size of DRAM, and finds the least DRAM that
    /// keeps its p99 response within an objective, for every design, by a queueing formula and by a
    /// small simulation. Without arguments it sizes a hash table in seconds.
    Size(size::Arguments),
    /// Does the model say what the papers say? Every claim, theirs beside ours.
    ///
    /// Runs a paper's experiments on the simulator and its formulas, and gives every claim a verdict:
    /// within its tolerance, outside, an input of the model, or not testable.
    Reproduce(reproduce::Arguments),
    /// What does my program do to memory, virtual and physical?
    ///
    /// Runs the command under Valgrind (its stock memory tracer, hundreds of times slower than alone),
    /// lets its accesses pass the caches of one core, and writes what reaches memory. The command's
    /// input, output and exit status are its own.
    Trace(trace::Arguments),
    /// A memory under test, driven by `bench`.
    #[command(name = ebbtide_measure::bench::CHILD_VERB, hide = true)]
    BenchChild,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::report_arguments(&error),
    };
    let result = match arguments.verb {
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Designs(arguments) => designs::run(&arguments),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Sim(arguments) => sim::run(&arguments),
        Verb::Sweep(arguments) => sweep::run(&arguments),
        Verb::Size(arguments) => size::run(&arguments),
        Verb::Reproduce(arguments) => reproduce::run(&arguments),
        Verb::Trace(arguments) => trace::run(arguments),
        Verb::BenchChild => bench::child(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
