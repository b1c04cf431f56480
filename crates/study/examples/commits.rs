//! Durable transactions on a modelled SSD, for several costs of a flush:
//! `cargo run --release -p ebbtide-study --example commits -- astriflash-256g 30us 1ms`.

use std::error::Error;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Bytes, Span, Watch};
use ebbtide_study::commits::{CommitOptions, predict};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().unwrap_or_else(|| "astriflash-256g".into());
    let mut flushes = arguments.map(|time| time.parse()).collect::<Result<Vec<Span>, _>>()?;
    if flushes.is_empty() {
        flushes = vec![Span::from_us(30), Span::from_us(1_000)];
    }
    let second = Span::from_us(1_000_000);
    let options = CommitOptions {
        device,
        dataset: Bytes(1 << 30),
        dram: Bytes(52 << 20),
        log: Bytes(64 << 20),
        jobs: 64,
        cpu: Span::from_us(10),
        policies: vec![Policy::None, Policy::Every(second), Policy::Always],
        flushes,
        transactions: 200_000,
        seed: 1,
    };
    print!("{}", predict(&options, Watch::unattended())?);
    Ok(())
}
