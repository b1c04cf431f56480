//! Tests mapped files: the pages that the operating system reads and maps around a faulting page.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Machine, designs, warm_up};
use ebbtide_workloads::{Corrupt, Workload};

/// The order of a job's loads, one line of each of its pages.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    Ascending,
    Random,
}

const DATA: u64 = 256 << 20;
const PAGES: u64 = 16;

#[derive(Clone)]
struct Program(Order);

impl Workload for Program {
    fn size_bytes(&self) -> u64 {
        DATA
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let pages = DATA / PAGE_BYTES as u64;
        for number in job * PAGES..(job + 1) * PAGES {
            let page = match self.0 {
                Order::Ascending => number % pages,
                Order::Random => (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48,
            };
            memory.load::<u64>(Addr(page * PAGE_BYTES as u64));
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        false
    }
}

/// A core with 16 MiB of DRAM, and the file mapped.
fn config(read_ahead: &str) -> Config {
    let keys = [
        ("cores.count", "1"),
        ("llc.size", "256KiB"),
        ("dataset.size", "256MiB"),
        ("dram_cache.size", "16MiB"),
        ("os.read_ahead", read_ahead),
    ];
    resolve("hams-mmap-linux", &keys).unwrap()
}

fn machine(config: &Config, order: Order) -> Machine {
    Machine::new(config, designs::compose(config).unwrap(), Program(order)).unwrap()
}

/// Microseconds and flash reads of a page, after `warm` untimed jobs.
fn page(order: Order, read_ahead: &str, warm: u64) -> (f64, f64) {
    let mut machine = machine(&config(read_ahead), order);
    machine.warm(warm, None).unwrap();
    machine.take_measured();
    machine.run(20).unwrap();
    let time = machine.run(200).unwrap();
    let reads = machine.take_measured().flash.unwrap().reads;
    let pages = (200 * PAGES) as f64;
    (time.as_ps() as f64 / 1e6 / pages, reads as f64 / pages)
}

#[test]
fn pages_loaded_in_order_fault_in_batches_and_are_read_once() {
    for warm in [0, 1_000] {
        let ((alone, _), (ahead, reads)) =
            (page(Order::Ascending, "0B", warm), page(Order::Ascending, "128KiB", warm));
        // 17 us of software, 3 us of flash, 1 us on the link, 0.3 us into DRAM, and the line and
        // its translation.
        assert!((21.3..22.3).contains(&alone), "{alone} us a page");
        // The rest is a request for 32 pages, about two minor faults a batch, and the link.
        assert!(ahead < 0.15 * alone, "{ahead} us a page with read-ahead, {alone} without");
        assert!((1.0..1.2).contains(&reads), "{reads} reads a page");
    }
}

#[test]
fn pages_loaded_at_random_are_soon_read_alone() {
    let ((alone, _), (ahead, reads)) =
        (page(Order::Random, "0B", 1_000), page(Order::Random, "128KiB", 1_000));
    assert!((ahead / alone - 1.0).abs() < 0.01, "{ahead} us a page, {alone} without read-ahead");
    assert!(reads < 1.2, "{reads} reads a page");
}

#[test]
fn a_file_is_warm_once_it_has_filled_dram_though_few_of_its_pages_were_missed() {
    for read_ahead in ["0B", "128KiB"] {
        let config = config(read_ahead);
        let mut machine = machine(&config, Order::Ascending);
        let steady = warm_up(&mut machine, &config, Watch::unattended()).unwrap();
        let fills = steady.untimed_jobs * PAGES * PAGE_BYTES as u64 / config.dram_cache.size.0;
        assert!((1..=3).contains(&fills), "DRAM was filled {fills} times");
        assert!((0.99..1.01).contains(&steady.evictions_per_miss), "{steady:?}");
    }
}
