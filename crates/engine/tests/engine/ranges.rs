//! Needs of a program beyond words: byte ranges, page views, yielding, hints that pages are done
//! with, blank regions, and files that others wrote.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, JobError};

use crate::common;
use crate::common::jobs::{ends, job, loads, run_alone, run_jobs, word};
use crate::common::recorder::{Log, Recorder};
use crate::common::{image, of_frames, small_cache};

const PAGES: u64 = 128;
const BYTES: usize = PAGES as usize * PAGE_BYTES;

fn engine(frames: usize, cores: usize) -> (Engine, Arc<Log>) {
    let ram = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let device = Recorder::new(ram, PAGES);
    let log = device.log();
    let options = small_cache(frames, cores, 8, PAGES);
    (Engine::over_device(Arc::new(device), PAGES, &options).unwrap(), log)
}

/// All bytes of the device at first.
fn initial_bytes() -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    for (number, page) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
        image(number, page.try_into().unwrap());
    }
    bytes
}

/// Beginnings and lengths of ranges, aligned and not, within words, pages and across them.
fn ranges() -> Vec<(usize, usize)> {
    let mut ranges = vec![(0, 0), (BYTES, 0), (0, BYTES), (BYTES - 1, 1), (3, 2), (4093, 7)];
    let mut random = 1u64;
    for _ in 0..200 {
        random = random.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37);
        let (start, length) = (random >> 20, random >> 44);
        let start = start as usize % BYTES;
        ranges.push((start, length as usize % 10_000 % (BYTES - start)));
    }
    ranges
}

#[test]
fn byte_ranges_of_any_place_and_length_are_as_in_a_plain_array() {
    for frames in [16, 100] {
        let (engine, _) = engine(frames, 1);
        let work = || {
            vec![job(|memory| {
                let mut model = initial_bytes();
                for (number, (start, length)) in ranges().into_iter().enumerate() {
                    let at = Addr(start as u64);
                    let mut read = vec![0xaa; length];
                    memory.read_bytes(at, &mut read);
                    assert!(read == model[start..start + length], "{length} bytes at {start}");
                    let written: Vec<u8> = (0..length).map(|byte| (byte + number) as u8).collect();
                    memory.write_bytes(at, &written);
                    model[start..start + length].copy_from_slice(&written);
                }
                let mut all = vec![0; BYTES];
                memory.read_bytes(Addr(0), &mut all);
                assert!(all == model);
            })]
        };
        run_alone(&engine, work).order();
    }
}

#[test]
fn a_range_beyond_the_end_panics_before_anything_is_copied() {
    let (engine, log) = engine(16, 1);
    for (at, length) in [(BYTES as u64 - 4, 5), (u64::MAX, 2), (BYTES as u64 + 1, 0)] {
        let work = move || {
            vec![
                job(move |memory| memory.read_bytes(Addr(at), &mut vec![0; length])),
                job(move |memory| memory.write_bytes(Addr(at), &vec![0; length])),
            ]
        };
        for (_, result) in run_alone(&engine, work).jobs {
            assert!(matches!(&result, Err(JobError::Panicked(said)) if said.contains("beyond")));
        }
    }
    assert_eq!(log.all_reads(), 0);
}

#[test]
fn a_range_of_many_pages_is_read_in_one_submission() {
    let (engine, log) = engine(100, 1);
    let before = log.clone();
    let work = move || {
        let log = before.clone();
        vec![job(move |memory| {
            memory.load::<u64>(word(0));
            let submitted = log.submissions().len();
            memory.read_bytes(word(10) + 100, &mut vec![0; 6 * PAGE_BYTES]);
            assert_eq!(log.submissions()[submitted..], [7]);
        })]
    };
    run_alone(&engine, work).order();
    assert!((10..17).all(|page| log.reads(page) == 1) && log.all_reads() == 8);
}

