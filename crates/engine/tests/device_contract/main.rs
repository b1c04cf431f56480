//! The promises of every device to the engine, for every way to the drive:
//!
//! * Pages move whole, in runs and from anywhere in memory.
//! * Each request ends once, and an error ends its request alone.
//! * No more requests are under way than there is room for.
//! * An owner that sleeps is woken.
//!
//! The drives are temporary files, unless EBBTIDE_DRIVES names block devices, which are
//! overwritten. EBBTIDE_BAD_DRIVE names one whose page at 1 MiB cannot be read and whose page at 2
//! MiB cannot be written. EBBTIDE_TRACING names the folder of the kernel's records.
//! `.ci/emulated-drive` sets all of them, and the variables that the modules name.

#[path = "../common/mod.rs"]
mod common;
mod pulled;
mod refused;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::file::page_file;
use common::{Plan, image, run, small_cache};
use ebbtide_core::durability::Policy;
use ebbtide_core::{Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_engine::device::threads::Threads;
use ebbtide_engine::device::{
    Completion, Device, Direction, FrameMemory, LogWrites, Queue, Request,
};
use ebbtide_engine::store::Store;
use ebbtide_engine::{Engine, Options};
use refused::new_store;

const PAGES: usize = 512;

#[repr(align(4096))]
#[derive(Clone)]
struct Page([u8; PAGE_BYTES]);

/// A device under test, its name, and the bytes of its drive.
struct Tested {
    name: String,
    device: Arc<dyn Device>,
    file: Arc<File>,
    end: u64,
}

fn open_drive(drive: &str) -> Arc<File> {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    Arc::new(options.open(drive).unwrap_or_else(|error| panic!("{drive}: {error}")))
}

impl Tested {
    /// The writer of the log on this device.
    fn log(&self) -> Box<dyn LogWrites> {
        self.device.log_writes().unwrap().unwrap_or_else(|| Box::new(self.file.clone()))
    }
}

/// Whether the kernel may poll this drive.
fn has_polled_queues(drive: &str) -> bool {
    let setting = drive.replace("/dev/", "/sys/class/block/") + "/queue/io_poll";
    std::fs::read_to_string(setting).is_ok_and(|setting| setting.trim() == "1")
}

/// The devices over `file`, by every path that suits it.
fn paths(drive: &str, file: &Arc<File>) -> Vec<Tested> {
    use std::io::{Seek, SeekFrom};
    let end = (&mut &**file).seek(SeekFrom::End(0)).unwrap();
    let polled = has_polled_queues(drive);
    let tested = |path: DevicePath| {
        let (device, notice) = path::open(file.clone(), Some(path)).ok()?;
        let said = (device.name().contains("polled"), notice.is_some());
        let right = match path {
            DevicePath::File => said == (false, false),
            DevicePath::Block => said == (polled, !polled),
            // The kernel may be too old for the best of passthrough.
            DevicePath::Nvme => polled || said == (false, true),
            DevicePath::Aio => said == (false, false),
        };
        assert!(right, "{drive} by {}: {notice:?}", device.name());
        let name = format!("{drive} by {}", device.name());
        Some(Tested { name, device, file: file.clone(), end })
    };
    let mut all: Vec<Tested> = DevicePath::ALL.into_iter().filter_map(tested).collect();
    // A drive may be reached by every way except the way of another kind.
    let expected = [("/dev/nvme", 4), ("/dev/", 3), ("", 2)];
    let ways = expected.into_iter().find(|(start, _)| drive.starts_with(start));
    assert_eq!(Some(all.len()), ways.map(|(_, ways)| ways), "{drive}");
    // QEMU's NVMe drive loses requests of several threads: the kernel resets it for minutes.
    if !drive.starts_with("/dev/nvme") {
        let device = Arc::new(Threads::new(file.clone(), 4));
        let name = format!("{drive} by threads");
        all.push(Tested { name, device, file: file.clone(), end });
    }
    all
}

fn every_device() -> Vec<Tested> {
    let Ok(drives) = std::env::var("EBBTIDE_DRIVES") else {
        return paths("a file", &page_file(PAGES as u64, image));
    };
    drives.split(',').flat_map(|drive| paths(drive, &open_drive(drive))).collect()
}

/// Runs `check` on every device with a busy owner and one with nothing to run, with its memory
/// registered and not.
fn on_every_device(check: impl Fn(&Tested, &mut Driver)) {
    for tested in every_device() {
        for (busy, register) in [(true, true), (true, false), (false, true), (false, false)] {
            println!("{}, busy {busy}, registered {register}", tested.name);
            check(&tested, &mut Driver::new(&tested, 8, busy, register));
        }
    }
}

/// A queue and the memory that it moves pages to and from.
struct Driver {
    queue: Box<dyn Queue>,
    busy: bool,
    /// After the queue, which waits for its requests when it is dropped.
    memory: Vec<Page>,
}

impl Driver {
    fn new(tested: &Tested, depth: usize, busy: bool, register: bool) -> Driver {
        let mut memory = vec![Page([0; PAGE_BYTES]); PAGES];
        let mut queue = tested.device.queue(depth).unwrap();
        if register {
            let base = memory.as_mut_ptr().cast();
            queue.register(FrameMemory { base, bytes: PAGES / 2 * PAGE_BYTES }).unwrap();
        }
        Driver { queue, busy, memory }
    }

    fn push(&mut self, direction: Direction, first: usize, memory: &[usize]) {
        let pages = memory.iter().map(|&page| self.memory[page].0.as_mut_ptr()).collect();
        let (offset, token) = ((first * PAGE_BYTES) as u64, first as u64);
        // SAFETY: the driver keeps the memory as long as the queue, and looks at it between
        // requests.
        self.queue.push(unsafe { Request::new(direction, offset, pages, token) });
    }

    /// Submits the pushed requests and waits for `count` completions, like an engine's core.
    fn ended(&mut self, count: usize) -> BTreeMap<u64, io::Result<usize>> {
        let mut all = BTreeMap::new();
        // Far beyond what any machine needs.
        let end = Instant::now() + Duration::from_secs(90);
        self.queue.set_busy(self.busy);
        while all.len() < count {
            assert!(Instant::now() < end, "{} of {count} requests have ended", all.len());
            self.queue.submit();
            let mut ended = Vec::new();
            self.queue.reap(&mut ended);
            if ended.is_empty() {
                // A core sleeps only after it has found nothing to run.
                self.queue.set_busy(false);
                self.queue.reap(&mut ended);
                if ended.is_empty() {
                    self.queue.sleeper().sleep(Duration::from_secs(10));
                }
                self.queue.set_busy(self.busy);
            }
            for Completion { token, result } in ended {
                assert!(all.insert(token, result).is_none(), "request {token} ended twice");
            }
        }
        assert_eq!((self.queue.unsubmitted(), self.queue.in_flight()), (0, 0));
        all
    }

    /// One request to its end.
    fn transfer(&mut self, direction: Direction, first: usize, memory: &[usize]) {
        self.push(direction, first, memory);
        let ended = self.ended(1).remove(&(first as u64)).expect("its own token");
        assert_eq!(ended.unwrap(), memory.len() * PAGE_BYTES);
    }

    /// As many pages as a request may have, and half of the memory has twice.
    fn run_pages(&self) -> usize {
        self.queue.run_pages_max().min(PAGES / 4)
    }

    fn fill(&mut self, page: usize, with: u8) {
        self.memory[page].0.fill(with);
    }

    fn holds(&self, page: usize, byte: u8) -> bool {
        self.memory[page].0.iter().all(|&found| found == byte)
    }
}

#[test]
fn a_page_comes_back_as_it_was_written_at_both_ends_of_the_drive() {
    on_every_device(|tested, driver| {
        let last = tested.end as usize / PAGE_BYTES - 1;
        // The second half of the memory is never registered.
        for (number, (place, memory)) in
            [(0, 0), (last, PAGES - 1), (1, PAGES / 2), (last, 7)].into_iter().enumerate()
        {
            let byte = number as u8 + 1;
            driver.fill(memory, byte);
            driver.transfer(Direction::Write, place, &[memory]);
            driver.fill(memory, 0);
            driver.transfer(Direction::Read, place, &[memory]);
            assert!(driver.holds(memory, byte), "{place} {memory}");
        }
    });
}

#[test]
fn a_run_is_written_from_and_read_to_pages_anywhere_in_memory() {
    on_every_device(|_, driver| {
        for count in [2, 3, driver.queue.run_pages_max().min(33), driver.run_pages()] {
            // Backwards and with gaps, across the end of what is registered.
            let memory: Vec<usize> = (0..count).map(|page| PAGES / 2 + 200 - 2 * page).collect();
            memory
                .iter()
                .enumerate()
                .for_each(|(number, &page)| driver.fill(page, number as u8 + 1));
            driver.transfer(Direction::Write, 100, &memory);
            let other: Vec<usize> = (0..count).collect();
            driver.transfer(Direction::Read, 100, &other);
            (0..count).for_each(|page| assert!(driver.holds(page, page as u8 + 1)));
            driver.fill(5, 0);
            driver.transfer(Direction::Read, 100 + count - 1, &[5]);
            assert!(driver.holds(5, count as u8), "the last page of {count} alone");
        }
    });
}

#[test]
fn a_run_far_beyond_the_drives_limit_fails_and_the_queue_goes_on() {
    on_every_device(|tested, driver| {
        let most = driver.queue.run_pages_max();
        // The block layer divides what is longer.
        assert_eq!(most < PAGES, tested.name.contains("passthrough"), "{}", tested.name);
        if most < PAGES {
            // Neighbours in memory count as one piece, so that one page more may do.
            let memory: Vec<usize> = (0..2 * (most + 1)).collect();
            for direction in [Direction::Read, Direction::Write] {
                driver.push(direction, 100, &memory);
                driver.ended(1).remove(&100).expect("its own token").unwrap_err();
            }
        }
        driver.transfer(Direction::Read, 0, &[3]);
    });
}

#[test]
fn every_request_ends_once_though_there_are_more_than_the_queue_has_room_for() {
    on_every_device(|_, driver| {
        let places: Vec<usize> = (200..300).collect();
        for &place in &places {
            driver.fill(place, place as u8);
            driver.push(Direction::Write, place, &[place]);
        }
        let whole = |ended: BTreeMap<u64, io::Result<usize>>| {
            ended.into_values().all(|result| result.unwrap() == PAGE_BYTES)
        };
        assert!(whole(driver.ended(places.len())));
        for &place in &places {
            driver.push(Direction::Read, place, &[place - 200]);
        }
        driver.queue.set_busy(driver.busy);
        driver.queue.submit();
        let (unsubmitted, in_flight) = (driver.queue.unsubmitted(), driver.queue.in_flight());
        assert!(unsubmitted + in_flight <= places.len());
        assert!(whole(driver.ended(places.len())));
        assert!(places.iter().all(|&place| driver.holds(place - 200, place as u8)));
    });
}

#[test]
fn a_read_behind_the_end_moves_nothing_and_the_queue_goes_on() {
    on_every_device(|tested, driver| {
        let behind = tested.end as usize / PAGE_BYTES + 8;
        driver.push(Direction::Read, behind, &[3]);
        let ended = driver.ended(1).remove(&(behind as u64)).expect("its own token");
        if tested.name.contains("passthrough") {
            let error = ended.unwrap_err().to_string();
            assert!(error.contains("0x080: beyond the end of the namespace"), "{error}");
        } else {
            assert!(ended.is_err() || ended.is_ok_and(|moved| moved == 0));
        }
        driver.transfer(Direction::Read, 0, &[3]);
    });
}

#[test]
fn what_was_flushed_is_there_for_another_opener() {
    on_every_device(|tested, driver| {
        driver.fill(9, 77);
        driver.transfer(Direction::Write, 40, &[9]);
        driver.fill(3, 78);
        let mut log = tested.log();
        for (place, through) in [(41, false), (42, true)] {
            log.write((place * PAGE_BYTES) as u64, &driver.memory[3].0, through).unwrap();
        }
        log.flush().unwrap();
        let mut other = Driver::new(tested, 2, false, false);
        for (place, byte) in [(40, 77), (41, 78), (42, 78)] {
            other.transfer(Direction::Read, place, &[0]);
            assert!(other.holds(0, byte), "{place}");
        }
    });
}

#[test]
fn the_log_writes_more_at_once_than_the_drives_limit() {
    on_every_device(|tested, driver| {
        let bytes: Vec<Page> = (0..PAGES).map(|number| Page([number as u8; PAGE_BYTES])).collect();
        // SAFETY: a page is its bytes and nothing else.
        let bytes =
            unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), PAGES * PAGE_BYTES) };
        let mut log = tested.log();
        log.write(0, bytes, false).unwrap();
        log.flush().unwrap();
        for page in [0, 1, 126, 127, 128, 254, PAGES - 1] {
            driver.transfer(Direction::Read, page, &[0]);
            assert!(driver.holds(0, page as u8), "{page}");
        }
    });
}

