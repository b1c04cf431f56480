//! [`StepRecorder`]: the engine's writes and flushes on a store's file, step by step.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::{Block, Disk, DiskError, Lsn, Page};
use ebbtide_engine::device::threads::Threads;
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::device::{Completion, Device, Direction, FrameMemory, Queue, Request, Sleeper};
use ebbtide_engine::store::{Access, Store};
use ebbtide_engine::{Engine, LogDisk, Options};
use ebbtide_testbed::power_loss::DiskModel;
use parking_lot::Mutex;

/// One step, as a disk sees it.
#[derive(Clone, Debug)]
pub enum Step {
    /// A write began. Its contents are known at its end at the latest.
    Submitted {
        write: usize,
        block: Block,
        page: Arc<OnceLock<Box<Page>>>,
    },
    /// It has ended well.
    Completed {
        write: usize,
    },
    FlushBegan,
    FlushEnded,
    /// A program was told that its transaction is durable.
    Acknowledged(Lsn),
}

/// Records all steps of one engine in one order, for every way of writing.
#[derive(Clone)]
pub struct StepRecorder {
    steps: Arc<Mutex<Vec<Step>>>,
    file: Arc<File>,
    /// Where the persist part begins in the file.
    offset: u64,
}

impl StepRecorder {
    pub fn new(path: &Path, offset: u64) -> StepRecorder {
        let file = Arc::new(File::open(path).unwrap());
        StepRecorder { steps: Arc::default(), file, offset }
    }

    pub fn note(&self, step: Step) {
        self.steps.lock().push(step);
    }

    pub fn take(&self) -> Vec<Step> {
        std::mem::take(&mut *self.steps.lock())
    }

    /// Notes that a write begins. Returns its number and the place for its contents.
    fn submitted(&self, block: Block) -> (usize, Arc<OnceLock<Box<Page>>>) {
        let page: Arc<OnceLock<_>> = Arc::default();
        let mut steps = self.steps.lock();
        let write = steps.len();
        steps.push(Step::Submitted { write, block, page: page.clone() });
        (write, page)
    }

    /// Opens an engine over `store` that records all its writes and flushes.
    pub fn engine(&self, store: &Arc<Store>, options: &Options) -> Arc<Engine> {
        fn around<D: Device + 'static>(recorder: &StepRecorder, inner: D) -> Arc<dyn Device> {
            Arc::new(RecordedDevice { inner, recorder: recorder.clone() })
        }
        let file = store.file();
        let device = match Uring::new(file.clone()) {
            Ok(uring) => around(self, uring),
            Err(_) => around(self, Threads::new(file, 2)),
        };
        let around =
            |inner| -> LogDisk { Box::new(RecordedDisk { inner, recorder: self.clone() }) };
        let engine = Arc::new(Engine::over_disks(store, device, &around, options).unwrap());
        super::watch(&engine);
        engine
    }
}

/// Replays `steps` on a disk that holds `before`. After each step, calls `visit` with the disk and
/// the acknowledged transactions.
pub fn replay<E>(
    before: &[(Block, Box<Page>)],
    steps: &[Step],
    mut acknowledged: Lsn,
    mut visit: impl FnMut(usize, &DiskModel, Lsn) -> Result<(), E>,
) -> Result<(), E> {
    let mut disk = DiskModel::holding(before.iter().cloned());
    let mut numbers = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        match step {
            Step::Submitted { write, block, page } => {
                let page = page.get().expect("it was written in the end");
                numbers.insert(write, disk.submit(*block, page));
            }
            Step::Completed { write } => disk.complete(numbers[write]),
            Step::FlushBegan => disk.begin_flush(),
            Step::FlushEnded => disk.end_flush(),
            Step::Acknowledged(lsn) => acknowledged = acknowledged.max(*lsn),
        }
        visit(index, &disk, acknowledged)?;
    }
    Ok(())
}

/// All blocks of the persist part of a store.
pub fn blocks_of(store: &Store) -> Vec<(Block, Box<Page>)> {
    let file = File::open(store.path()).unwrap();
    let bytes = file.metadata().unwrap().len() - store.persist_offset();
    (0..bytes / PAGE_BYTES as u64)
        .map(|block| {
            let mut page = Box::new([0; PAGE_BYTES]);
            let at = store.persist_offset() + block * PAGE_BYTES as u64;
            file.read_exact_at(&mut page[..], at).unwrap();
            (Block(block), page)
        })
        .collect()
}

