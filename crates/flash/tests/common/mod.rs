//! A small device and a host that drives it.
#![allow(dead_code, reason = "every test file uses its own part")]

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, Done, Flash, GarbageCollection, Kind, SsdConfig};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Two channels of two planes; a plane has 16 blocks of 8 pages of 4 KiB. Reads take 10 µs,
/// programs 100 µs, erasures 1 ms, transfers of a page 4.096 µs. The device is fresh, so
/// collections start late.
pub fn small() -> SsdConfig {
    let Config::Ssd(config) = Config::preset("astriflash-256g").unwrap() else {
        panic!("the preset is a modelled SSD")
    };
    SsdConfig {
        channels: 2,
        chips_per_channel: 2,
        blocks_per_plane: 16,
        pages_per_block: 8,
        read_us: 10.0,
        program_us: 100.0,
        erase_ms: 1.0,
        bus_mt_per_s: 1000.0,
        over_provisioning_percent: 40.0,
        valid_percent: 0.0,
        invalid_percent: 0.0,
        gc_start_free_percent: 0.0,
        gc_hard_free_percent: 0.0,
        write_done: ebbtide_flash::WriteDone::Programmed,
        ..*config
    }
}

/// The small device with `blocks` of each plane's 16 blocks written, half of their pages valid. It
/// collects as soon as a page is written: once with 11 blocks, twice with 12. It collects until
/// half of the space without valid data is free.
pub fn about_to_collect(garbage_collection: GarbageCollection, blocks: u32) -> SsdConfig {
    SsdConfig {
        valid_percent: 50.0 * f64::from(blocks) / 16.0,
        invalid_percent: 50.0 * f64::from(blocks) / 16.0,
        gc_start_free_percent: 99.0,
        garbage_collection,
        ..small()
    }
}

pub fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

pub const READ: Span = Span::from_us(10);
pub const PROGRAM: Span = Span::from_us(100);
pub const TRANSFER: Span = Span::from_ns(4096);

/// A host that records completions.
pub struct Host {
    pub flash: Flash,
    pub done: Vec<Done>,
    tag: u64,
}

impl Host {
    pub fn new(config: SsdConfig) -> Host {
        let flash = Flash::new(&Config::Ssd(Box::new(config))).unwrap();
        Host { flash, done: Vec::new(), tag: 0 }
    }

    /// Submits a command. Returns its tag.
    pub fn submit(&mut self, at: Time, kind: Kind, page: u64) -> u64 {
        self.tag += 1;
        self.flash.submit(at, Command { tag: self.tag, kind, page: PageId(page) });
        self.tag
    }

    pub fn read(&mut self, at: Time, page: u64) -> u64 {
        self.submit(at, Kind::Read, page)
    }

    pub fn write(&mut self, at: Time, page: u64) -> u64 {
        self.submit(at, Kind::Write, page)
    }

    /// Advances until the device is idle.
    pub fn finish(&mut self) {
        while let Some(at) = self.flash.next_event() {
            self.flash.advance(at, &mut self.done);
        }
        assert_eq!(self.flash.outstanding(), 0);
    }

    pub fn done(&self, tag: u64) -> Done {
        *self.done.iter().find(|done| done.tag == tag).expect("the command is done")
    }
}

/// `count` commands on random pages at random times, `mean_us` apart on average.
pub fn random_commands(
    seed: u64,
    count: usize,
    pages: u64,
    write_percent: u32,
    mean_us: u64,
) -> Vec<(Time, Kind, u64)> {
    let mut random = Pcg64::seed_from_u64(seed);
    let mut at = Time::ZERO;
    let command = |_| {
        at += Span::from_ns(random.random_range(0..=2000 * mean_us));
        let is_write = random.random_range(0..100) < write_percent;
        let kind = if is_write { Kind::Write } else { Kind::Read };
        (at, kind, random.random_range(0..pages))
    };
    (0..count).map(command).collect()
}
