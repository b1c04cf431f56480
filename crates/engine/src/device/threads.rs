//! The device over plain `pread` and `pwrite` on a few kernel threads, for systems that refuse both
//! io_uring and Linux AIO. Also the blocking device, whose reads run on the caller.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::{Completion, Device, Direction, Queue, Request, Sleeper};

/// A file or block device driven by kernel threads, some a queue.
pub struct Threads {
    file: Arc<File>,
    threads_per_queue: usize,
    reads: Reads,
}

/// Which thread executes reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    OnThreads,
    /// The thread that submits, which so blocks for each.
    OnCaller,
}

impl Threads {
    /// Reads and writes on `threads_per_queue` threads behind every queue.
    pub fn new(file: Arc<File>, threads_per_queue: usize) -> Threads {
        assert!(threads_per_queue > 0, "a queue needs a thread");
        Threads { file, threads_per_queue, reads: Reads::OnThreads }
    }

    /// Reads block the submitting thread; writes go to one thread behind it.
    pub fn blocking(file: Arc<File>) -> Threads {
        Threads { file, threads_per_queue: 1, reads: Reads::OnCaller }
    }
}

impl Device for Threads {
    fn queue(&self, _depth: usize) -> io::Result<Box<dyn Queue>> {
        let shared = Arc::new(Shared::default());
        let workers = (0..self.threads_per_queue)
            .map(|_| {
                let (shared, file) = (shared.clone(), self.file.clone());
                std::thread::Builder::new()
                    .name("ebbtide-io".into())
                    .stack_size(64 * 1024)
                    .spawn(move || shared.serve(&file))
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Box::new(ThreadsQueue {
            file: self.file.clone(),
            reads: self.reads,
            shared,
            workers,
            staged: Vec::new(),
            in_flight: 0,
        }))
    }

    fn name(&self) -> &'static str {
        match self.reads {
            Reads::OnThreads => "threads",
            Reads::OnCaller => "blocking reads",
        }
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    news: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    completions: Vec<Completion>,
    woken: bool,
    closing: bool,
}

impl Shared {
    fn serve(&self, file: &File) {
        let mut state = self.state.lock();
        loop {
            if let Some(request) = state.requests.pop_front() {
                drop(state);
                let completion = transfer(file, &request);
                state = self.state.lock();
                state.completions.push(completion);
                self.news.notify_one();
            } else if state.closing {
                return;
            } else {
                self.work.wait(&mut state);
            }
        }
    }
}

impl Sleeper for Shared {
    fn sleep(&self, at_most: Duration) {
        let mut state = self.state.lock();
        if state.completions.is_empty() && !state.woken {
            self.news.wait_for(&mut state, at_most);
        }
        state.woken = false;
    }

    fn wake(&self) {
        self.state.lock().woken = true;
        self.news.notify_one();
    }
}

fn transfer(file: &File, request: &Request) -> Completion {
    let (file, offset) = (file.as_raw_fd(), request.offset as libc::off_t);
    let iovecs = request.iovecs();
    let (start, count) = (iovecs.0.as_ptr(), iovecs.0.len() as libc::c_int);
    // SAFETY: the pages are valid and ours until the completion, as `Request::pages` demands, and
    // `iovecs` outlives the call.
    let moved = unsafe {
        match request.direction {
            Direction::Read => libc::preadv(file, start, count, offset),
            Direction::Write => libc::pwritev(file, start, count, offset),
        }
    };
    let result = if moved < 0 { Err(io::Error::last_os_error()) } else { Ok(moved as usize) };
    Completion { token: request.token, result }
}

struct ThreadsQueue {
    file: Arc<File>,
    reads: Reads,
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    staged: Vec<Request>,
    in_flight: usize,
}

impl Queue for ThreadsQueue {
    fn push(&mut self, request: Request) {
        self.staged.push(request);
    }

    fn submit(&mut self) {
        self.in_flight += self.staged.len();
        let (file, reads) = (&self.file, self.reads);
        let on_caller: Vec<Completion> = self
            .staged
            .extract_if(.., |request| {
                reads == Reads::OnCaller && request.direction == Direction::Read
            })
            .map(|request| transfer(file, &request))
            .collect();
        let mut state = self.shared.state.lock();
        state.completions.extend(on_caller);
        let count = self.staged.len();
        state.requests.extend(self.staged.drain(..));
        drop(state);
        for _ in 0..count.min(self.workers.len()) {
            self.shared.work.notify_one();
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        completions.append(&mut self.shared.state.lock().completions);
        self.in_flight -= completions.len() - before;
    }

    fn unsubmitted(&self) -> usize {
        self.staged.len()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.shared.clone()
    }
}

impl Drop for ThreadsQueue {
    fn drop(&mut self) {
        self.shared.state.lock().closing = true;
        self.shared.work.notify_all();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
    }
}
