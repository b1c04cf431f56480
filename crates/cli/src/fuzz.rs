//! No file of settings and no command line makes a parser panic, and every refusal is one line.
//! Inputs are whole ones with random damage, the same in every run.
//!
//! The default is a short run. `EBBTIDE_FUZZ=100000 cargo test --release -p ebbtide-cli --bin
//! ebbtide fuzz` reads that many inputs of each kind. `tests/corpus` keeps inputs by kind (their
//! ending) that are always read first; put one there that once failed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap::error::ErrorKind;
use ebbtide_core::{Bytes, Span};
use ebbtide_study::energy::{EnergyTable, SHIPPED};
use ebbtide_study::sweep::Sweep;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use crate::Arguments;

/// Inputs of each kind without `EBBTIDE_FUZZ`.
const FEW: u64 = 300;

/// Pieces that a person or a broken tool may leave in a file or on a command line.
const ODD: [&str; 32] = [
    "-1",
    "0",
    "1e308",
    "1e-320",
    "nan",
    "inf",
    "18446744073709551616",
    "9223372036854775807",
    "true",
    "\"\"",
    "\"ü\"",
    "[]",
    "[[1], 2]",
    "{ a = 1 }",
    "1979-05-27",
    "\"1/0\"",
    "\"2GB\"",
    "\"-3us\"",
    "\"99999999TiB\"",
    "#",
    "=",
    "\n",
    "\"",
    "[set]",
    "[flash]",
    "[a.b.c]",
    "\u{0}",
    "\u{feff}",
    "\r\n",
    "base = \"astriflash\"\n",
    "preset = \"atc23\"\n",
    "seeds = 99999999999\n",
];

/// Returns `whole` with lines and values removed, doubled, moved, or replaced by odd ones.
fn damaged(whole: &str, random: &mut Pcg64) -> String {
    let mut pieces: Vec<String> =
        whole.split_inclusive([' ', '\n', '=', '.', ',', '"']).map(str::to_string).collect();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..=pieces.len());
        let odd = ODD[random.random_range(0..ODD.len())].to_string();
        match random.random_range(0..6) {
            0 => pieces.insert(at, odd),
            1 => pieces.truncate(at),
            _ if at == pieces.len() => pieces.push(odd),
            2 => pieces[at] = odd,
            3 => drop(pieces.remove(at)),
            4 => pieces.insert(at, pieces[at].clone()),
            _ => {
                let other = random.random_range(0..pieces.len());
                pieces.swap(at, other);
            }
        }
    }
    pieces.concat()
}

/// Reads damaged copies of `wholes` by `read`, and those that `tests/corpus` keeps for `kind`.
fn fuzz(kind: &str, wholes: &[&str], read: impl Fn(&str) -> Result<(), String>) {
    let check = |input: &str| match catch_unwind(AssertUnwindSafe(|| read(input))) {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            let line = error.trim_end_matches('\n');
            assert!(!line.is_empty() && !line.contains('\n'), "{error:?} for {input:?}");
            false
        }
        Err(_) => panic!("a parser panicked on this {kind}:\n{input}"),
    };
    for whole in wholes {
        assert!(check(whole), "refused, without any damage: {whole}");
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    for file in fs::read_dir(corpus).expect("the corpus").map(|file| file.expect("a file").path()) {
        if file.extension().is_some_and(|ending| ending == kind) {
            check(&String::from_utf8_lossy(&fs::read(file).expect("a file")));
        }
    }
    let asked = std::env::var("EBBTIDE_FUZZ").ok();
    let inputs = asked.map_or(FEW, |count| count.parse().expect("EBBTIDE_FUZZ is a number"));
    let mut random = Pcg64::seed_from_u64(0x5eed);
    let mut refused = 0_u64;
    for _ in 0..inputs {
        let whole = wholes[random.random_range(0..wholes.len())];
        refused += u64::from(!check(&damaged(whole, &mut random)));
    }
    assert!(refused > inputs / 10, "only {refused} of {inputs} were refused: too little damage");
}

fn one_line<T, E: ToString>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

