//! Cuts power at every moment of many histories, and checks the result of recovery.
//!
//! `cargo bench -p ebbtide-engine --bench power_loss -- --seeds 1000 --first-seed 0`
//!
//! Each seed is one store of drawn size. It runs four histories:
//!
//! * a short one, where every event meets every named subset of the unflushed writes;
//! * a long one over many boots;
//! * one that damages every block in turn;
//! * one that copies the store while it is used.
//!
//! A seed replays exactly. `--seconds N` stops after that time.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ebbtide_testbed::power_loss::{Setting, Tally, Violation, copies, damage, explore, sample};

struct Arguments {
    first_seed: u64,
    seeds: u64,
    steps: u64,
    at_most: Duration,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments {
        first_seed: 0,
        seeds: 200,
        steps: 4_000,
        at_most: Duration::from_secs(1 << 30),
    };
    let mut given = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(name) = given.next() {
        let number = given.next().and_then(|value| value.parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("{name}: expected a number"))?;
        match name.as_str() {
            "--first-seed" => parsed.first_seed = number,
            "--seeds" => parsed.seeds = number,
            "--steps" => parsed.steps = number,
            "--seconds" => parsed.at_most = Duration::from_secs(number),
            _ => {
                return Err(format!(
                    "{name}: expected --seeds, --first-seed, --steps or --seconds"
                ));
            }
        }
    }
    Ok(parsed)
}

fn run(seed: u64, steps: u64) -> Result<Tally, Violation> {
    let setting = Setting::drawn(seed);
    let sound = Setting { errors: 0.0, ..setting };
    let mut tally = explore(&sound, seed, 120)?;
    tally.add(&sample(&setting, seed, steps, 0.005)?);
    tally.add(&damage(&sound, seed, 250)?);
    tally.add(&copies(&setting, seed, 1_000)?);
    Ok(tally)
}

fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(wrong) => {
            eprintln!("power_loss: {wrong}");
            return ExitCode::from(2);
        }
    };
    let (began, mut tally, mut seeds) = (Instant::now(), Tally::default(), 0);
    for seed in arguments.first_seed..arguments.first_seed.saturating_add(arguments.seeds) {
        match run(seed, arguments.steps) {
            Ok(tried) => tally.add(&tried),
            Err(violation) => {
                eprintln!("power_loss: seed {seed}: {violation}");
                return ExitCode::FAILURE;
            }
        }
        seeds += 1;
        if began.elapsed() >= arguments.at_most {
            break;
        }
    }
    println!("seeds                 {seeds} from {}", arguments.first_seed);
    println!("histories             {}", tally.histories);
    println!("steps                 {}", tally.steps);
    println!("losses of power       {}", tally.crashes);
    println!("  in recovery besides {}", tally.crashes_in_recovery);
    println!("faults                {}", tally.faults);
    println!("  refused with a name {}", tally.refused);
    println!("  pages poisoned      {}", tally.poisoned);
    println!("copies made           {}", tally.copies);
    println!("violations            0");
    println!("seconds               {:.1}", began.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}
