//! [`FileDisk`]: a store's file, as recovery and the log writer use it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::{Block, Disk, DiskError, Fault, Page};

use crate::device::LogWrites;
use crate::store::{Buffer, StoreError, buffer};

/// The most blocks in one write.
const BLOCKS_MAX: usize = 64;

/// Threads that read at once.
const READERS: usize = 32;

/// The most neighbours that one of these threads reads at once.
const NEIGHBOURS_MAX: usize = 16;

/// Errors of a read that mean lost blocks: the device could not read them, or they do not match its
/// own checksums.
const OF_BLOCK: [i32; 4] = [libc::EIO, libc::ENODATA, libc::EILSEQ, libc::EBADMSG];

/// How blocks are read.
trait Reads: Send + Sync {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Reads for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, offset)
    }
}

/// The blocks of a persist part in a file.
pub(crate) struct FileDisk {
    reads: Arc<dyn Reads>,
    /// The file itself, or a direct way to the drive past the kernel's block layer.
    writes: Box<dyn LogWrites>,
    offset: u64,
    buffer: Buffer,
    /// Bytes read ahead, because single reads follow each other in the log and the map.
    ahead: Buffer,
    /// The first block read ahead, and how many.
    ahead_blocks: (u64, u64),
    /// One a reading thread.
    reading: Vec<Buffer>,
}

impl FileDisk {
    /// The part that begins `offset` bytes into `file`.
    pub(crate) fn new(file: Arc<File>, offset: u64, path: &Path) -> Result<FileDisk, StoreError> {
        let reading = (0..READERS).map(|_| buffer(NEIGHBOURS_MAX * PAGE_BYTES, path));
        let reading = reading.collect::<Result<_, _>>()?;
        let (many, ahead_blocks) = (BLOCKS_MAX * PAGE_BYTES, (0, 0));
        let (buffer, ahead) = (buffer(many, path)?, buffer(many, path)?);
        let writes = Box::new(file.clone());
        Ok(FileDisk { reads: file, writes, offset, buffer, ahead, ahead_blocks, reading })
    }

    /// Uses another writer for the same disk, if there is one.
    pub(crate) fn written_by(self, writes: Option<Box<dyn LogWrites>>) -> FileDisk {
        FileDisk { writes: writes.unwrap_or(self.writes), ..self }
    }

    fn place(&self, block: Block) -> u64 {
        self.offset + block.0 * PAGE_BYTES as u64
    }

    /// Writes blocks, neighbours together.
    fn write_all(
        &mut self,
        mut blocks: &[(Block, Box<Page>)],
        through: bool,
    ) -> Result<(), DiskError> {
        self.ahead_blocks = (0, 0);
        while let Some((first, _)) = blocks.first() {
            let follows = |(index, (block, _)): &(usize, &(Block, Box<Page>))| {
                block.0 == first.0 + *index as u64
            };
            let count = blocks.iter().take(BLOCKS_MAX).enumerate().take_while(follows).count();
            let bytes = &mut self.buffer.as_mut_slice()[..count * PAGE_BYTES];
            for ((_, page), into) in blocks.iter().zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
                into.copy_from_slice(&page[..]);
            }
            let place = self.place(*first);
            let bytes = &self.buffer.as_slice()[..count * PAGE_BYTES];
            let written = self.writes.write(place, bytes, through);
            written.map_err(|error| failed("write", *first, &error))?;
            blocks = &blocks[count..];
        }
        Ok(())
    }
}

/// The cause of a failed write.
fn fault_of(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => Fault::Room,
        _ => Fault::Device,
    }
}

fn failed(doing: &str, block: Block, error: &io::Error) -> DiskError {
    let doing = format!("{doing} block {} of the persist part", block.0);
    DiskError { doing, reason: error.to_string(), fault: fault_of(error) }
}

