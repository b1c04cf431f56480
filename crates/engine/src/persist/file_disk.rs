//! [`FileDisk`]: a store's file, as recovery and the log writer use it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::{Block, Disk, DiskError, Page};

use crate::device::LogWrites;
use crate::store::{Buffer, StoreError, buffer};

/// The most blocks in one write.
const BLOCKS_MAX: usize = 64;

/// Threads that read at once.
const READERS: usize = 32;

/// The blocks of a persist part in a file.
pub(crate) struct FileDisk {
    file: Arc<File>,
    /// The file itself, or a way past the kernel to the drive that it is.
    writes: Box<dyn LogWrites>,
    offset: u64,
    buffer: Buffer,
    /// What was read ahead of single reads, which follow each other in the log and the map.
    ahead: Buffer,
    /// The first block read ahead, and how many.
    ahead_blocks: (u64, u64),
    /// One a reading thread.
    reading: Vec<Buffer>,
}

impl FileDisk {
    /// The part that begins `offset` bytes into `file`.
    pub(crate) fn new(file: Arc<File>, offset: u64, path: &Path) -> Result<FileDisk, StoreError> {
        let reading = (0..READERS).map(|_| buffer(PAGE_BYTES, path)).collect::<Result<_, _>>()?;
        let (many, ahead_blocks) = (BLOCKS_MAX * PAGE_BYTES, (0, 0));
        let (buffer, ahead) = (buffer(many, path)?, buffer(many, path)?);
        let writes = Box::new(file.clone());
        Ok(FileDisk { file, writes, offset, buffer, ahead, ahead_blocks, reading })
    }

    /// The same, written by another way if there is one.
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

fn failed(doing: &str, block: Block, error: &io::Error) -> DiskError {
    let doing = format!("{doing} block {} of the persist part", block.0);
    DiskError { doing, reason: error.to_string() }
}

fn read(
    file: &File,
    at: u64,
    block: Block,
    buffer: &mut Buffer,
    into: &mut Page,
) -> Result<(), DiskError> {
    let bytes = &mut buffer.as_mut_slice()[..PAGE_BYTES];
    file.read_exact_at(bytes, at).map_err(|error| failed("read", block, &error))?;
    into.copy_from_slice(bytes);
    Ok(())
}

impl Disk for FileDisk {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        let (first, count) = self.ahead_blocks;
        if !(first..first + count).contains(&block.0) {
            let at = self.place(block);
            let read = self.file.read_at(self.ahead.as_mut_slice(), at);
            let bytes = read.map_err(|error| failed("read", block, &error))?;
            self.ahead_blocks = (block.0, (bytes / PAGE_BYTES) as u64);
        }
        let (first, count) = self.ahead_blocks;
        if count == 0 {
            return Err(failed("read", block, &io::ErrorKind::UnexpectedEof.into()));
        }
        let from = (block.0 - first) as usize * PAGE_BYTES;
        into.copy_from_slice(&self.ahead.as_slice()[from..from + PAGE_BYTES]);
        Ok(())
    }

    /// Reads on many threads, since each waits for the device.
    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        let share = blocks.len().div_ceil(READERS).max(1);
        let (file, offset) = (&self.file, self.offset);
        std::thread::scope(|scope| {
            let parts = blocks.chunks(share).zip(into.chunks_mut(share)).zip(&mut self.reading);
            let readers: Vec<_> = parts
                .map(|((blocks, into), buffer)| {
                    scope.spawn(move || {
                        blocks.iter().zip(into).try_for_each(|(&block, page)| {
                            let at = offset + block.0 * PAGE_BYTES as u64;
                            read(file, at, block, buffer, page)
                        })
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
        self.writes
            .flush()
            .map_err(|error| DiskError { doing: "flush".into(), reason: error.to_string() })
    }
}