#[test]
fn a_range_that_begins_where_a_page_does_is_read_in_one_submission_as_well() {
    for first in [10, 33, 64] {
        let (engine, log) = engine(100, 1);
        let before = log.clone();
        let work = move || {
            let log = before.clone();
            vec![job(move |memory| {
                memory.load::<u64>(word(0));
                let submitted = log.submissions().len();
                memory.read_bytes(word(first), &mut vec![0; 6 * PAGE_BYTES]);
                assert_eq!(log.submissions()[submitted..], [6], "from page {first}");
            })]
        };
        run_alone(&engine, work).order();
        assert_eq!(log.all_reads(), 7);
        let counted = engine.counters().snapshot();
        assert_eq!((counted.misses, counted.fetched_ahead), (2, 5));
    }
}

/// Frames become free a few at a time. Pages that could not be requested at once are requested
/// later.
#[test]
fn a_range_is_read_ahead_also_where_fewer_frames_are_free_than_it_has_pages() {
    let (engine, log) = engine(100, 1);
    let work = || {
        vec![job(|memory| {
            for page in 0..100 {
                memory.load::<u64>(word(page));
            }
            memory.read_bytes(word(0), &mut vec![0; 128 * PAGE_BYTES]);
        })]
    };
    run_alone(&engine, work).order();
    let counted = engine.counters().snapshot();
    let (missed, ahead) = (counted.misses - 100, counted.fetched_ahead);
    assert_eq!(missed + ahead, log.all_reads() - 100);
    assert!(missed <= ahead / 4, "{missed} pages were waited for, {ahead} read ahead");
}

/// Where frames are plenty, the window of 64 pages is filled anew whenever half of it has been
/// copied.
#[test]
fn a_long_range_is_asked_for_half_a_window_at_a_time() {
    const LONG: u64 = 1000;
    let ram = Ram::new(LONG as usize, Latency::Looks(1), image);
    let device = Recorder::new(ram, LONG);
    let log = device.log();
    let mut options = small_cache(900, 1, 128, LONG);
    options.tuning.batch_max = 64;
    let options = of_frames(900, options, LONG);
    let engine = Engine::over_device(Arc::new(device), LONG, &options).unwrap();
    let work = || vec![job(|memory| memory.read_bytes(word(3), &mut vec![0; 200 * PAGE_BYTES]))];
    run_alone(&engine, work).order();
    assert_eq!(log.submissions(), [65, 33, 33, 33, 33, 3]);
}

#[test]
fn the_pages_at_both_ends_of_a_stored_range_are_asked_for_together() {
    for (bytes, ahead) in [(5 * PAGE_BYTES, 1), (5 * PAGE_BYTES - 100, 0), (PAGE_BYTES - 200, 0)] {
        let (engine, log) = engine(100, 1);
        let work = || {
            vec![job(move |memory| {
                memory.load::<u64>(word(0));
                memory.write_bytes(word(20) + 100, &vec![7; bytes]);
            })]
        };
        run_alone(&engine, work).order();
        let counted = engine.counters().snapshot();
        assert_eq!((counted.fetched_ahead, counted.misses), (ahead, 2), "{bytes} bytes");
        assert_eq!(log.all_reads(), 2 + ahead);
    }
}

#[test]
fn whole_pages_are_stored_without_a_read_and_the_ends_of_a_range_with_one() {
    let (engine, log) = engine(100, 1);
    let written: Vec<u8> = (0..10 * PAGE_BYTES).map(|byte| (byte % 251) as u8).collect();
    let work = || {
        let (written, log) = (written.clone(), log.clone());
        vec![job(move |memory| {
            let at = word(20) + 100;
            memory.write_bytes(at, &written);
            assert_eq!((log.reads(20), log.reads(30), log.all_reads()), (1, 1, 2));
            // The pages are evicted, and so written, and read again.
            for page in (31..PAGES).chain(0..20) {
                memory.load::<u64>(word(page));
            }
            let mut read = vec![0; written.len() + 2 * 100];
            memory.read_bytes(word(20), &mut read);
            assert!(read[100..][..written.len()] == written);
            let all = initial_bytes();
            assert!(read[..100] == all[20 * PAGE_BYTES..][..100]);
            let after = 20 * PAGE_BYTES + 100 + written.len();
            assert!(read[100 + written.len()..] == all[after..][..100]);
        })]
    };
    run_alone(&engine, work).order();
    let counted = engine.counters().snapshot();
    assert_eq!(counted.overwritten, 9);
    let other = counted.hits + counted.misses + counted.hits_under_miss;
    // Each page of a range counts once.
    assert_eq!((other + 9, counted.accesses), (11 + 117 + 11, 11 + 117 + 11));
}

