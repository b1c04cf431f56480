//! What happens beside and against the rules: signals, forks, system calls, errors and unwinding.
//!
//! A case that ends its process runs in a process of its own: the test starts its program again.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::mapped::{Heap, MappedStore, Shares, no_switch};
use ebbtide_engine::{Engine, Options};

use super::{FOLDER, Fixture, PAGE, Words, fixture, small, works_here};

/// Runs the ignored test `name` of this module in a process of its own.
fn alone(name: &str) -> Output {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("safety::{name}"), "--ignored", "--nocapture"])
        .env(FOLDER, folder.path())
        .output()
        .expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A store with one region, and its words.
fn words() -> (Fixture, Words) {
    let fixture = fixture(small);
    let region = fixture.store.mapped("16MiB").expect("it fits");
    let words = Words::of(&region);
    (fixture, words)
}

/// The first word of a page.
fn page(words: Words, page: usize) -> &'static AtomicU64 {
    words.word(page * PAGE / 8)
}

/// Faults with SIGBUS at an address that belongs to no region: behind the end of a mapped file.
fn fault_elsewhere() {
    let file = tempfile::tempfile_in(".").expect("a file");
    file.set_len(PAGE as u64).expect("one page");
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: a fresh mapping; the read is meant to fault.
    unsafe {
        let (null, access) = (std::ptr::null_mut(), libc::PROT_READ);
        let at = libc::mmap(null, PAGE, access, libc::MAP_SHARED, descriptor, 0);
        assert_ne!(at, libc::MAP_FAILED);
        file.set_len(0).expect("cut short");
        at.cast::<u8>().read_volatile();
    }
}

extern "C" fn foreign(_signal: libc::c_int) {
    // SAFETY: it is safe in a handler.
    unsafe { libc::_exit(7) };
}

#[test]
fn a_foreign_handler_gets_the_faults_outside_of_regions() {
    if works_here() {
        let output = alone("foreign_handler");
        assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    }
}

#[test]
#[ignore = "run by a test above"]
fn foreign_handler() {
    let handler: extern "C" fn(libc::c_int) = foreign;
    // SAFETY: the handler has the right type and makes only safe calls.
    unsafe { libc::signal(libc::SIGBUS, handler as libc::sighandler_t) };
    let (Fixture { store, _folder }, words) = words();
    store.run(move || page(words, 3).store(1, Ordering::Relaxed)).expect("regions work");
    fault_elsewhere();
}

#[test]
fn a_fault_outside_of_regions_without_a_handler_ends_the_process() {
    if works_here() {
        let output = alone("no_handler");
        assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", said(&output));
    }
}

#[test]
#[ignore = "run by a test above"]
fn no_handler() {
    // SAFETY: the default action needs no handler.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
    let _words = words();
    fault_elsewhere();
}

#[test]
fn a_forked_child_has_no_regions() {
    if !works_here() {
        return;
    }
    let (_fixture, words) = words();
    page(words, 0).store(5, Ordering::Relaxed);
    // SAFETY: the child only loads a word, which ends it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let word = page(words, 0).load(Ordering::Relaxed);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(word as i32) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
    assert_eq!(page(words, 0).load(Ordering::Relaxed), 5);
}

#[test]
fn a_page_that_cannot_be_read_ends_the_process_with_one_line() {
    if works_here() {
        let output = alone("unreadable_page");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{}", said(&output));
        let said = said(&output);
        let lines: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(lines[0].starts_with("ebbtide: a mapped page cannot be read: "), "{said}");
    }
}

#[test]
#[ignore = "run by a test above"]
fn unreadable_page() {
    const PAGES: u64 = 4096;
    let faults = Faults { broken_offset: Some(9 * PAGE as u64), ..Faults::default() };
    let ram = Ram::new(PAGES as usize, Latency::Looks(1), |_, _| {});
    let mut options = Options { stack_bytes: 64 << 10, ..Options::new(8 << 20) };
    options.tuning.threads = Some(8);
    let shares = Shares::divide(&options, PAGES).expect("it fits");
    let device = Arc::new(Faulty::new(ram, faults, 1));
    let engine = Engine::over_device(device, PAGES, &shares.options).expect("it fits");
    let store = MappedStore::over(&Arc::new(engine), shares.tokens).expect("it is made");
    let words = Words::of(&store.mapped("16MiB").expect("it fits"));
    store.run(move || page(words, 8).load(Ordering::Relaxed)).expect("it is whole");
    let _ = store.run(move || page(words, 9).load(Ordering::Relaxed));
}

#[test]
fn a_double_free_ends_the_process_with_one_line() {
    if works_here() {
        let output = alone("double_free");
        assert!(said(&output).contains("ebbtide: double free of 0x"), "{}", said(&output));
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    }
}

#[test]
#[ignore = "run by a test above"]
fn double_free() {
    let fixture = fixture(small);
    let heap = Heap::new(&fixture.store.mapped("16MiB").expect("it fits"));
    let block = heap.allocate(100, 16).expect("there is room");
    heap.free(block);
    heap.free(block);
}

