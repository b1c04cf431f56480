//! The `ebbtide` command. Each verb has a module, which parses its arguments, calls the library
//! that does the work, and prints the result.
//!
//! Modules that all verbs share: `output` prints a result as text or JSON and writes its report.
//! `progress` shows a bar and handles Ctrl-C. `exit` turns errors into one line and an exit status.
//! `numbers` parses numbers and settings, and `names` parses names. `examples` has the examples in
//! the help.

#![forbid(unsafe_code)]

mod bench;
mod compare;
mod config_file;
mod designs;
mod doctor;
mod examples;
mod exit;
mod export;
#[cfg(test)]
mod fuzz;
mod import;
mod load;
mod manual;
mod market;
mod names;
mod numbers;
mod output;
mod peer;
mod progress;
mod reproduce;
mod serve;
mod sim;
mod size;
mod store;
mod sweep;
mod trace;
mod trace_format;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::Failure;

/// Flash as memory: datasets 20 to 30 times larger than DRAM, at close to DRAM speed.
#[derive(Parser)]
#[command(name = "ebbtide", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Measure flash as memory on this machine
    ///
    /// Runs the same jobs in DRAM, under OS paging, with blocking reads and in Ebbtide. Prints the
    /// throughput of each as a share of DRAM-only. All but DRAM-only have the same small DRAM
    /// budget. Without arguments it takes a few minutes. It writes up to 9 GiB of data files into
    /// the current folder, and leaves them there for the next run.
    Bench(bench::Arguments),
    /// Check the permissions of this machine and the speed of its flash, and print what to fix
    Doctor(doctor::Arguments),
    /// Simulate a published system, or your own, on a program or a trace
    ///
    /// Runs the program's real code in virtual time on the simulated machine. A warm-up brings the
    /// machine into a steady state. Throughput is compared with the same machine with all data in
    /// DRAM. Without arguments it simulates AstriFlash at the paper's size: 256 GiB of data and 8
    /// GiB of DRAM. This takes less than a minute, mostly to fill the DRAM cache. With --scale 1/64
    /// it takes seconds. The same arguments give the same result.
    Sim(sim::Arguments),
    /// Compare every design on the same program or trace
    ///
    /// All designs have the same cores, data, amount of DRAM and work. Prints the throughput, tail
    /// latency, flash traffic, lifetime, energy and cost of each. Without arguments it takes a few
    /// minutes.
    Compare(compare::Arguments),
    /// List the designs, or describe one: its parts, parameters and their sources
    Designs(designs::Arguments),
    /// Simulate all combinations of designs, programs and parameters, on all cores
    ///
    /// Simulates all combinations of the values in a TOML file. After Ctrl-C the same command
    /// continues with the missing runs. Without a file it takes seconds.
    Sweep(sweep::Arguments),
    /// Find how much DRAM a program needs, its cost, and how long the SSD lasts
    ///
    /// Counts the misses of a trace or a program for every size of DRAM. For every design, finds
    /// the least DRAM that keeps the p99 response within an objective, by a queueing formula and by
    /// a small simulation. Without arguments it sizes a hash table in seconds.
    Size(size::Arguments),
    /// Reproduce the claims of the papers
    ///
    /// Runs a paper's experiments on the simulator and evaluates its formulas. Prints the paper's
    /// value of every claim and ours, with a verdict. It is within its tolerance, outside, decided
    /// by an input of the model (by construction), or says why there is no judgement.
    Reproduce(reproduce::Arguments),
    /// Serve keys and values from flash to clients of Redis
    ///
    /// Speaks the protocol of Redis. Keys, index, values and their expiry all lie on flash behind a
    /// DRAM cache with a hard budget. A full store refuses writes, or as a cache gives up keys.
    /// Without arguments it makes the file ebbtide-store in the current folder and listens on
    /// 127.0.0.1:6379.
    Serve(serve::Arguments),
    /// Send commands to a server that speaks the protocol of Redis, and check every value it
    /// returns
    ///
    /// Writes all keys, then reads and writes over many connections. Prints throughput and response
    /// times. Every value read must have been written, and must not be older than the last
    /// acknowledged one. The exit status is 1 if a reply was wrong or an error.
    Load(load::Arguments),
    /// Send the keys of a database file of Redis to a server
    ///
    /// Reads a file of Redis up to 7.4 or of Valkey 8, such as dump.rdb, and sends its keys to a
    /// running server. Large values go in pieces, so that they take little DRAM on both sides. Keys
    /// that have expired are left out. A key that the server refuses is named, and the exit status
    /// is 1.
    Import(import::Arguments),
    /// Write the keys of a server to a database file of Redis
    ///
    /// Writes all keys of a running server to a new file that Redis 7.0 or later loads. Each key is
    /// written as it is at its time: stop the writers for a file of one moment.
    Export(export::Arguments),
    /// Trace the memory accesses of a program, virtual and physical
    ///
    /// Runs the command under Valgrind's memory tracer, hundreds of times slower than alone. Passes
    /// its accesses through the caches of one core, and writes those that reach memory. The input,
    /// output and exit status of the command are unchanged.
    Trace(trace::Arguments),
    /// Describe a data file, and verify the checksums of a persistent one
    Store(store::Arguments),
    /// Print the manual page, or write the pages of all verbs
    Man(manual::ManArguments),
    /// Print the completions of a shell
    Completions(manual::CompletionArguments),
    /// Run one memory as a child process of `bench`
    #[command(name = ebbtide_measure::bench::CHILD_VERB, hide = true)]
    BenchChild,
}