#[test]
fn a_view_shows_the_page_and_keeps_it_for_as_long_as_it_lives() {
    for cores in [1, 2] {
        let (engine, _) = engine(16, cores);
        let view = |core: usize| {
            job(move |memory| {
                let all = initial_bytes();
                for round in 0..300u64 {
                    let page = (round * 7 + core as u64 * 31) % PAGES;
                    let start = page as usize * PAGE_BYTES;
                    let view = memory.page(PageId(page));
                    for offset in (0..PAGE_BYTES).step_by(8) {
                        let expected = all[start + offset..][..8].try_into().unwrap();
                        assert_eq!(view.load::<u64>(offset), u64::from_le_bytes(expected));
                    }
                    let mut bytes = [0; 100];
                    view.read_bytes(1001, &mut bytes);
                    assert_eq!(bytes[..], all[start + 1001..][..100]);
                }
            })
        };
        run_jobs(&engine, |core| vec![view(core)]).iter().for_each(|core| drop(core.order()));
        assert!(engine.counters().snapshot().evictions_clean > 0);
    }
}

#[test]
fn a_view_that_is_gone_holds_up_no_other_core() {
    ends(|| {
        let (engine, _) = engine(16, 2);
        let gone = Arc::new(AtomicU32::new(0));
        let work = |core: usize| {
            let gone = gone.clone();
            // One computes for long after it has looked at a page; the other needs every frame
            // often.
            vec![job(move |memory| {
                if core == 0 {
                    drop(memory.page(PageId(0)));
                    gone.store(1, Ordering::SeqCst);
                    while gone.load(Ordering::SeqCst) == 1 {
                        std::hint::spin_loop();
                    }
                    return;
                }
                while gone.load(Ordering::SeqCst) == 0 {
                    std::hint::spin_loop();
                }
                for page in 0..PAGES {
                    memory.load::<u64>(word(page));
                }
                gone.store(2, Ordering::SeqCst);
            })]
        };
        run_jobs(&engine, work).iter().for_each(|core| drop(core.order()));
        // A view is an access.
        assert_eq!(engine.counters().snapshot().accesses, PAGES + 1);
    });
}