#[test]
fn a_queue_that_is_dropped_waits_for_what_is_under_way() {
    on_every_device(|_, driver| {
        driver.queue.set_busy(driver.busy);
        (0..8).for_each(|place| driver.push(Direction::Read, place, &[place]));
        driver.queue.submit();
        driver.queue = Box::new(Nothing);
        // The queue has ended: no request writes to it any more.
        (0..8).for_each(|page| driver.fill(page, 1));
        assert!((0..8).all(|page| driver.holds(page, 1)));
    });
}

/// Takes the place of a queue that was dropped.
struct Nothing;

impl Queue for Nothing {
    fn push(&mut self, _: Request) {}
    fn submit(&mut self) {}
    fn reap(&mut self, _: &mut Vec<Completion>) {}
    fn unsubmitted(&self) -> usize {
        0
    }
    fn in_flight(&self) -> usize {
        0
    }
    fn sleeper(&self) -> Arc<dyn ebbtide_engine::device::Sleeper> {
        unreachable!("nobody asks")
    }
}

#[test]
fn a_page_that_the_drive_cannot_move_fails_alone_with_what_the_drive_says() {
    let Ok(drive) = std::env::var("EBBTIDE_BAD_DRIVE") else { return };
    for (direction, bad, said) in [
        (Direction::Read, (1 << 20) / PAGE_BYTES, "0x281: unrecovered read error"),
        (Direction::Write, (2 << 20) / PAGE_BYTES, "0x280: write fault"),
    ] {
        for tested in paths(&drive, &open_drive(&drive)) {
            for busy in [true, false] {
                let mut driver = Driver::new(&tested, 8, busy, true);
                // Not neighbours, which the kernel may move as one.
                for place in [bad - 16, bad, bad + 16] {
                    driver.push(direction, place, &[place % PAGES]);
                }
                for (place, result) in driver.ended(3) {
                    println!("{}: page {place}: {result:?}", tested.name);
                    assert_eq!(result.is_err(), place == bad as u64, "{}", tested.name);
                    if let (Err(error), true) = (result, tested.name.contains("passthrough")) {
                        assert!(error.to_string().contains(said), "{error}");
                    }
                }
            }
        }
    }
}