/// Returns the command line with the examples in its help. A negative number is passed as a value,
/// and the option itself refuses it.
fn command() -> clap::Command {
    Arguments::command()
        .mut_subcommands(|verb| examples::add(verb.allow_negative_numbers(true), ""))
}

/// The arguments of the command line, and those of the file that `--config` names.
fn parsed() -> Result<Arguments, Failure> {
    let given: Vec<OsString> = std::env::args_os().collect();
    let command = command();
    let matches = command.clone().try_get_matches_from(&given);
    let matches = matches.map_err(|error| exit::arguments(error).with(hint(&given)))?;
    let (name, verb) = matches.subcommand().expect("clap requires a verb");
    let description = command.find_subcommand(name).expect("clap knows its verbs");
    let added = config_file::added(description, verb)?;
    // Before the verb there are no options: what is added stands right behind it.
    let (start, rest) = given.split_at(2.min(given.len()));
    let all = start.iter().chain(&added).chain(rest);
    if added.is_empty() {
        return Arguments::from_arg_matches(&matches).map_err(exit::arguments);
    }
    let found = command.clone().try_get_matches_from(all);
    let found = found.and_then(|matches| Arguments::from_arg_matches(&matches));
    // The command line alone was right.
    found.map_err(|error| match verb.get_one::<PathBuf>(config_file::CONFIG) {
        Some(path) => exit::arguments(error).about(path),
        None => exit::arguments(error),
    })
}

/// Returns a hint for common mistakes in refused arguments.
fn hint(given: &[OsString]) -> Option<String> {
    let mut words = given.iter().skip(1).filter_map(|word| word.to_str());
    match words.next()? {
        "trace" if !words.any(|word| matches!(word, "--" | "info" | "convert")) => {
            Some("a program is traced with ebbtide trace -o FILE -- COMMAND".to_string())
        }
        "compare" => words.find(|word| designs::is_shipped(word)).map(compare::chosen),
        _ => None,
    }
}

fn main() -> ExitCode {
    let arguments = match parsed() {
        Ok(arguments) => arguments,
        Err(failure) => return failure.report(),
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
        Verb::Serve(arguments) => serve::run(arguments),
        Verb::Load(arguments) => load::run(arguments),
        Verb::Import(arguments) => import::run(&arguments),
        Verb::Export(arguments) => export::run(&arguments),
        Verb::Trace(arguments) => trace::run(arguments),
        Verb::Store(arguments) => store::run(&arguments),
        Verb::Man(arguments) => manual::man(&arguments, command()),
        Verb::Completions(arguments) => manual::completions(&arguments, command()),
        Verb::BenchChild => bench::child(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.interrupted_if(progress::is_stopped()).report(),
    }
}
