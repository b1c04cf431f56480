//! Counts the instructions of a replacement decision with Valgrind: one victim and one insertion,
//! as in the bench `victim`. Unlike times, counts are the same on every machine with the same
//! compiler.
//!
//! `cargo bench -p ebbtide-core --bench decisions -- [POLICY]`. It needs `valgrind`. Each
//! loop runs twice, the second time with twice as many misses. The difference leaves out the start.
//! A policy that does nothing is counted too and taken off, so that only the decision is left.

#[path = "misses/mod.rs"]
mod misses;
#[path = "touches/mod.rs"]
mod touches;

use std::error::Error;
use std::process::{Command, ExitCode};

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement};
use ebbtide_core::{FrameId, PageId};
use misses::{Misses, PAGES_A_FRAME};

const FRAMES: [usize; 5] = [100, 500, 1_000, 1 << 15, 1 << 18];

const MISSES: usize = 100_000;

/// Stands for the policy that does nothing.
const NOTHING: &str = "nothing";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = match &arguments[..] {
        [] => count_all("mini-sim"),
        [kind] => count_all(kind),
        [kind, frames, misses] => run(kind, frames, misses),
        _ => Err("usage: decisions [POLICY]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the instructions of a decision for each number of frames.
fn count_all(kind: &str) -> Result<(), Box<dyn Error>> {
    kind.parse::<PolicyKind>()?;
    for frames in FRAMES {
        let of = |kind| {
            Ok::<_, Box<dyn Error>>(
                counted(kind, frames, 2 * MISSES)? - counted(kind, frames, MISSES)?,
            )
        };
        let instructions = (of(kind)? - of(NOTHING)?) as f64 / MISSES as f64;
        println!("{kind}, {frames:>6} frames {instructions:>8.1} instructions");
    }
    Ok(())
}

/// Returns the instructions of a process that runs the loop for `misses` misses.
fn counted(kind: &str, frames: usize, misses: usize) -> Result<i64, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([kind, &frames.to_string(), &misses.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}; expected it to be installed"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let count = said.lines().find_map(|line| line.split_once("Collected : "));
    match count {
        Some((_, count)) if output.status.success() => Ok(count.trim().parse()?),
        _ => Err(format!("valgrind: {said}").into()),
    }
}

fn run(kind: &str, frames: &str, misses: &str) -> Result<(), Box<dyn Error>> {
    let (frames, steps): (usize, usize) = (frames.parse()?, misses.parse()?);
    let geometry = Geometry::fully_associative(frames);
    let policy: Box<dyn Replacement> = match kind {
        NOTHING => Box::new(Nothing { frames, next: 0 }),
        _ => kind.parse::<PolicyKind>()?.build(geometry, (PAGES_A_FRAME * frames) as u64, 1),
    };
    let mut misses = Misses::new(policy, geometry, Misses::warm_up(geometry) + steps);
    (0..steps).for_each(|_| misses.step());
    Ok(())
}

/// The frames leave in turn.
struct Nothing {
    frames: usize,
    next: usize,
}

impl Replacement for Nothing {
    fn insert(&mut self, _frame: FrameId, _page: PageId) {}

    fn victim(&mut self, _set: usize, _frames: &mut dyn Frames) -> Option<FrameId> {
        self.next = (self.next + 1) % self.frames;
        Some(FrameId(self.next as u32))
    }

    fn remove(&mut self, _frame: FrameId) {}
}