#[test]
fn what_lies_beyond_the_end_is_an_error_of_the_job_and_no_word_to_wait_on() {
    let (engine, _) = engine(16, 1);
    let end = word(PAGES);
    let bad: [fn(&mut FlashMemory<'_>, Addr); 4] = [
        |memory, at| assert_ne!(memory.load::<u64>(at), 1),
        |memory, at| memory.store::<u64>(at, 1),
        |memory, at| assert!(memory.compare_exchange(at, 0, 1).is_ok()),
        |memory, at| drop(memory.page(at.page())),
    ];
    for bad in bad {
        let ended = run_alone(&engine, || vec![job(move |memory| bad(memory, end))]);
        let result = &ended.jobs[0].1;
        let beyond = |said: &str| said.contains("beyond the address space of");
        assert!(matches!(result, Err(JobError::Panicked(said)) if beyond(said)), "{result:?}");
    }
    run_alone(&engine, || vec![job(move |memory| memory.wait(end, 0))]).order();
}

#[test]
fn a_view_of_what_is_not_in_the_page_panics() {
    let (engine, _) = engine(16, 1);
    let bad: [fn(&ebbtide_engine::PageView<'_>); 3] = [
        |view| assert_ne!(view.load::<u64>(4096), 1),
        |view| assert_ne!(view.load::<u64>(4), 1),
        |view| view.read_bytes(4000, &mut [0; 97]),
    ];
    for bad in bad {
        let ended = run_alone(&engine, || vec![job(move |memory| bad(&memory.page(PageId(1))))]);
        assert!(matches!(ended.jobs[0].1, Err(JobError::Panicked(_))));
    }
}

#[test]
fn a_job_that_yields_lets_ready_and_new_jobs_run() {
    ends(|| {
        let (engine, _) = engine(16, 1);
        let work = || {
            let done = Rc::new(RefCell::new(Vec::new()));
            let (first, second) = (done.clone(), done.clone());
            let yields = job(move |memory| {
                // Until a job that is not started yet, and misses, has ended.
                while first.borrow().is_empty() {
                    memory.yield_now();
                }
                assert_eq!(first.borrow()[..], [7]);
            });
            let later = job(move |memory| {
                memory.load::<u64>(word(3));
                memory.yield_now();
                second.borrow_mut().push(7);
            });
            vec![yields, later]
        };
        assert_eq!(run_alone(&engine, work).order(), [1, 0]);
    });
}

#[test]
fn a_page_that_is_done_with_leaves_dram_with_its_changes() {
    for (cores, changed) in [(1, false), (1, true), (2, true)] {
        let (engine, log) = engine(64, cores);
        let work = |core: usize| {
            let first = 40 * core as u64;
            vec![job(move |memory| {
                memory.load::<u64>(word(first));
                for page in first + 1..first + 11 {
                    let seen = memory.load::<u64>(word(page));
                    if changed {
                        memory.store(word(page), !seen);
                    }
                    memory.hint(Hint::DontNeed(word(page)));
                }
                // A page that is asked for on its way out is as it was stored.
                for page in first + 1..first + 11 {
                    let seen = memory.load::<u64>(word(page));
                    let initial = common::initial(page * common::WORDS_PER_PAGE);
                    assert_eq!(seen, if changed { !initial } else { initial });
                }
            })]
        };
        run_jobs(&engine, work).iter().for_each(|core| drop(core.order()));
        let counted = engine.counters().snapshot();
        let evicted = if changed { counted.evictions_dirty } else { counted.evictions_clean };
        assert_eq!(evicted, 10 * cores as u64, "{counted:?}");
        if cores == 1 {
            assert!((1..11).all(|page| log.reads(page) >= 1));
            assert_eq!(log.all_reads() + counted.revived, 21);
        }
    }
}

fn new_store(folder: &tempfile::TempDir) -> NewStore {
    let (path, tag) = (folder.path().join("store"), "blank".into());
    NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 2, tag, force: false }
}

#[test]
fn a_blank_store_is_zeros_that_are_neither_written_nor_read_before_they_change() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let new = new_store(&folder);
    let store = Arc::new(Store::create_blank(&new).unwrap());
    let unwritten = std::fs::read(&new.path).unwrap();
    assert!(unwritten[PAGE_BYTES..].iter().all(|&byte| byte == 0));
    let options = small_cache(16, 1, 8, PAGES);
    let engine = Engine::open(&store, &options).unwrap();
    let zero = |page: u64| job(move |memory| assert_eq!(memory.load::<u64>(word(page)), 0));
    for _ in 0..3 {
        run_alone(&engine, || (0..PAGES).map(zero).collect()).order();
    }
    let counted = engine.counters().snapshot();
    assert_eq!((counted.flash_reads, counted.flash_writes), (0, 0));
    assert!(store.header().clean && std::fs::read(&new.path).unwrap() == unwritten);

    let change = |page: u64| job(move |memory| memory.store::<u64>(word(page) + 8, page + 1));
    let check = |page: u64| {
        job(move |memory| {
            let changed = if page.is_multiple_of(2) { page + 1 } else { 0 };
            assert_eq!(memory.load::<[u64; 3]>(word(page)), [0, changed, 0]);
        })
    };
    run_alone(&engine, || (0..PAGES).step_by(2).map(change).collect()).order();
    for _ in 0..2 {
        run_alone(&engine, || (0..PAGES).map(check).collect()).order();
    }
    let counted = engine.counters().snapshot();
    assert!(counted.flash_writes >= PAGES / 2 - 16 && counted.flash_writes <= PAGES / 2);
    assert!(!store.header().clean);
}

#[test]
fn a_blank_store_is_not_taken_for_one_with_an_image() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let new = new_store(&folder);
    drop(Store::create_blank(&new).unwrap());
    assert!(!new.is_there().unwrap());
}