/// Makes a file like the one at `from`, with the contents of `disk`.
pub fn materialise(disk: &DiskModel, from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    let offset = Store::open(to, 0, Access::Exclusive).unwrap().persist_offset();
    let file = File::options().write(true).open(to).unwrap();
    for block in disk.blocks() {
        let at = offset + block.0 * PAGE_BYTES as u64;
        file.write_all_at(disk.contents(block), at).unwrap();
    }
}

struct RecordedDisk {
    inner: LogDisk,
    recorder: StepRecorder,
}

impl Disk for RecordedDisk {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        self.inner.read_block(block, into)
    }

    fn read_blocks(&mut self, blocks: &[Block], into: &mut [Page]) -> Result<(), DiskError> {
        self.inner.read_blocks(blocks, into)
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        self.write_blocks(&[(block, Box::new(*page))])
    }

    fn write_blocks(&mut self, blocks: &[(Block, Box<Page>)]) -> Result<(), DiskError> {
        let submitted = blocks.iter().map(|(block, page)| {
            let (write, contents) = self.recorder.submitted(*block);
            contents.set(page.clone()).unwrap();
            write
        });
        let submitted: Vec<usize> = submitted.collect();
        self.inner.write_blocks(blocks)?;
        let completed = submitted.into_iter().map(|write| Step::Completed { write });
        completed.for_each(|step| self.recorder.note(step));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.recorder.note(Step::FlushBegan);
        self.inner.flush()?;
        self.recorder.note(Step::FlushEnded);
        Ok(())
    }
}

pub struct RecordedDevice<D> {
    inner: D,
    recorder: StepRecorder,
}

impl<D: Device> Device for RecordedDevice<D> {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        let (inner, recorder) = (self.inner.queue(depth)?, self.recorder.clone());
        Ok(Box::new(RecordedQueue { inner, recorder, writing: HashMap::new() }))
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

/// A write under way: its number, its block, and where its contents go.
type Writing = (usize, Block, Arc<OnceLock<Box<Page>>>);

struct RecordedQueue {
    inner: Box<dyn Queue>,
    recorder: StepRecorder,
    /// The writes of each request, by its token.
    writing: HashMap<u64, Vec<Writing>>,
}

impl RecordedQueue {
    /// Reads the request's contents back from the file. Nothing else is written there before the
    /// engine knows that the request has ended.
    fn completed(&mut self, completion: &Completion) {
        let Some(writes) = self.writing.remove(&completion.token) else { return };
        assert_eq!(*completion.result.as_ref().unwrap(), writes.len() * PAGE_BYTES);
        for (write, block, contents) in writes {
            let mut page = Box::new([0; PAGE_BYTES]);
            let at = self.recorder.offset + block.0 * PAGE_BYTES as u64;
            self.recorder.file.read_exact_at(&mut page[..], at).unwrap();
            contents.set(page).unwrap();
            self.recorder.note(Step::Completed { write });
        }
    }
}

impl Queue for RecordedQueue {
    fn register(&mut self, memory: FrameMemory) -> io::Result<()> {
        self.inner.register(memory)
    }

    fn push(&mut self, request: Request) {
        if request.direction() == Direction::Write {
            let first = (request.offset() - self.recorder.offset) / PAGE_BYTES as u64;
            let blocks = (first..).map(Block).take(request.pages().len());
            let writes = blocks.map(|block| {
                let (write, contents) = self.recorder.submitted(block);
                (write, block, contents)
            });
            self.writing.insert(request.token(), writes.collect());
        }
        self.inner.push(request);
    }

    fn submit(&mut self) {
        self.inner.submit();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let known = completions.len();
        self.inner.reap(completions);
        completions[known..].iter().for_each(|completion| self.completed(completion));
    }

    fn has_held_back(&mut self) -> bool {
        self.inner.has_held_back()
    }

    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.inner.sleeper()
    }
}