/// Reads `buffer` from `at` on, up to the end of the file. Returns the number of whole blocks.
fn read(reads: &dyn Reads, at: u64, block: Block, buffer: &mut [u8]) -> Result<usize, DiskError> {
    match reads.read_at(buffer, at) {
        Ok(bytes) if bytes >= PAGE_BYTES => Ok(bytes / PAGE_BYTES),
        Ok(_) => Err(failed("read", block, &io::ErrorKind::UnexpectedEof.into())),
        Err(error) => {
            let of_block = error.raw_os_error().is_some_and(|code| OF_BLOCK.contains(&code));
            let fault = if of_block { Fault::Block } else { Fault::Device };
            Err(DiskError { fault, ..failed("read", block, &error) })
        }
    }
}

/// Reads blocks that follow each other.
fn read_run(
    reads: &dyn Reads,
    offset: u64,
    run: &[Block],
    into: &mut [Page],
    buffer: &mut Buffer,
) -> Result<(), DiskError> {
    let mut done = 0;
    while let Some(&block) = run.get(done) {
        let bytes = &mut buffer.as_mut_slice()[..(run.len() - done) * PAGE_BYTES];
        let count = read(reads, offset + block.0 * PAGE_BYTES as u64, block, bytes)?;
        let pages = bytes.chunks_exact(PAGE_BYTES).take(count);
        into[done..].iter_mut().zip(pages).for_each(|(page, bytes)| page.copy_from_slice(bytes));
        done += count;
    }
    Ok(())
}

