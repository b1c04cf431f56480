//! Mapped regions: jobs use plain pointers to pages that come from flash.
//!
//! Where the kernel refuses userfaultfd, each test prints that it was skipped.

mod heap;
mod lanes;
mod safety;
mod system_calls;
mod table;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_engine::mapped::{KernelSupport, MappedBuilder, MappedError, MappedStore, Region};
use table::Table;

const PAGE: usize = 4096;

/// Names the folder for the stores of a process that a test has started.
const FOLDER: &str = "EBBTIDE_TEST_FOLDER";

/// True if mapped regions work here. Says so if not.
fn works_here() -> bool {
    match KernelSupport::ask() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}

/// A store of its own for a test, in a file that goes with it.
struct Fixture {
    store: MappedStore,
    _folder: tempfile::TempDir,
}

fn fixture(configure: impl FnOnce(MappedBuilder) -> MappedBuilder) -> Fixture {
    // A process that is to end gets its folder from the test, which removes it.
    let place = std::env::var_os(FOLDER).map_or(".".into(), std::path::PathBuf::from);
    let folder = tempfile::tempdir_in(place).expect("a folder");
    let builder = MappedStore::builder(folder.path().join("store.ebb"));
    let store = configure(builder).open().expect("the options fit");
    Fixture { store, _folder: folder }
}

/// Small enough that most pages do not fit: 16 MiB of data.
fn small(builder: MappedBuilder) -> MappedBuilder {
    builder.size("16MiB").dram("7MiB").threads(8).stack_bytes(64 << 10)
}

/// The place of a word of a region, which jobs may use.
#[derive(Clone, Copy)]
struct Words(*const AtomicU64);

// SAFETY: the words are atomic, and the tests keep their regions.
unsafe impl Send for Words {}

impl Words {
    fn of(region: &Region) -> Words {
        Words(region.start().as_ptr().cast_const().cast())
    }

    fn word(self, index: usize) -> &'static AtomicU64 {
        // SAFETY: the tests use words of their region alone, while it lives.
        unsafe { &*self.0.add(index) }
    }
}

#[test]
fn a_region_reads_as_zeros_and_keeps_what_jobs_store_beyond_the_size_of_dram() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("16MiB").expect("it fits");
    let words = Words::of(&region);
    let pages = region.bytes() / PAGE;
    for round in 0..3u64 {
        let tickets: Vec<_> = (0..8)
            .map(|part| {
                store.submit(move || {
                    for page in (part..pages).step_by(8) {
                        let word = words.word(page * PAGE / 8 + page % 512);
                        let expected = if round == 0 { 0 } else { page as u64 * 10 + round - 1 };
                        assert_eq!(word.load(Ordering::Relaxed), expected, "page {page}");
                        word.store(page as u64 * 10 + round, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        tickets.into_iter().for_each(|ticket| ticket.wait().expect("the job ends well"));
    }
    let counts = store.counts();
    assert!(counts.evictions > pages as u64 && counts.cleaned > pages as u64, "{counts:?}");
}

#[test]
fn a_hash_table_of_pointers_works_in_a_region() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("16MiB").expect("it fits");
    let table = Arc::new(Table::new(&region, 1 << 12));
    const KEYS: u64 = 130_000;
    let filled = table.clone();
    store.run(move || (0..KEYS).for_each(|key| filled.insert(key, key * 3))).expect("it runs");
    let tickets: Vec<_> = (0..16)
        .map(|part| {
            let table = table.clone();
            store.submit(move || {
                for key in (part..KEYS).step_by(16 * 3) {
                    assert_eq!(table.get(key), Some(key * 3));
                    assert_eq!(table.get(key + KEYS), None);
                }
            })
        })
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().expect("every key is found"));
    assert!(store.counts().reads > 1_000, "{:?}", store.counts());
}

#[test]
fn the_resident_memory_of_the_process_stays_within_the_budget() {
    if !works_here() {
        return;
    }
    // A process of its own: the other tests have stores too.
    let child = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "the_bound_in_a_process_of_its_own", "--ignored", "--nocapture"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
}

/// `VmRSS` and `VmPTE`, in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let value = |name: &str| -> usize {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a line");
        line.split_whitespace().nth(1).expect("a number").parse::<usize>().expect("kB") * 1024
    };
    value("VmRSS:") + value("VmPTE:")
}

#[test]
#[ignore = "run by the test above"]
fn the_bound_in_a_process_of_its_own() {
    let before = resident_bytes();
    let Fixture { store, _folder } =
        fixture(|builder| builder.size("256MiB").dram("32MiB").threads(16));
    let region = store.mapped("256MiB").expect("it fits");
    let words = Words::of(&region);
    let pages = region.bytes() / PAGE;
    for store_to in [false, true] {
        let tickets: Vec<_> = (0..16)
            .map(|part| {
                store.submit(move || {
                    for page in (part..pages).step_by(16) {
                        let word = words.word(page * PAGE / 8);
                        if store_to {
                            word.store(1, Ordering::Relaxed)
                        } else {
                            assert_eq!(word.load(Ordering::Relaxed), 0)
                        }
                    }
                })
            })
            .collect();
        tickets.into_iter().for_each(|ticket| ticket.wait().expect("the job ends well"));
        let used = resident_bytes() - before;
        assert!(used <= (32 << 20) + (2 << 20), "{used} bytes are resident");
    }
}

#[test]
fn a_thread_without_a_job_may_use_a_region_and_waits_for_its_pages() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("16MiB").expect("it fits");
    let words = Words::of(&region);
    let pages = region.bytes() / PAGE;
    (0..pages).for_each(|page| words.word(page * PAGE / 8).store(page as u64, Ordering::Relaxed));
    let sum =
        (0..pages).map(|page| words.word(page * PAGE / 8).load(Ordering::Relaxed)).sum::<u64>();
    assert_eq!(sum, (0..pages as u64).sum());
}

#[test]
fn bad_input_gets_an_error_of_one_line() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let said =
        |result: Result<Region, MappedError>| result.expect_err("it does not fit").to_string();
    assert_eq!(
        said(store.mapped("1TiB")),
        "a region of 1TiB does not fit: the store has 16MiB left"
    );
    store.mapped("10MiB").expect("it fits");
    assert!(said(store.mapped("7MiB")).ends_with("the store has 6MiB left"));
    assert!(said(store.mapped("much")).starts_with("size: "));
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let path = folder.path().join("other.ebb");
    let few = MappedStore::builder(&path).size("16MiB").dram("1MiB").open();
    let said = few.expect_err("it does not fit").to_string();
    assert!(said.starts_with("a DRAM budget of 1MiB is too small for a mapped store"), "{said}");
    let stack = MappedStore::builder(&path).stack_bytes(4096).open().expect_err("it is too small");
    assert_eq!(stack.to_string(), "the stack of a job: expected at least 64KiB");
    assert!(!path.exists());
}
