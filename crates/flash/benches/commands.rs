//! How many commands a host core simulates a second: random reads, and reads with some writes, at
//! a steady queue depth.
//!
//!     cargo bench -p ebbtide-flash --bench commands

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ebbtide_core::{PageId, Time};
use ebbtide_flash::{Command, Config, Done, Flash, Kind};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const DEPTH: u64 = 256;

/// A device that always has [`DEPTH`] commands.
struct Loop {
    flash: Flash,
    /// Drawn beforehand, so that only the device is timed.
    commands: Vec<Command>,
    next: usize,
    now: Time,
    done: Vec<Done>,
}

impl Loop {
    fn new(preset: &str, write_percent: u32) -> Loop {
        let config = Config::preset(preset).expect("a preset");
        let flash = Flash::new(&config).expect("presets are valid");
        let pages = flash.logical_pages().unwrap_or(1 << 28);
        let mut random = Pcg64::seed_from_u64(1);
        let mut command = |tag| {
            let is_write = random.random_range(0..100) < write_percent;
            let kind = if is_write { Kind::Write } else { Kind::Read };
            Command { tag, kind, page: PageId(random.random_range(0..pages)) }
        };
        let commands = (0..1 << 20).map(&mut command).collect();
        let mut this = Loop { flash, commands, next: 0, now: Time::ZERO, done: Vec::new() };
        (0..DEPTH).for_each(|_| this.submit());
        this
    }

    fn submit(&mut self) {
        self.flash.submit(self.now, self.commands[self.next % self.commands.len()]);
        self.next += 1;
    }

    /// Runs until `count` more commands are done.
    fn run(&mut self, count: u64) {
        let mut left = count as i64;
        while left > 0 {
            self.now = self.flash.next_event().expect("commands are under way").max(self.now);
            self.flash.advance(self.now, &mut self.done);
            left -= self.done.len() as i64;
            for _ in 0..self.done.len() {
                self.submit();
            }
            self.done.clear();
        }
    }
}

fn commands(criterion: &mut Criterion) {
    const BATCH: u64 = 10_000;
    let mut group = criterion.benchmark_group("commands");
    group.throughput(Throughput::Elements(BATCH));
    for (preset, write_percent) in [
        ("flat", 0),
        ("astriflash-256g", 0),
        ("astriflash-1t", 0),
        ("ull", 0),
        ("tlc", 0),
        ("ull", 10),
    ] {
        let mut device = Loop::new(preset, write_percent);
        device.run(100_000);
        let name = BenchmarkId::new(preset, format!("{write_percent}% writes"));
        group.bench_function(name, |bencher| bencher.iter(|| device.run(BATCH)));
    }
}

criterion_group!(benches, commands);
criterion_main!(benches);
