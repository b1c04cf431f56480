//! Every device does the same: one workload leaves the same contents on each of them. Where
//! io_uring is refused, threads replace it with a notice.

mod common;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use common::file::page_file;
use common::jobs::{job, run_alone, run_jobs, word};
use common::recorder::Recorder;
use common::{Plan, WORDS_PER_PAGE, image, initial, run, small_cache};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::device::aio::Aio;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::threads::Threads;
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::device::{Completion, Device, FrameMemory, Queue, Request, Sleeper};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, Options};

const PAGES: u64 = 256;

fn plan(cores: u64) -> Plan {
    Plan {
        pages: PAGES,
        cores,
        lanes_per_core: 32 / cores,
        jobs_per_lane: 20,
        steps_per_job: 40,
        write_share: 0.4,
        seed: 3,
    }
}

/// All words, as the engine returns them.
fn contents(engine: &Engine) -> Vec<u64> {
    let words = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let into = words.clone();
    let cores = engine.options().cores;
    let jobs = move |core| {
        let into = into.clone();
        let all = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            let load = |index| memory.load::<u64>(Addr(index * 8));
            let words: Vec<u64> = (0..PAGES * WORDS_PER_PAGE).map(load).collect();
            *into.lock() = words;
        };
        if core + 1 == cores { vec![job(all)] } else { vec![] }
    };
    run_jobs(engine, jobs).iter().for_each(|ended| drop(ended.order()));
    std::mem::take(&mut *words.lock())
}

#[test]
fn one_workload_leaves_the_same_contents_over_every_device() {
    for cores in [1, 2] {
        let devices: [fn(_) -> Arc<dyn Device>; 4] = [
            |file| Arc::new(Uring::new(file).unwrap()),
            |file| Arc::new(Aio::new(file).unwrap()),
            |file| Arc::new(Threads::new(file, 4)),
            |file| Arc::new(Threads::blocking(file)),
        ];
        let after = devices.map(|device| {
            let file = page_file(PAGES, image);
            let options = small_cache(48, cores as usize, 16, PAGES);
            let (engine, failed) = run(device(file), &plan(cores), &options);
            let counted = engine.counters().snapshot();
            assert_eq!((failed, counted.retries), (0, 0), "{}", engine.device_name());
            assert!(counted.evictions_dirty > 0);
            contents(&engine)
        });
        assert!(after[0] != (0..PAGES * WORDS_PER_PAGE).map(initial).collect::<Vec<_>>());
        for (after_other, name) in after[1..].iter().zip(["Linux AIO", "threads", "blocking reads"])
        {
            assert!(after[0] == *after_other, "{name} differ from io_uring");
        }
    }
}

#[test]
fn what_was_evicted_is_in_the_file_whole_and_in_one_place() {
    let file = page_file(PAGES, image);
    let device = Arc::new(Uring::new(file.clone()).unwrap());
    let options = small_cache(16, 1, 8, PAGES);
    let engine = Engine::over_device(device, PAGES, &options).unwrap();
    let store = |page| job(move |memory| memory.store::<u64>(word(page), !page));
    run_alone(&engine, || (0..PAGES).map(store).collect()).order();
    let counted = engine.counters().snapshot();
    drop(engine);
    // A page may be written back to any place; its second word says which page it is.
    let second_word = |page: u64| initial(page * WORDS_PER_PAGE + 1);
    let page_of: HashMap<u64, u64> = (0..PAGES).map(|page| (second_word(page), page)).collect();
    let mut places_written = vec![0; PAGES as usize];
    let mut buffer = vec![0u8; 2 * PAGE_BYTES];
    let aligned = buffer.as_ptr().align_offset(PAGE_BYTES);
    for place in 0..PAGES {
        let bytes = &mut buffer[aligned..aligned + PAGE_BYTES];
        file.read_exact_at(bytes, place * PAGE_BYTES as u64).unwrap();
        let word = |index: usize| u64::from_le_bytes(bytes[index * 8..][..8].try_into().unwrap());
        let page = page_of[&word(1)];
        let mut expected = [0; PAGE_BYTES];
        image(page as usize, &mut expected);
        assert!(word(0) == !page || word(0) == initial(page * WORDS_PER_PAGE), "page {page}");
        assert!(bytes[8..] == expected[8..], "page {page}");
        places_written[page as usize] += u64::from(word(0) == !page);
    }
    assert!(places_written.iter().all(|&places| places <= 1));
    let written: u64 = places_written.iter().sum();
    assert_eq!(written, counted.flash_writes);
    assert!(written >= PAGES - 16);
}

