//! How much of a core a read of a page takes by each way to a drive, with 32 reads a submission, on a core
//! that has other work. Reads the block devices that it is given; writes nothing.
//!
//! `cargo run --release -p ebbtide-engine --example drive_cost -- /dev/nvme0n1`. In an emulator that
//! counts instructions as nanoseconds the figures are instructions; docs/DEVICES.md has the command.

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use ebbtide_core::PAGE_BYTES;
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_engine::device::{Direction, FrameMemory, Queue, Request};

/// Reads handed over at once.
const BATCH: usize = 32;
const BATCHES: usize = 400;
/// Steps of other work between two looks at the device: longer than reads take.
const STEPS: u64 = 100_000;
/// Reads go to this many pages, one after the other.
const PAGES: u64 = 1024;

#[repr(align(4096))]
#[derive(Clone)]
struct Page([u8; PAGE_BYTES]);

fn main() -> ExitCode {
    match std::env::args().skip(1).try_for_each(|drive| measure(&drive)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what a read takes by each way to `drive`, and as a share of the first way.
fn measure(drive: &str) -> Result<(), Box<dyn Error>> {
    let file = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(drive);
    let file = Arc::new(file.map_err(|error| format!("{drive}: {error}"))?);
    let mut first = None;
    for way in DevicePath::ALL {
        let Ok((device, _)) = path::open(file.clone(), Some(way)) else { continue };
        for register in [false, true] {
            let mut memory = vec![Page([1; PAGE_BYTES]); BATCH];
            let mut queue = device.queue(BATCH)?;
            if register {
                let base = memory.as_mut_ptr().cast();
                queue.register(FrameMemory { base, bytes: BATCH * PAGE_BYTES })?;
            }
            queue.set_busy(true);
            let ns = read_ns(&mut *queue, &mut memory)?;
            let share = ns / *first.get_or_insert(ns);
            let registered = if register { "registered" } else { "not registered" };
            println!(
                "{drive} {:<34} {registered:<15} {ns:>7.0} ns a read {share:.2}",
                device.name()
            );
        }
    }
    Ok(())
}

/// What a read takes beyond the other work, in nanoseconds.
fn read_ns(queue: &mut dyn Queue, memory: &mut [Page]) -> Result<f64, Box<dyn Error>> {
    let mut ended = Vec::new();
    let mut looks = 0u32;
    let mut since = Instant::now();
    for batch in 0..BATCHES + 1 {
        if batch == 1 {
            // The first one met everything for the first time.
            (since, looks) = (Instant::now(), 0);
        }
        for (slot, page) in memory.iter_mut().enumerate() {
            let number = (batch * BATCH + slot) as u64 * 7 % PAGES;
            queue.push(Request {
                direction: Direction::Read,
                offset: number * PAGE_BYTES as u64,
                pages: [page.0.as_mut_ptr()].into_iter().collect(),
                token: slot as u64,
            });
        }
        while ended.len() < BATCH {
            queue.submit();
            work();
            looks += 1;
            queue.reap(&mut ended);
        }
        for completion in ended.drain(..) {
            completion.result?;
        }
    }
    let (all, alone) = (since.elapsed(), Instant::now());
    (0..looks).for_each(|_| work());
    let beyond = all.as_secs_f64() - alone.elapsed().as_secs_f64();
    Ok(beyond * 1e9 / (BATCH * BATCHES) as f64)
}

fn work() {
    let mut state = 1u64;
    for step in 0..STEPS {
        state = black_box(state.wrapping_mul(6364136223846793005).wrapping_add(step));
    }
}