/// Returns the commands that the kernel has sent to a drive since the last call, by its own record
/// (`events/nvme/nvme_setup_cmd`). They are counts of writes through the volatile cache, other
/// writes, and flushes.
fn commands(tracing: &Path, drive: &str) -> [usize; 3] {
    let trace = std::fs::read_to_string(tracing.join("trace")).unwrap();
    std::fs::write(tracing.join("trace"), "").unwrap();
    let of_drive = format!("disk={drive},");
    let all = || trace.lines().filter(|line| line.contains(&of_drive));
    let writes = || all().filter(|line| line.contains("nvme_cmd_write"));
    let through = writes().filter(|line| line.contains("ctrl=0x4000")).count();
    let flushes = all().filter(|line| line.contains("nvme_cmd_flush")).count();
    [through, writes().count() - through, flushes]
}

/// Commits transactions one after the other, each of them awaited, in a store that fits in DRAM.
fn commit(drive: &str, path: DevicePath, count: u64) {
    let new = new_store(drive, true);
    let store = Arc::new(Store::create_persistent(&new, 4 << 20).unwrap());
    let options = Options {
        durability: Some(Policy::Always),
        device_path: Some(path),
        ..Options::new(16 << 20)
    };
    let engine = Arc::new(Engine::open(&store, &options).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    for number in 0..count {
        let committed = jobs.submit(move |memory| {
            let page = PageId(number % 8).start();
            let ((), lsn) = memory.transaction(|memory| memory.store(page, number)).unwrap();
            memory.durable(lsn).unwrap();
        });
        committed.wait().unwrap();
    }
}

#[test]
fn a_commit_is_one_write_through_the_volatile_cache_by_passthrough_and_has_a_flush_elsewhere() {
    let Some(tracing) = std::env::var_os("EBBTIDE_TRACING").map(PathBuf::from) else { return };
    std::fs::write(tracing.join("events/nvme/nvme_setup_cmd/enable"), "1").unwrap();
    const COMMITS: u64 = 50;
    let counted = |path| {
        commands(&tracing, "nvme0n1");
        commit("/dev/nvme0n1", path, COMMITS);
        let counted = commands(&tracing, "nvme0n1");
        println!("{path}: {counted:?}");
        counted
    };
    let commits = COMMITS as usize;
    let [through, _, flushes] = counted(DevicePath::Block);
    assert!(through == 0 && flushes >= commits, "block: {through} {flushes}");
    let [through, _, flushes] = counted(DevicePath::Nvme);
    assert!(through >= commits && flushes < 20, "passthrough: {through} {flushes}");
}

/// Jobs that check every word they read, through a cache of a few frames.
#[test]
fn every_word_is_right_through_a_small_cache() {
    let seeds = std::env::var("EBBTIDE_SEEDS").map_or(1, |count| count.parse().unwrap());
    for seed in 0..seeds {
        for tested in every_device() {
            let mut filler = Driver::new(&tested, 8, true, true);
            for page in 0..PAGES {
                image(page, &mut filler.memory[page].0);
                filler.push(Direction::Write, page, &[page]);
            }
            assert!(filler.ended(PAGES).into_values().all(|result| result.is_ok()));
            drop(filler);
            let plan = Plan {
                pages: PAGES as u64,
                cores: 1,
                lanes_per_core: 16,
                jobs_per_lane: 20,
                steps_per_job: 40,
                write_share: 0.3,
                seed,
            };
            let options = small_cache(48, 1, 16, PAGES as u64);
            let options = Options { dram_bytes: options.dram_bytes + (1 << 20), ..options };
            let (engine, failed) = run(tested.device.clone(), &plan, &options);
            let counted = engine.counters().snapshot();
            println!("{}: {} misses", tested.name, counted.misses);
            assert_eq!((failed, counted.retries), (0, 0), "{}", tested.name);
            assert!(counted.misses > 0 && counted.evictions_dirty > 0);
        }
    }
}
