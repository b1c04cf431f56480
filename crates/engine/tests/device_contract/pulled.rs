//! A drive that is pulled out while jobs use it. Each job ends with an error, nothing hangs, and
//! acknowledged data is there when the drive is back.
//!
//! EBBTIDE_PULLED_SLOT names the place on the PCI bus of an NVMe drive with one namespace
//! ("0000:00:16.0").

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::durability::{Lsn, Policy};
use ebbtide_core::{Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::path::DevicePath;
use ebbtide_engine::store::{Access, Store};
use ebbtide_engine::{Engine, JobError, Jobs, Options};

use super::common::{self, WORDS_PER_PAGE, initial};
use super::refused::{create, new_store};
use super::{PAGES, small_cache};

const LANES: u64 = 16;

/// The place of a drive on the PCI bus.
struct Slot(PathBuf);

impl Slot {
    /// The one that may be used here.
    fn named() -> Option<Slot> {
        let name = std::env::var_os("EBBTIDE_PULLED_SLOT")?;
        Some(Slot(Path::new("/sys/bus/pci/devices").join(name)))
    }

    /// Takes the drive away from the system.
    fn pull(&self) {
        std::fs::write(self.0.join("remove"), "1").unwrap();
    }

    /// Returns the drive to the system.
    fn put_back(&self) {
        std::fs::write("/sys/bus/pci/rescan", "1").unwrap();
    }

    /// Waits for the drive in this place. Returns the path of its block device.
    fn drive(&self) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < end, "the drive does not come back");
            let controller = child(&self.0.join("nvme"), "nvme");
            let node = |start| {
                let found = child(controller.as_ref()?, start)?;
                let node = Path::new("/dev").join(found.file_name()?);
                node.exists().then_some(node)
            };
            // The generic device is made after the other.
            match node("nvme").zip(node("ng")) {
                Some((node, _)) => return node.to_str().unwrap().into(),
                None => std::thread::yield_now(),
            }
        }
    }
}

/// The entry of `folder` whose name begins with `start`.
fn child(folder: &Path, start: &str) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let entry = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(start));
    entry.map(|entry| entry.path())
}

/// An engine with `more_bytes` of DRAM than a cache of 48 frames takes.
fn start(store: Store, path: DevicePath, more_bytes: usize) -> Jobs {
    let cache = small_cache(48, 1, LANES as usize, PAGES as u64);
    let (durability, device_path) = (Some(Policy::Always), Some(path));
    let options =
        Options { durability, device_path, dram_bytes: cache.dram_bytes + more_bytes, ..cache };
    let engine = Arc::new(Engine::open(&Arc::new(store), &options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

/// Pulls the drive as soon as `count` shows that the jobs are well under way.
fn pull_under_way(slot: &Slot, count: &AtomicU64) {
    while count.load(Ordering::Relaxed) < 20 * LANES {
        std::thread::yield_now();
    }
    slot.pull();
}

#[test]
fn jobs_that_read_a_drive_end_with_an_error_when_it_is_pulled_out() {
    let Some(slot) = Slot::named() else { return };
    for path in DevicePath::ALL {
        let drive = slot.drive();
        println!("{drive} by {path}");
        // Half of the pages have to be read again and again.
        let jobs = start(create(&new_store(&drive, true)).unwrap(), path, PAGES / 4 * PAGE_BYTES);
        let read = Arc::new(AtomicU64::new(0));
        let lane = |lane: u64| {
            let read = read.clone();
            jobs.submit(move |memory| {
                for page in (lane..).step_by(LANES as usize).map(|page| page % PAGES as u64) {
                    let word: u64 = memory.load(PageId(page).start());
                    assert_eq!(word, initial(page * WORDS_PER_PAGE));
                    read.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tickets: Vec<_> = (0..LANES).map(lane).collect();
        pull_under_way(&slot, &read);
        for ticket in tickets {
            let error = ticket.wait().unwrap_err();
            assert!(matches!(error, JobError::Fault(_)), "{error}");
        }
        drop(jobs);
        slot.put_back();
    }
}

#[test]
fn commits_are_refused_when_the_drive_is_pulled_out_and_what_was_acknowledged_is_there_later() {
    let Some(slot) = Slot::named() else { return };
    for path in DevicePath::ALL {
        let drive = slot.drive();
        println!("{drive} by {path}");
        let store = Store::create_persistent(&new_store(&drive, true), 1 << 20).unwrap();
        let jobs = start(store, path, 2 << 20);
        let committed = Arc::new(AtomicU64::new(0));
        let lane = |lane: u64| {
            let committed = committed.clone();
            jobs.submit(move |memory| {
                let mut acknowledged = 0;
                loop {
                    let next = acknowledged + 1;
                    let stored = memory.transaction(|memory| {
                        memory.store(PageId(lane).start(), next);
                        memory.store(PageId(LANES + next % 300).start() + lane * 8, next);
                    });
                    let durable = stored.and_then(|((), lsn): ((), Lsn)| memory.durable(lsn));
                    match durable {
                        Ok(()) => acknowledged = next,
                        Err(error) => return (acknowledged, error.to_string()),
                    }
                    committed.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tickets: Vec<_> = (0..LANES).map(lane).collect();
        pull_under_way(&slot, &committed);
        // A lane that needs a page in place of the log ends as one that reads.
        let ended: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait()).collect();
        drop(jobs);
        slot.put_back();
        let store = Store::open(Path::new(&slot.drive()), 0, Access::Exclusive).unwrap();
        let jobs = start(store, path, 2 << 20);
        let mut refused = 0;
        for (lane, ended) in (0..).zip(ended) {
            let Ok((acknowledged, error)) = ended else { continue };
            assert!(error.contains("the log cannot be written any more"), "{error}");
            let there = jobs.submit(move |memory| memory.load::<u64>(PageId(lane).start()));
            let there = there.wait().unwrap();
            assert!(there >= acknowledged, "lane {lane}: {there} of {acknowledged}");
            refused += 1;
        }
        println!("{refused} lanes of {LANES} were refused a commit");
        assert!(refused > 0);
    }
}
