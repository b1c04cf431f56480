//! Speed of flash: random 4 KiB reads past the page cache, at a given queue depth.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use ebbtide_core::{Stopped, Watch};
use ebbtide_engine::device::page_reads::PageReads;
use hdrhistogram::Histogram;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use thiserror::Error;

/// Bytes of one read.
const PAGE_BYTES: usize = ebbtide_core::PAGE_BYTES;
/// The test file is written in pieces of this size.
const PIECE_BYTES: usize = 256 << 10;
/// Share of a measurement that is not counted. Buffers, the device's queues and the clock of a
/// sleeping processor settle in it.
const WARM_UP_SHARE: f64 = 0.2;
/// Reads slower than this are counted as this slow.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Why reads could not be measured.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The file cannot be opened for reading.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file or block device.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The file holds less than one page.
    #[error("{}: {bytes} bytes, expected at least {PAGE_BYTES}", path.display())]
    TooSmall {
        /// The file or block device.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The test file cannot be made.
    #[error("cannot write a test file of {bytes} bytes in {}: {source}", folder.display())]
    Write {
        /// Its folder.
        folder: PathBuf,
        /// Its size.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A read failed.
    #[error("reading at queue depth {queue_depth}: {source}")]
    Read {
        /// Reads in flight.
        queue_depth: u32,
        /// What the kernel said.
        source: io::Error,
    },
    /// The watch requested a stop.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Bytes, aligned as direct I/O needs them.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Aligned<const BYTES: usize>([u8; BYTES]);

/// Buffer of one read.
type Page = Aligned<PAGE_BYTES>;

impl<const BYTES: usize> Aligned<BYTES> {
    /// Returns buffers that have been written to, so that no page fault is measured later.
    fn touched(count: usize) -> Vec<Aligned<BYTES>> {
        vec![Aligned([1; BYTES]); count]
    }
}

/// A file or block device for the reads, opened read-only or made for the purpose.
#[derive(Debug)]
pub struct Target {
    file: File,
    bytes: u64,
    direct: Result<(), String>,
}

impl Target {
    /// Opens an existing file or block device, read-only. Uses direct I/O if the file system
    /// permits it; see [`direct`](Target::direct).
    ///
    /// # Errors
    /// [`ProbeError::Open`] if it cannot be opened, [`ProbeError::TooSmall`] if it has less than 4
    /// KiB.
    pub fn open(path: &Path) -> Result<Target, ProbeError> {
        let failed = |source| ProbeError::Open { path: path.to_path_buf(), source };
        // A path that names a pipe must not make this wait for a writer.
        let flags = (OFlags::NONBLOCK | OFlags::CLOEXEC).bits() as i32;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        if file.metadata().is_ok_and(|about| about.is_dir()) {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // Unlike its metadata, the end of a block device tells its size.
        let bytes = io::Seek::seek(&mut &file, io::SeekFrom::End(0)).map_err(failed)?;
        if bytes < PAGE_BYTES as u64 {
            return Err(ProbeError::TooSmall { path: path.to_path_buf(), bytes });
        }
        let direct = make_direct(&file);
        Ok(Target { file, bytes, direct })
    }

    /// Makes a file in `folder` and fills it with incompressible contents. Its size is `bytes`,
    /// rounded up to whole pages of 4 KiB. The file has no name, so it disappears with the target
    /// or the process.
    ///
    /// # Errors
    /// [`ProbeError::Write`] if it cannot be made, [`ProbeError::Stopped`] if `watch` requests a
    /// stop.
    pub fn temporary(folder: &Path, bytes: u64, watch: Watch<'_>) -> Result<Target, ProbeError> {
        let failed = |source| ProbeError::Write { folder: folder.to_path_buf(), bytes, source };
        let mut file = tempfile::tempfile_in(folder).map_err(failed)?;
        let direct = make_direct(&file);
        let whole = bytes.next_multiple_of(PAGE_BYTES as u64).max(PAGE_BYTES as u64);
        let mut random = Pcg64::seed_from_u64(bytes);
        let mut piece = Aligned::<PIECE_BYTES>::touched(1);
        let mut written = 0;
        while written < whole {
            watch.tell("writing a test file", written as f64 / whole as f64)?;
            let length = (whole - written).min(PIECE_BYTES as u64) as usize;
            let piece = &mut piece[0].0[..length];
            random.fill_bytes(piece);
            file.write_all(piece).map_err(failed)?;
            written += length as u64;
        }
        file.sync_all().map_err(failed)?;
        Ok(Target { file, bytes: whole, direct })
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns `Ok` if reads bypass the page cache.
    ///
    /// # Errors
    /// The reason why reads use the page cache. A probe then measures DRAM.
    pub fn direct(&self) -> Result<(), &str> {
        self.direct.as_ref().copied().map_err(String::as_str)
    }

    /// A ring for up to `slots` reads of this target in flight.
    ///
    /// # Errors
    /// When this kernel or container refuses io_uring.
    pub(crate) fn ring(&self, slots: u32) -> io::Result<PageReads<'_>> {
        PageReads::new(&self.file, slots)
    }

    /// Writes a random page of a target that was made for the purpose.
    pub(super) fn write_a_page(&self, random: &mut Pcg64) -> io::Result<()> {
        let mut page = Page::touched(1);
        random.fill_bytes(&mut page[0].0);
        self.file.write_all_at(&page[0].0, self.random_offset(random))
    }

    /// Reads a random page.
    #[cfg(feature = "load")]
    pub(crate) fn read_a_page(&self, random: &mut Pcg64) -> io::Result<()> {
        let mut page = Page::touched(1);
        self.file.read_at(&mut page[0].0, self.random_offset(random)).map(drop)
    }

    /// Flushes the writes to the device.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Byte offset of a random page.
    pub(crate) fn random_offset(&self, random: &mut Pcg64) -> u64 {
        let pages = u128::from(self.bytes / PAGE_BYTES as u64);
        let page = (u128::from(random.next_u64()) * pages) >> 64;
        page as u64 * PAGE_BYTES as u64
    }
}

fn make_direct(file: &File) -> Result<(), String> {
    let flags = rustix::fs::fcntl_getfl(file).map_err(|errno| errno.to_string())?;
    let flags = (flags | OFlags::DIRECT) - OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(file, flags).map_err(|errno| errno.to_string())?;
    // Some file systems accept the flag and refuse the read, as an empty file tells too.
    let mut page = Page::touched(1);
    file.read_at(&mut page[0].0, 0).map(drop).map_err(|error| error.to_string())
}

/// Method of issuing reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Issued {
    /// From one thread, through a ring.
    IoUring,
    /// By blocking reads of one thread for each read in flight, where io_uring is refused.
    Threads,
}

/// Figures of random 4 KiB reads at one queue depth.
#[derive(Clone, Debug, Serialize)]
pub struct Reads {
    /// Reads in flight at any time.
    pub queue_depth: u32,
    /// How they were issued.
    pub issued: Issued,
    /// Reads a second.
    pub iops: f64,
    /// Mean time from submission to completion, in microseconds.
    pub mean_us: f64,
    /// Median of that time, in microseconds.
    pub p50_us: f64,
    /// 99th percentile of that time, in microseconds.
    pub p99_us: f64,
    /// Processor time of this process per read, in microseconds, the kernel's part included.
    pub cpu_us_per_read: f64,
}

/// Keeps `queue_depth` random 4 KiB reads in flight for `duration` and measures them. The first
/// fifth is warm-up and not counted. Where io_uring is refused, threads issue blocking reads.
///
/// # Errors
/// [`ProbeError::Read`] if a read fails.
///
/// # Panics
/// If `queue_depth` is zero.
pub fn random_reads(
    target: &Target,
    queue_depth: u32,
    duration: Duration,
) -> Result<Reads, ProbeError> {
    assert!(queue_depth > 0, "a queue holds at least one read");
    let measured = match PageReads::new(&target.file, queue_depth) {
        Ok(ring) => through_ring(target, ring, queue_depth, duration),
        Err(_) => by_threads(target, queue_depth, duration),
    };
    measured.map_err(|source| ProbeError::Read { queue_depth, source })
}

/// Counts and times the reads of a measurement once its warm-up is over.
struct Meter {
    latencies_ns: Histogram<u64>,
    counting_since: Option<(Instant, Duration)>,
    warm_at: Instant,
    end: Instant,
}

impl Meter {
    fn start(duration: Duration) -> io::Result<Meter> {
        let now = Instant::now();
        let latencies_ns =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).map_err(io::Error::other)?;
        let warm_at = now + duration.mul_f64(WARM_UP_SHARE);
        Ok(Meter { latencies_ns, counting_since: None, warm_at, end: now + duration })
    }

    /// Counts the reads of `latencies`. Returns whether it is time to stop.
    fn count(&mut self, now: Instant, latencies: impl Iterator<Item = Duration>) -> bool {
        if self.counting_since.is_some() {
            for latency in latencies {
                self.latencies_ns.saturating_record(latency.as_nanos().max(1) as u64);
            }
        } else if now >= self.warm_at {
            self.counting_since = Some((now, cpu_time()));
        }
        now >= self.end && (self.counting_since.is_some() && !self.latencies_ns.is_empty())
    }

    fn finish(self, queue_depth: u32, issued: Issued) -> Reads {
        let (since, cpu_then) = self.counting_since.unwrap_or((self.warm_at, cpu_time()));
        let reads = self.latencies_ns.len().max(1) as f64;
        let cpu = cpu_time().saturating_sub(cpu_then);
        let quantile_us = |q| self.latencies_ns.value_at_quantile(q) as f64 / 1e3;
        Reads {
            queue_depth,
            issued,
            iops: reads / since.elapsed().as_secs_f64().max(1e-9),
            mean_us: self.latencies_ns.mean() / 1e3,
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
            cpu_us_per_read: cpu.as_secs_f64() * 1e6 / reads,
        }
    }
}

/// Processor time of this process so far, all threads and the kernel's work for them included.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec.clamp(0, 999_999_999) as u32)
}

