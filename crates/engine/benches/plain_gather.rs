//! Gathers rows of a file with io_uring alone: a fixed number of reads in flight, and no cache. The
//! yardstick of `python/benches/gather.py`.
//!
//! `plain_gather FILE OFFSET ROW_BYTES DEPTH` reads names of files from standard input. Each file
//! has indices of 64 bits. The program gathers these rows, and prints the seconds and CPU seconds
//! of each gather.

use std::alloc::{Layout, alloc_zeroed};
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Instant;

use io_uring::{IoUring, opcode, types};

const PAGE: u64 = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [path, offset, row_bytes, depth] = &arguments[..] else {
        return Err("expected FILE OFFSET ROW_BYTES DEPTH".into());
    };
    let (offset, row_bytes, depth): (u64, u64, usize) =
        (offset.parse()?, row_bytes.parse()?, depth.parse()?);
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(depth.next_power_of_two() as u32)?;
    ring.submitter().register_files(&[file.as_raw_fd()])?;
    // A row touches at most this many bytes of whole pages.
    let slot_bytes = ((row_bytes + PAGE - 1).div_ceil(PAGE) + 1) * PAGE;
    let layout = Layout::from_size_align(depth * slot_bytes as usize, PAGE as usize)?;
    // SAFETY: the layout is not empty. The memory lives as long as the process.
    let slots = unsafe { std::slice::from_raw_parts_mut(alloc_zeroed(layout), layout.size()) };
    let base = slots.as_mut_ptr();

    for line in io::stdin().lock().lines() {
        let bytes = fs::read(line?)?;
        let indices: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        let mut rows = vec![1u8; indices.len() * row_bytes as usize];
        let (clock, cpu) = (Instant::now(), cpu_seconds());
        let mut free: Vec<usize> = (0..depth).collect();
        let mut places = vec![0; depth];
        let (mut next, mut done) = (0, 0);
        while done < indices.len() {
            while next < indices.len()
                && let Some(slot) = free.pop()
            {
                let at = offset + indices[next] * row_bytes;
                let first = at / PAGE * PAGE;
                let length = (at + row_bytes).next_multiple_of(PAGE) - first;
                // SAFETY: the slot lies within the slots.
                let into = unsafe { base.add(slot * slot_bytes as usize) };
                let read = opcode::Read::new(types::Fixed(0), into, length as u32).offset(first);
                // SAFETY: the slot is not used before the read has ended.
                unsafe { ring.submission().push(&read.build().user_data(slot as u64))? };
                places[slot] = next;
                next += 1;
            }
            // Completions are taken together, so that submissions are batches too.
            ring.submit_and_wait((indices.len() - done).min(depth / 4).max(1))?;
            let ended: Vec<_> = ring.completion().map(|e| (e.user_data(), e.result())).collect();
            for (slot, result) in ended {
                if result < 0 {
                    return Err(io::Error::from_raw_os_error(-result).into());
                }
                let (slot, place) = (slot as usize, places[slot as usize]);
                let within = (offset + indices[place] * row_bytes) % PAGE;
                let from = slot * slot_bytes as usize + within as usize;
                // SAFETY: the read has ended, and the row lies within the slot.
                let row = unsafe { std::slice::from_raw_parts(base.add(from), row_bytes as usize) };
                rows[place * row_bytes as usize..][..row_bytes as usize].copy_from_slice(row);
                free.push(slot);
                done += 1;
            }
        }
        let (seconds, cpu) = (clock.elapsed().as_secs_f64(), cpu_seconds() - cpu);
        let sum = rows.iter().fold(0u64, |sum, byte| sum.wrapping_add(u64::from(*byte)));
        println!("{seconds} {cpu} {sum}");
    }
    Ok(())
}

/// CPU time of this process.
fn cpu_seconds() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes into `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
