//! CPU cost of reading a page by each way to a drive, with 32 reads a submission, on a core that
//! has other work. It also prints the share of Ebbtide's queue, and a profile of the kernel where
//! the kernel permits one. For comparison it prints a miss in the engine and a request in a ring,
//! both without a drive. Reads the given block devices; writes nothing.
//!
//! `cargo bench -p ebbtide-engine --bench drive_cost -- /dev/nvme0n1`. In an emulator
//! that counts instructions as nanoseconds the figures are instructions; docs/DEVICES.md has the
//! command.

mod kernel_profile;
#[path = "../nowhere/mod.rs"]
mod nowhere;

use std::error::Error;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::{Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_engine::device::{Direction, FrameMemory, Queue, Request};
use ebbtide_engine::{Engine, Options};
use io_uring::{IoUring, opcode};
use kernel_profile::KernelProfile;
use nowhere::Nowhere;

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
    match without_drive().and_then(|()| {
        std::env::args().skip(1).filter(|word| word != "--bench").try_for_each(|d| measure(&d))
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the cost of a miss in an engine whose device does nothing, and of an empty request in a
/// ring.
fn without_drive() -> Result<(), Box<dyn Error>> {
    println!("a miss in the engine alone {:>7.0} ns", miss_ns()?);
    println!("a request in the ring alone {:>6.0} ns", nothing_ns()?);
    Ok(())
}

/// Returns the cost of a miss in an engine that caches half of the pages. The device answers at
/// once and moves nothing. A job reads a word of each of many pages, and writes nothing.
fn miss_ns() -> Result<f64, Box<dyn Error>> {
    const JOBS: u64 = 64;
    const LOADS: u64 = 500;
    let mut options = Options::new(0);
    options.tuning.threads = Some(JOBS as usize);
    options.stack_bytes = 64 << 10;
    options.dram_bytes = (JOBS as usize * options.stack_bytes) + (2 << 20);
    let engine = Arc::new(Engine::over_device(Arc::new(Nowhere), PAGES, &options)?);
    let jobs = engine.start()?;
    let run = |seed: u64| -> Result<(), Box<dyn Error>> {
        let job = |job: u64| {
            jobs.submit(move |memory| {
                let mut state = seed ^ job;
                for _ in 0..LOADS {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    black_box(memory.load::<u64>(PageId((state >> 33) % PAGES).start()));
                }
            })
        };
        let tickets: Vec<_> = (0..JOBS).map(job).collect();
        tickets.into_iter().try_for_each(|ticket| ticket.wait().map_err(Into::into))
    };
    run(1)?;
    let (before, since) = (engine.counters().snapshot().misses, Instant::now());
    run(2)?;
    let took = since.elapsed().as_secs_f64();
    Ok(took * 1e9 / (engine.counters().snapshot().misses - before) as f64)
}

/// Returns the cost of a request from submission to completion, in a ring that only hands it back.
fn nothing_ns() -> Result<f64, Box<dyn Error>> {
    let mut ring: IoUring =
        IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(BATCH as u32)?;
    let mut round = || -> Result<(), Box<dyn Error>> {
        for token in 0..BATCH as u64 {
            // SAFETY: a request that does nothing refers to no memory and no file.
            unsafe { ring.submission().push(&opcode::Nop::new().build().user_data(token)) }?;
        }
        ring.submit_and_wait(BATCH)?;
        assert_eq!(ring.completion().count(), BATCH);
        Ok(())
    };
    round()?;
    let since = Instant::now();
    (0..BATCHES).try_for_each(|_| round())?;
    Ok(since.elapsed().as_secs_f64() * 1e9 / (BATCH * BATCHES) as f64)
}

/// Prints the cost of a read by each way to `drive`, as a share of the first way. Also prints the
/// part that Ebbtide's queue takes outside of the kernel.
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
            let (ns, queue_ns) = read_ns(&mut *queue, &mut memory, || ())?;
            let share = ns / *first.get_or_insert(ns);
            let registered = if register { "registered" } else { "not registered" };
            println!(
                "{drive} {:<34} {registered:<15} {ns:>7.0} ns a read {share:.2}, queue {queue_ns:.0}",
                device.name()
            );
            // Looks take time of their own, so another run.
            match KernelProfile::start() {
                Ok(mut profile) => {
                    read_ns(&mut *queue, &mut memory, || profile.begin())?;
                    println!("{:>8} {}", "", profile.parts()?);
                }
                Err(error) => println!("{:>8} the kernel cannot be looked at: {error}", ""),
            }
        }
    }
    Ok(())
}

/// Returns the cost of a read beyond the other work, and its part outside of the kernel, in
/// nanoseconds. `begin` is called after the warm-up.
fn read_ns(
    queue: &mut dyn Queue,
    memory: &mut [Page],
    begin: impl FnOnce(),
) -> Result<(f64, f64), Box<dyn Error>> {
    let mut ended = Vec::new();
    let mut looks = 0u32;
    let mut since = Instant::now();
    let mut outside = Duration::ZERO;
    let mut begin = Some(begin);
    for batch in 0..BATCHES + 1 {
        if batch == 1 {
            // The first one met everything for the first time.
            begin.take().into_iter().for_each(|begin| begin());
            (since, looks, outside) = (Instant::now(), 0, Duration::ZERO);
        }
        let pushing = Instant::now();
        for (slot, page) in memory.iter_mut().enumerate() {
            let number = (batch * BATCH + slot) as u64 * 7 % PAGES;
            let (offset, token) = (number * PAGE_BYTES as u64, slot as u64);
            let pages = [page.0.as_mut_ptr()].into_iter().collect();
            // SAFETY: the pages outlive the batch, and nothing else uses them.
            queue.push(unsafe { Request::new(Direction::Read, offset, pages, token) });
        }
        outside += pushing.elapsed();
        while ended.len() < BATCH {
            queue.submit();
            work();
            looks += 1;
            let reaping = Instant::now();
            queue.reap(&mut ended);
            outside += reaping.elapsed();
        }
        for completion in ended.drain(..) {
            completion.result?;
        }
    }
    let (all, alone) = (since.elapsed(), Instant::now());
    (0..looks).for_each(|_| work());
    let beyond = all.as_secs_f64() - alone.elapsed().as_secs_f64();
    let ns = |seconds: f64| seconds * 1e9 / (BATCH * BATCHES) as f64;
    Ok((ns(beyond), ns(outside.as_secs_f64())))
}

fn work() {
    let mut state = 1u64;
    for step in 0..STEPS {
        state = black_box(state.wrapping_mul(6364136223846793005).wrapping_add(step));
    }
}