#[test]
fn a_stack_that_has_no_room_for_a_signal_ends_the_process_with_one_line() {
    if works_here() {
        let output = alone("overflow");
        assert!(said(&output).contains("ebbtide: stack overflow: job 1"), "{}", said(&output));
        assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    }
}

/// Faults once at each depth, so that the stack ends with a signal's frame.
fn fault_at_each_depth(words: Words, depth: usize, end: usize) -> u64 {
    let here = std::hint::black_box([page(words, depth % 4096).load(Ordering::Relaxed); 8]);
    if depth == end {
        return here[0];
    }
    fault_at_each_depth(words, depth + 1, end) + here[0]
}

#[test]
#[ignore = "run by a test above"]
fn overflow() {
    let (fixture, words) = words();
    let _ = fixture.store.run(move || fault_at_each_depth(words, 0, usize::MAX));
}

#[test]
fn pinned_bytes_can_be_given_to_system_calls_and_others_cannot() {
    if !works_here() {
        return;
    }
    let fixture = fixture(small);
    let region = fixture.store.mapped("16MiB").expect("it fits");
    let mut ends = [0; 2];
    // SAFETY: the call fills in two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let [reader, writer] = ends;
    let at = region.start().as_ptr();
    // SAFETY: the bytes are those of the region, which nothing else uses.
    let write = |from: *const u8| unsafe { libc::write(writer, from.cast(), 2 * PAGE) };
    assert_eq!(write(at), -1);
    assert_eq!(io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    // SAFETY: as above.
    unsafe { at.add(PAGE).write(77) };
    let pinned = region.pin(at, 2 * PAGE, false).expect("few are pinned");
    assert_eq!(write(at), 2 * PAGE as isize);
    drop(pinned);
    // SAFETY: as above. Unaligned, across three pages.
    let into = unsafe { at.add(8 * PAGE + 100) };
    let pinned = region.pin(into, 2 * PAGE, true).expect("few are pinned");
    // SAFETY: as above.
    assert_eq!(unsafe { libc::read(reader, into.cast(), 2 * PAGE) }, 2 * PAGE as isize);
    drop(pinned);
    // SAFETY: as above.
    assert_eq!(unsafe { into.add(PAGE).read() }, 77);
    let error = region.pin(at, 15 << 20, false).expect_err("too many pages");
    assert!(error.to_string().contains("0 pages are pinned already"), "{error}");
}

#[test]
fn no_other_job_runs_while_a_job_forbids_switches() {
    if !works_here() {
        return;
    }
    let (Fixture { store, _folder }, words) = words();
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, stopped) = (count.clone(), stop.clone());
    let other = store.submit(move || {
        for round in 0.. {
            page(words, 2048 + round % 2000).load(Ordering::Relaxed);
            counted.fetch_add(1, Ordering::Relaxed);
            if stopped.load(Ordering::Relaxed) {
                return;
            }
        }
    });
    let counts = store.run(move || {
        let pages = |from: usize| {
            (from..from + 300).for_each(|p| {
                page(words, p).fetch_add(1, Ordering::Relaxed);
            })
        };
        pages(0);
        let before = count.load(Ordering::Relaxed);
        let guard = no_switch();
        pages(300);
        let held = count.load(Ordering::Relaxed);
        drop(guard);
        pages(600);
        (before, held, count.load(Ordering::Relaxed))
    });
    stop.store(true, Ordering::Relaxed);
    other.wait().expect("it ends");
    let (before, held, after) = counts.expect("the job ends well");
    assert_eq!(before, held);
    assert!(after > held);
}

#[test]
fn errno_belongs_to_its_job() {
    if !works_here() {
        return;
    }
    let (Fixture { store, _folder }, words) = words();
    let set = |code: i32| {
        // SAFETY: errno belongs to this thread.
        unsafe { *libc::__errno_location() = code };
    };
    let tickets: Vec<_> = (0..8)
        .map(|job| {
            store.submit(move || {
                for step in 0..200 {
                    set(job * 1000 + step);
                    page(words, (job * 500 + step) as usize).fetch_add(1, Ordering::Relaxed);
                    let errno = io::Error::last_os_error().raw_os_error();
                    assert_eq!(errno, Some(job * 1000 + step));
                }
            })
        })
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().expect("errno is kept"));
}

/// Counts its drops in a page that is not in DRAM.
struct Counts(&'static AtomicU64);

impl Drop for Counts {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_job_that_panics_may_need_pages_while_it_unwinds() {
    if !works_here() {
        return;
    }
    let (Fixture { store, _folder }, words) = words();
    let tickets: Vec<_> = (0..16)
        .map(|job| {
            store.submit(move || {
                let _counts = Counts(page(words, job * 100));
                page(words, job * 100 + 50).load(Ordering::Relaxed);
                std::panic::resume_unwind(Box::new("meant"));
            })
        })
        .collect();
    for ticket in tickets {
        let error = ticket.wait().map(|(): ()| ()).expect_err("the job panics");
        assert!(error.to_string().contains("meant"), "{error}");
    }
    (0..16).for_each(|job| assert_eq!(page(words, job * 100).load(Ordering::Relaxed), 1));
}