#[test]
fn fuzzed_designs_are_read_or_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("machine.toml");
    let designs: Vec<&str> = ebbtide_sim::designs::ALL.iter().map(|design| design.config).collect();
    fuzz("design", &designs, |text| {
        fs::write(&file, text).expect("room");
        one_line(ebbtide_sim::designs::resolve(&file.display().to_string(), &[]))
    });
}

#[test]
fn fuzzed_overrides_are_read_or_refused_in_one_line() {
    let whole = ["dram_cache.ways=8"];
    fuzz("override", &whole, |text| {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        one_line(ebbtide_sim::designs::resolve("astriflash", &[(key, value)]))
    });
}

#[test]
fn fuzzed_sweeps_are_read_or_refused_in_one_line() {
    let whole = "designs = [\"astriflash\", \"dram-only\"]\nscale = \"1/256\"\njobs = [100, 200]\n\
                 seeds = 2\n[set]\n\"dram_cache.ways\" = [4, 8]\n";
    fuzz("sweep", &[whole], |text| {
        one_line(Sweep::parse("sweep.toml", text).and_then(|sweep| sweep.check()))
    });
}

#[test]
fn fuzzed_drives_are_read_or_refused_in_one_line() {
    let presets: Vec<&str> = ebbtide_flash::Config::preset_names()
        .map(|name| ebbtide_flash::Config::preset_text(name).expect("its own name"))
        .collect();
    fuzz("drive", &presets, |text| one_line(ebbtide_flash::Config::from_toml(text)));
}

#[test]
fn fuzzed_tables_of_energy_are_read_or_refused_in_one_line() {
    fuzz("energy", &[SHIPPED], |text| one_line(EnergyTable::parse("energy.toml", text)));
}

#[test]
fn fuzzed_sizes_and_times_are_read_or_refused_in_one_line() {
    fuzz("size", &["64KiB", "1.5GiB"], |text| one_line(text.parse::<Bytes>()));
    fuzz("time", &["50us", "1.5ms"], |text| one_line(text.parse::<Span>()));
}

#[test]
fn fuzzed_option_files_are_read_or_refused_in_one_line() {
    let command = Arguments::command();
    let verb = command.find_subcommand("bench").expect("the verb");
    let matches = verb.clone().get_matches_from(["bench"]);
    let whole = "dataset = \"1GiB\"\nrounds = 3\nseconds = 0.5\nworkloads = [\"tatp\", \"tpcc\"]\n";
    fuzz("options", &[whole], |text| {
        let added =
            crate::config_file::added_by(verb, &matches, &PathBuf::from("bench.toml"), text);
        let added = added.map_err(|failure| failure.message().to_string())?;
        let line = std::iter::once("bench".into()).chain(added);
        verb.clone().try_get_matches_from(line).map(drop).map_err(one_clap_line)
    });
}

#[test]
fn fuzzed_command_lines_are_read_or_refused_in_one_line() {
    let whole = [
        "ebbtide bench tatp --dataset 1GiB --dram 3% --rounds 3 --seconds 0.5 --device ram:50us",
        "ebbtide sim hash-table --design astriflash --scale 1/64 --jobs 100 --seeds 3 --load 0.5",
        "ebbtide size --slo 1ms --job 10us --trace a.ebt --format native",
        "ebbtide serve --dram 1GiB --capacity 20GiB --durability every:1s --bind 127.0.0.1",
        "ebbtide load --keys 1000 --writes 0.5 --rate 1000 --seconds 3 --clients 5",
        "ebbtide sweep a.toml --shard 1/3",
    ];
    let sound: Vec<&str> = whole.iter().copied().filter(|line| parses(line).is_ok()).collect();
    assert!(sound.len() >= 4, "{:?}", whole.map(|line| parses(line).err()));
    fuzz("command", &sound, parses);
}

fn parses(line: &str) -> Result<(), String> {
    let parsed = crate::command().try_get_matches_from(line.split(' '));
    match parsed {
        // Help is printed instead of a line.
        Err(error) if is_help(&error) => Ok(()),
        parsed => parsed.map(drop).map_err(one_clap_line),
    }
}

fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

fn one_clap_line(error: clap::Error) -> String {
    crate::exit::arguments(error).message().to_string()
}
