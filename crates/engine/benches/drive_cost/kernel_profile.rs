//! [`KernelProfile`]: where the kernel is while it works for this thread.

use std::error::Error;
use std::fmt;
use std::fs;

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler, data::Record};

/// Time of this thread between two samples of the kernel, in nanoseconds.
const PERIOD_NS: u64 = 10_000;

/// Pages for looks that were not read yet.
const PAGES: usize = 256;

/// Samples the kernel's work for this thread, from the time that the profile is made.
pub(super) struct KernelProfile {
    sampler: Sampler,
    symbols: Symbols,
}

/// How often the kernel was met in each of its parts.
#[derive(Default)]
pub(super) struct Parts {
    ring: u32,
    driver: u32,
    rest: u32,
}

impl KernelProfile {
    /// # Errors
    /// When the kernel does not permit it (`kernel.perf_event_paranoid`, `kernel.kptr_restrict`).
    pub(super) fn start() -> Result<KernelProfile, Box<dyn Error>> {
        let symbols = Symbols::of_this_kernel()?;
        let mut builder = Builder::new(Software::CPU_CLOCK);
        builder.sample_period(PERIOD_NS).sample(SampleFlag::IP).include_kernel().exclude_user(true);
        let mut sampler = builder.build()?.sampled(PAGES * 4096)?;
        sampler.enable()?;
        Ok(KernelProfile { sampler, symbols })
    }

    /// Discards the samples so far.
    pub(super) fn begin(&mut self) {
        while self.sampler.next_record().is_some() {}
    }

    /// What was seen since.
    ///
    /// # Errors
    /// When the kernel gives something unknown.
    pub(super) fn parts(&mut self) -> Result<Parts, Box<dyn Error>> {
        let mut parts = Parts::default();
        while let Some(record) = self.sampler.next_record() {
            if let Record::Sample(sample) = record.parse_record()?
                && let Some(at) = sample.ip()
            {
                *match self.symbols.part(at) {
                    Part::Ring => &mut parts.ring,
                    Part::Driver => &mut parts.driver,
                    Part::Rest => &mut parts.rest,
                } += 1;
            }
        }
        Ok(parts)
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.ring + self.driver + self.rest;
        let share = |part: u32| f64::from(part) / f64::from(all.max(1));
        let [ring, driver, rest] = [self.ring, self.driver, self.rest].map(share);
        write!(f, "of {all} looks at the kernel ring {ring:.2}, driver {driver:.2}, rest {rest:.2}")
    }
}

/// A part of the kernel.
#[derive(Clone, Copy)]
enum Part {
    /// io_uring.
    Ring,
    /// A module, which drivers of drives are in Debian's kernels.
    Driver,
    /// The block layer, memory, system calls.
    Rest,
}

/// The starts of the kernel's functions, in their order, and the part of each.
struct Symbols(Vec<(u64, Part)>);

impl Symbols {
    fn of_this_kernel() -> Result<Symbols, Box<dyn Error>> {
        let mut all = Vec::new();
        for line in fs::read_to_string("/proc/kallsyms")?.lines() {
            let mut words = line.split_whitespace();
            let [Some(address), Some(_), Some(name)] = [(); 3].map(|()| words.next()) else {
                continue;
            };
            let part = match words.next() {
                Some(_) => Part::Driver,
                None if name.trim_start_matches('_').starts_with("io_") => Part::Ring,
                None => Part::Rest,
            };
            all.push((u64::from_str_radix(address, 16)?, part));
        }
        all.sort_unstable_by_key(|(address, _)| *address);
        if all.last().is_none_or(|(address, _)| *address == 0) {
            return Err("the kernel hides where its functions are".into());
        }
        Ok(Symbols(all))
    }

    fn part(&self, at: u64) -> Part {
        let after = self.0.partition_point(|(address, _)| *address <= at);
        after.checked_sub(1).map_or(Part::Rest, |before| self.0[before].1)
    }
}