#[test]
fn an_array_that_another_program_wrote_is_read_where_it_begins_and_never_written() {
    // A header of 77 bytes, numbers of 8 bytes each, and an end that fills no page.
    const SKIPPED: usize = 2 * PAGE_BYTES + 77;
    const NUMBERS: u64 = 20_000;
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&[0xff; SKIPPED]).unwrap();
    (0..NUMBERS).for_each(|n| file.write_all(&(n * n).to_le_bytes()).unwrap());
    file.flush().unwrap();
    let before = std::fs::read(file.path()).unwrap();
    let bytes = NUMBERS * 8;
    let pages = (77 + bytes).div_ceil(PAGE_BYTES as u64);
    let options = small_cache(16, 1, 8, pages);
    let open = |offset, bytes| Engine::open_file(file.path(), offset, bytes, &options);
    let (engine, start) = open(SKIPPED as u64, bytes).unwrap();
    let check = || {
        vec![job(move |memory| {
            for n in (0..NUMBERS).rev().step_by(3) {
                let mut number = [0; 8];
                memory.read_bytes(start + n * 8, &mut number);
                assert_eq!(u64::from_le_bytes(number), n * n);
            }
            let end = start + bytes;
            let mut rest = vec![0xee; (memory.size_bytes() - end.0) as usize];
            memory.read_bytes(end, &mut rest);
            assert!(rest.iter().all(|&byte| byte == 0), "zeros follow the file's end");
        })]
    };
    for _ in 0..2 {
        run_alone(&engine, check).order();
    }
    // Stores stay in DRAM, or fail for want of room.
    let store = |page: u64| job(move |memory| memory.store::<u64>(word(page), 7));
    let ended = run_alone(&engine, || (0..pages).map(store).collect());
    assert!(ended.jobs.iter().any(|(_, result)| result.is_err()));
    drop(engine);
    assert!(std::fs::read(file.path()).unwrap() == before);
    for (offset, bytes) in [(0, before.len() as u64 + 1), (u64::MAX, 1), (1, u64::MAX)] {
        let Err(error) = open(offset, bytes) else { panic!("it was opened") };
        assert!(error.to_string().contains("has 168269 bytes, expected"), "{error}");
    }
    let (whole, at) = open(0, before.len() as u64).unwrap();
    assert_eq!(at, Addr(0));
    run_alone(&whole, || vec![loads(0)]).order();
}

#[test]
fn what_follows_the_end_of_a_file_is_zeros_in_its_last_page_alone() {
    const WHOLE: u64 = 6;
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::io::Write::write_all(&mut file, &vec![7; WHOLE as usize * PAGE_BYTES + 100]).unwrap();
    // Fewer frames than pages: the last page takes the frame of another one.
    let options = small_cache(4, 1, 1, WHOLE + 1);
    let open = Engine::open_file(file.path(), 0, WHOLE * PAGE_BYTES as u64 + 100, &options);
    let (engine, _) = open.unwrap();
    let check = || {
        vec![job(|memory| {
            let mut bytes = [0; PAGE_BYTES];
            for turn in 0..2 * WHOLE {
                for page in 0..WHOLE {
                    memory.read_bytes(word((page + turn) % WHOLE), &mut bytes);
                    assert!(bytes.iter().all(|&byte| byte == 7), "page {page}");
                }
                memory.read_bytes(word(WHOLE), &mut bytes);
                assert!(bytes[..100].iter().all(|&byte| byte == 7));
                assert!(bytes[100..].iter().all(|&byte| byte == 0));
            }
        })]
    };
    run_alone(&engine, check).order();
    assert!(engine.counters().snapshot().misses > 2 * (WHOLE + 1), "frames were used again");
}

#[test]
fn a_file_on_a_file_system_without_direct_io_is_read_all_the_same() {
    let path = std::path::Path::new("/sys/class/net/lo/mtu");
    let text = std::fs::read(path).unwrap();
    let bytes = text.len() as u64;
    let (engine, at) = Engine::open_file(path, 0, bytes, &small_cache(4, 1, 1, 1)).unwrap();
    let check = move || {
        let text = text.clone();
        vec![job(move |memory| {
            let mut read = vec![0; text.len()];
            memory.read_bytes(at, &mut read);
            assert_eq!(read, text);
        })]
    };
    run_alone(&engine, check).order();
}