impl Disk for FileDisk {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        let (first, count) = self.ahead_blocks;
        if !(first..first + count).contains(&block.0) {
            self.ahead_blocks = (0, 0);
            let (reads, at) = (self.reads.clone(), self.place(block));
            let ahead = self.ahead.as_mut_slice();
            // A block that cannot be read must not keep those before it away.
            let count = read(&*reads, at, block, ahead)
                .or_else(|_| read(&*reads, at, block, &mut ahead[..PAGE_BYTES]))?;
            self.ahead_blocks = (block.0, count as u64);
        }
        let from = (block.0 - self.ahead_blocks.0) as usize * PAGE_BYTES;
        into.copy_from_slice(&self.ahead.as_slice()[from..from + PAGE_BYTES]);
        Ok(())
    }

    /// Reads neighbours together, and on many threads, since each waits for the device.
    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        let (reads, offset) = (&*self.reads, self.offset);
        let mut left = into;
        let follows = |one: &Block, next: &Block| one.0 + 1 == next.0;
        let runs = blocks.chunk_by(follows).flat_map(|run| run.chunks(NEIGHBOURS_MAX));
        let mut runs: Vec<(&[Block], &mut [Page])> = runs
            .map(|run| (run, left.split_off_mut(..run.len()).expect("a page for each block")))
            .collect();
        let share = runs.len().div_ceil(READERS).max(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = runs
                .chunks_mut(share)
                .zip(&mut self.reading)
                .map(|(runs, buffer)| {
                    scope.spawn(move || {
                        let mut runs = runs.iter_mut();
                        runs.try_for_each(|(run, into)| read_run(reads, offset, run, into, buffer))
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| {
                reader.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            })
        })
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.write_all(&[(block, Box::new(*page))], false)
    }

    fn write_blocks(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        self.write_all(blocks, false)
    }

    fn write_to_flush(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        self.write_all(blocks, true)
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.writes.flush().map_err(|error| DiskError {
            doing: "flush".into(),
            reason: error.to_string(),
            fault: Fault::Device,
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A file of blocks that hold their number. Some of them cannot be read.
    struct Bad(Vec<u64>, i32);

    impl Reads for Bad {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let first = offset / PAGE_BYTES as u64;
            for (block, page) in (first..).zip(into.chunks_exact_mut(PAGE_BYTES)) {
                if self.0.contains(&block) {
                    return Err(io::Error::from_raw_os_error(self.1));
                }
                page.fill(block as u8);
            }
            Ok(into.len())
        }
    }

    /// Blocks that hold their number. Notes the blocks of each read, and reads few at once.
    struct Noting(Mutex<Vec<(u64, usize)>>);

    impl Reads for Noting {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let first = offset / PAGE_BYTES as u64;
            self.0.lock().unwrap().push((first, into.len() / PAGE_BYTES));
            for (block, page) in (first..).zip(into.chunks_exact_mut(PAGE_BYTES)) {
                page.fill(block as u8);
            }
            Ok(into.len().min(10 * PAGE_BYTES))
        }
    }

    #[test]
    fn neighbours_are_read_together() {
        let noting = Arc::new(Noting(Mutex::default()));
        let mut disk = FileDisk { reads: noting.clone(), ..disk() };
        let blocks: Vec<Block> = (3..6).chain([9]).chain(20..40).map(Block).collect();
        let mut pages = vec![[0; PAGE_BYTES]; blocks.len()];
        disk.read_blocks(&blocks, &mut pages).unwrap();
        for (block, page) in blocks.iter().zip(&pages) {
            assert_eq!(*page, [block.0 as u8; PAGE_BYTES]);
        }
        let mut reads = std::mem::take(&mut *noting.0.lock().unwrap());
        reads.sort_unstable();
        assert_eq!(reads, [(3, 3), (9, 1), (20, 16), (30, 6), (36, 4)], "and go on after a part");
    }

    /// Counts writes and flushes, and can refuse the latter.
    #[derive(Default)]
    struct Counted {
        writes: AtomicUsize,
        flushes: AtomicUsize,
        refuses: bool,
    }

    impl LogWrites for Arc<Counted> {
        fn write(&mut self, _: u64, _: &[u8], _: bool) -> io::Result<()> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.flushes.fetch_add(1, Ordering::Relaxed);
            if self.refuses { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }
    }

    fn disk() -> FileDisk {
        let file = Arc::new(tempfile::tempfile_in(".").unwrap());
        FileDisk::new(file, 0, Path::new("store")).unwrap()
    }

    #[test]
    fn a_block_that_cannot_be_read_is_alone_and_told_from_a_device_that_is_gone() {
        for (code, fault) in [
            (libc::EIO, Fault::Block),
            (libc::ENODATA, Fault::Block),
            (libc::EILSEQ, Fault::Block),
            (libc::EBADMSG, Fault::Block),
            (libc::ENODEV, Fault::Device),
            (libc::ENXIO, Fault::Device),
        ] {
            let mut disk = FileDisk { reads: Arc::new(Bad(vec![5, 9], code)), ..disk() };
            let mut page = [0; PAGE_BYTES];
            for block in [0, 4, 5, 6, 9, 10] {
                match disk.read_block(Block(block), &mut page) {
                    Ok(()) => assert_eq!(page, [block as u8; PAGE_BYTES]),
                    Err(error) => {
                        assert!(matches!(block, 5 | 9), "block {block}");
                        assert_eq!(error.fault, fault, "{error}");
                    }
                }
            }
            let mut pages = [page; 2];
            let together = disk.read_blocks(&[Block(4), Block(5)], &mut pages);
            assert_eq!(together.unwrap_err().fault, fault);
            disk.read_blocks(&[Block(4), Block(6)], &mut pages).unwrap();
        }
    }

    #[test]
    fn a_flush_reaches_the_device_and_its_refusal_is_an_error() {
        for refuses in [false, true] {
            let counted = Arc::new(Counted { refuses, ..Counted::default() });
            let mut disk = disk().written_by(Some(Box::new(counted.clone())));
            disk.write_block(Block(3), &[1; PAGE_BYTES]).unwrap();
            assert_eq!(counted.flushes.load(Ordering::Relaxed), 0);
            assert_eq!(disk.flush().is_err(), refuses);
            let made = [&counted.writes, &counted.flushes].map(|of| of.load(Ordering::Relaxed));
            assert_eq!(made, [1, 1]);
        }
    }
}
