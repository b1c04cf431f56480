//! Measures how connections and commands slow each other. Serves a new store, drives it, and prints
//! tables.
//!
//! `cargo bench -p ebbtide-server --bench neighbours -- FOLDER SECONDS TURNS [PART…]`
//!
//! * `idle`: throughput while other connections are idle.
//! * `beside`: response times of `GET` during commands on large values and on many keys.
//! * `backup`: writes while the store is copied.
//!
//! Without a part it runs all. A single measurement takes about SECONDS. Measurements take turns,
//! and a ratio belongs to one turn. Tables have medians and ranges. It needs 6 GB of disk.

mod backup;
mod beside;
#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/server/client.rs"]
mod client;
mod idle;
mod served;

use std::path::Path;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Length and number of measurements.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) time: Duration,
    pub(crate) turns: usize,
}

/// Returns the median and the range.
fn spread(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (values[last / 2], values[0], values[last])
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if served::serve_if_asked(&arguments) {
        return Ok(());
    }
    let [folder, seconds, turns, parts @ ..] = &arguments[..] else {
        return Err("expected FOLDER SECONDS TURNS [idle] [beside] [backup]".into());
    };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let plan = Plan { time, turns: turns.parse::<usize>()?.max(1) };
    let folder = tempfile::tempdir_in(folder)?;
    type Part = fn(&Path, Plan) -> Result<(), Failure>;
    let all: [(&str, Part); 3] =
        [("idle", idle::measure), ("beside", beside::measure), ("backup", backup::measure)];
    if let Some(other) = parts.iter().find(|part| all.iter().all(|(name, _)| name != part)) {
        return Err(format!("no part {other}: expected idle, beside or backup").into());
    }
    for (name, measure) in all {
        if parts.is_empty() || parts.iter().any(|part| part == name) {
            measure(folder.path(), plan)?;
        }
    }
    Ok(())
}