#[test]
fn no_request_has_more_pages_than_the_device_takes() {
    for (most, expected) in [(3, 3), (1, 1)] {
        let ram = Ram::new(2 * PAGES as usize, Latency::Looks(1), |_, _| {});
        let device = Recorder::new(ram, 2 * PAGES).taking_runs_of(most);
        let log = device.log();
        let options = small_cache(48, 1, 8, PAGES);
        let engine = Engine::over_roomy_device(Arc::new(device), PAGES, PAGES, &options).unwrap();
        let store = |page| job(move |memory| memory.store::<u64>(word(page), !page));
        run_alone(&engine, || (0..PAGES).map(store).collect()).order();
        assert_eq!(log.longest(), expected);
    }
}

/// Refuses system calls to this thread and all it starts, as container runtimes do.
fn refuse(calls: &[libc::c_long]) {
    let statement = |code, jump_true, jump_false, operand| libc::sock_filter {
        code,
        jt: jump_true,
        jf: jump_false,
        k: operand,
    };
    const LOAD_WORD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    // The system call's number is the first word of what a filter sees.
    let mut filter = vec![statement(LOAD_WORD, 0, 0, 0)];
    for call in calls {
        filter.push(statement(JUMP_IF_EQUAL, 0, 1, *call as u32));
        filter.push(statement(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    filter.push(statement(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: gives up privileges of this thread; the other arguments must be zero.
    let given_up = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(given_up, 0);
    // SAFETY: the program and the filter it points to outlive the call.
    let filtered =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(filtered, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn where_io_uring_is_refused_linux_aio_or_threads_step_in_and_say_so() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let (pages, spare_pages, tag) = (PAGES, PAGES / 2, "words".into());
    let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| image(page.index(), out);
    let store = Store::create(&new, &image, Watch::unattended()).unwrap();
    drop(store);
    let open = || {
        let store = Store::open(&new.path, 0, Access::Exclusive).unwrap();
        let mut options: Options = small_cache(32, 2, 8, PAGES);
        options.tuning.batch_max = 4;
        Engine::open(&Arc::new(store), &options).unwrap()
    };
    let check = |engine: &Engine| {
        let load = |page: u64| {
            job(move |memory| {
                assert_eq!(memory.load::<u64>(word(page)), initial(page * WORDS_PER_PAGE));
            })
        };
        let ended = run_jobs(engine, |_| (0..PAGES).map(load).collect());
        ended.iter().for_each(|core| drop(core.order()));
    };
    let refused = [
        ("Linux AIO", true, &[libc::SYS_io_uring_setup][..]),
        ("threads", false, &[libc::SYS_io_uring_setup, libc::SYS_io_setup]),
    ];
    for (name, has_network, calls) in refused {
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| {
                refuse(calls);
                let engine = open();
                assert_eq!((engine.device_name(), engine.has_network()), (name, has_network));
                let notices: Vec<_> =
                    engine.notices().iter().filter(|notice| notice.contains("io_uring")).collect();
                assert_eq!(notices.len(), 1, "{notices:?}");
                assert!(notices[0].contains(name) && notices[0].contains("doctor"), "{notices:?}");
                check(&engine);
            });
            refused.join().unwrap();
        });
    }
    // The refusal was those threads' alone.
    let engine = open();
    if Uring::new(page_file(1, |_, _| {})).is_ok() {
        assert_eq!(engine.device_name(), "io_uring");
        assert!(engine.notices().iter().all(|notice| !notice.contains("io_uring")));
    }
    check(&engine);
}

/// A device whose queues must do without registered memory, as under a low limit on locked memory.
struct Unregistered(Uring);

struct UnregisteredQueue(Box<dyn Queue>);

impl Device for Unregistered {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(UnregisteredQueue(self.0.queue(depth)?)))
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }
}

impl Queue for UnregisteredQueue {
    fn register(&mut self, _memory: FrameMemory) -> io::Result<()> {
        Err(io::ErrorKind::OutOfMemory.into())
    }

    fn push(&mut self, request: Request) {
        self.0.push(request);
    }

    fn submit(&mut self) {
        self.0.submit();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.0.reap(completions);
    }

    fn has_held_back(&mut self) -> bool {
        self.0.has_held_back()
    }

    fn unsubmitted(&self) -> usize {
        self.0.unsubmitted()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.0.sleeper()
    }
}

#[test]
fn an_engine_whose_frames_may_not_be_registered_works_and_says_what_that_costs() {
    let device = Unregistered(Uring::new(page_file(PAGES, image)).unwrap());
    let options = small_cache(40, 1, 4, PAGES);
    let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
    assert!(engine.notices().iter().any(|notice| notice.contains("ulimit -l")));
    assert_eq!(contents(&engine), (0..PAGES * WORDS_PER_PAGE).map(initial).collect::<Vec<_>>());
}