fn through_ring(
    target: &Target,
    mut ring: PageReads<'_>,
    queue_depth: u32,
    duration: Duration,
) -> io::Result<Reads> {
    let mut random = Pcg64::seed_from_u64(u64::from(queue_depth));
    let mut meter = Meter::start(duration)?;
    let mut started = vec![Instant::now(); queue_depth as usize];
    let mut free: Vec<usize> = (0..queue_depth as usize).collect();
    let batch = batch(queue_depth) as usize;
    loop {
        let now = Instant::now();
        for slot in free.drain(..) {
            ring.read(slot, target.random_offset(&mut random))?;
            started[slot] = now;
        }
        ring.wait(batch)?;
        ring.finished(|slot| free.push(slot))?;
        let now = Instant::now();
        let latencies = free.iter().map(|&slot| now.saturating_duration_since(started[slot]));
        if meter.count(now, latencies) {
            return Ok(meter.finish(queue_depth, Issued::IoUring));
        }
    }
}

/// Submissions whose reads stay in flight while another one is built.
const BATCHES_IN_FLIGHT: u32 = 8;

/// Returns how many reads are submitted together at `queue_depth`. A submission costs more than a
/// read, so at depth a few reads go into one.
pub(super) fn batch(queue_depth: u32) -> u32 {
    (queue_depth / BATCHES_IN_FLIGHT).max(1)
}

fn by_threads(target: &Target, queue_depth: u32, duration: Duration) -> io::Result<Reads> {
    let mut total = Meter::start(duration)?;
    thread::scope(|scope| {
        let readers: Vec<_> = (0..queue_depth)
            .map(|seed| {
                let body = move || read_blocking(target, seed, duration);
                thread::Builder::new().spawn_scoped(scope, body)
            })
            .collect::<Result<_, _>>()?;
        thread::sleep(total.warm_at.saturating_duration_since(Instant::now()));
        total.counting_since = Some((Instant::now(), cpu_time()));
        for reader in readers {
            let meter = reader.join().map_err(|_| io::Error::other("a reader panicked"))??;
            total.latencies_ns.add(&meter.latencies_ns).map_err(io::Error::other)?;
        }
        Ok(total.finish(queue_depth, Issued::Threads))
    })
}

fn read_blocking(target: &Target, seed: u32, duration: Duration) -> io::Result<Meter> {
    let mut random = Pcg64::seed_from_u64(u64::from(seed));
    let mut meter = Meter::start(duration)?;
    let mut page = Page::touched(1);
    loop {
        let started = Instant::now();
        target.file.read_exact_at(&mut page[0].0, target.random_offset(&mut random))?;
        let now = Instant::now();
        if meter.count(now, [now - started].into_iter()) {
            return Ok(meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Stop;

    use super::*;

    const BRIEFLY: Duration = Duration::from_millis(20);

    fn small_target() -> Target {
        let folder = tempfile::tempdir().expect("a folder");
        Target::temporary(folder.path(), 1 << 20, Watch::unattended()).expect("a file")
    }

    fn check(reads: &Reads, queue_depth: u32) {
        assert_eq!(reads.queue_depth, queue_depth);
        assert!(reads.iops > 0.0 && reads.mean_us > 0.0 && reads.cpu_us_per_read >= 0.0);
        assert!(reads.p50_us <= reads.p99_us, "{reads:?}");
    }

    #[test]
    fn reads_are_measured_at_every_depth() {
        let target = small_target();
        assert_eq!(target.bytes(), 1 << 20);
        for queue_depth in [1, 3, 32] {
            check(&random_reads(&target, queue_depth, BRIEFLY).expect("reads"), queue_depth);
        }
    }

    #[test]
    fn threads_serve_where_io_uring_is_refused() {
        let reads = by_threads(&small_target(), 4, BRIEFLY).expect("reads");
        check(&reads, 4);
        assert_eq!(reads.issued, Issued::Threads);
    }

    #[test]
    fn a_test_file_leaves_nothing_in_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = Target::temporary(folder.path(), 8192, Watch::unattended());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert_eq!(target.expect("a file").bytes(), 8192);
    }

    #[test]
    fn writing_the_test_file_can_be_broken_off() {
        let folder = tempfile::tempdir().expect("a folder");
        let stop = Stop::new();
        stop.stop();
        let watch = Watch::new(&|_, _| (), &stop);
        let error = Target::temporary(folder.path(), 8192, watch).unwrap_err();
        assert!(matches!(error, ProbeError::Stopped(_)));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("short");
        let missing = Target::open(&path).unwrap_err();
        assert!(missing.to_string().contains("short"), "{missing}");
        std::fs::write(&path, b"tiny").expect("a file");
        let error = Target::open(&path).unwrap_err();
        assert!(matches!(error, ProbeError::TooSmall { bytes: 4, .. }), "{error}");
        assert!(Target::open(folder.path()).is_err(), "a folder is nothing to read from");
    }
}
