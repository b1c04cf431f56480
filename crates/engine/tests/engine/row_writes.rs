//! Rows that are scattered to a file are there for every reader, after a flush and after a crash.

use std::fs;
use std::path::{Path, PathBuf};

use ebbtide_engine::{Options, RowError, RowFile, RowRun};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tempfile::TempDir;

use crate::common::watched;

/// A file of `bytes` random bytes.
fn file(bytes: usize) -> (TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let path = folder.path().join("rows");
    let mut random = Pcg64::seed_from_u64(7);
    let contents: Vec<u8> = (0..bytes).map(|_| random.random()).collect();
    fs::write(&path, &contents).expect("written");
    (folder, path, contents)
}

fn options() -> Options {
    Options::new(2 << 20)
}

fn open(path: &Path, run: RowRun, row_bytes: usize, atomic: bool) -> RowFile {
    RowFile::open_to_write(path, &[run], row_bytes, atomic, &options()).expect("it opens")
}

/// The obvious array.
struct Model {
    contents: Vec<u8>,
    run: RowRun,
    row_bytes: usize,
}

impl Model {
    fn set(&mut self, index: u64, columns: std::ops::Range<usize>, from: &[u8]) {
        let at = (self.run.offset + index * self.row_bytes as u64) as usize;
        self.contents[at + columns.start..at + columns.end].copy_from_slice(from);
    }
}

/// 8 MiB of rows behind 2 MiB of DRAM, so that changed pages leave and come back.
#[test]
fn scattered_rows_are_gathered_again_and_are_in_the_file_after_a_flush() {
    let mut random = Pcg64::seed_from_u64(1);
    for (offset, row_bytes) in [(4096, 512), (128, 512), (77, 100), (3, 4096), (1, 10_001), (5, 1)]
    {
        let (_folder, path, contents) = file((8 << 20) + 999);
        let rows = ((contents.len() - offset - 500) / row_bytes) as u64;
        let run = RowRun { offset: offset as u64, rows };
        let mut model = Model { contents, run, row_bytes };
        let file = open(&path, run, row_bytes, false);
        watched(&file, || {
            for round in 0..30_usize {
                let count = [1, 7, 400, 3000][round % 4].min((4 << 20) / row_bytes);
                let indices = some_rows(&mut random, rows, count);
                let columns = match round % 3 {
                    0 if row_bytes > 2 => row_bytes / 3..row_bytes - 1,
                    _ => 0..row_bytes,
                };
                let from: Vec<u8> =
                    (0..indices.len() * columns.len()).map(|_| random.random()).collect();
                file.scatter_columns_while(&indices, columns.clone(), &from, || true)
                    .expect("scattered");
                for (index, from) in indices.iter().zip(from.chunks(columns.len())) {
                    model.set(*index, columns.clone(), from);
                }
                let indices = some_rows(&mut random, rows, count);
                let mut into = vec![0; indices.len() * row_bytes];
                file.gather(&indices, &mut into).expect("gathered");
                for (index, row) in indices.iter().zip(into.chunks(row_bytes)) {
                    let at = offset + *index as usize * row_bytes;
                    assert!(row == &model.contents[at..at + row_bytes], "row {index}");
                }
            }
            file.flush().expect("flushed");
        });
        assert!(fs::read(&path).expect("read") == model.contents, "rows of {row_bytes} bytes");
    }
}

/// Random rows with some twice, or a stretch of neighbours.
fn some_rows(random: &mut Pcg64, rows: u64, count: usize) -> Vec<u64> {
    if random.random_bool(0.3) {
        let first = random.random_range(0..rows);
        return (first..rows).take(count).collect();
    }
    let mut indices: Vec<u64> = (0..count).map(|_| random.random_range(0..rows)).collect();
    let again: Vec<u64> = indices.iter().copied().step_by(5).collect();
    indices.extend(again);
    indices
}

#[test]
fn the_last_of_two_rows_with_one_index_counts_over_the_parts_of_a_call() {
    let (_folder, path, _) = file(1 << 20);
    let run = RowRun { offset: 16, rows: 100_000 };
    let file = open(&path, run, 8, false);
    let indices: Vec<u64> = (0..600_000_u64).map(|place| place * 7 % 100_000).collect();
    let from: Vec<u8> = (0..600_000_u64).flat_map(u64::to_le_bytes).collect();
    watched(&file, || file.scatter(&indices, &from).expect("scattered"));
    let all: Vec<u64> = (0..100_000).collect();
    let mut into = vec![0; 800_000];
    watched(&file, || file.gather(&all, &mut into).expect("gathered"));
    let mut expected = vec![0; 100_000];
    for (place, index) in indices.iter().enumerate() {
        expected[*index as usize] = place as u64;
    }
    let found = into.chunks_exact(8).map(|row| u64::from_le_bytes(row.try_into().expect("eight")));
    assert!(found.eq(expected));
}

#[test]
fn whole_pages_are_written_without_a_read() {
    let (_folder, path, _) = file(1 << 20);
    let run = RowRun { offset: 4096, rows: 1024 };
    let file = open(&path, run, 512, false);
    let indices: Vec<u64> = (0..1024).collect();
    watched(&file, || file.scatter(&indices, &vec![9; 512 << 10]).expect("scattered"));
    // Without a free frame at hand a page is read. That are few of the 128.
    assert!(file.counters().misses < 64, "{} misses", file.counters().misses);
    watched(&file, || file.flush().expect("flushed"));
    assert!(fs::read(&path).expect("read")[4096..4096 + (512 << 10)].iter().all(|byte| *byte == 9));
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let (_folder, path, contents) = file(64 << 10);
    let run = RowRun { offset: 0, rows: 16 };
    let file = open(&path, run, 4096, false);
    let second = RowFile::open_to_write(&path, &[run], 4096, false, &options());
    let said = second.expect_err("it has a writer").to_string();
    assert!(said.ends_with("in use by this process already"), "{said}");
    let reader = RowFile::open(&path, &[run], 4096, &options()).expect("it opens");
    let mut into = vec![0; 4096];
    watched(&reader, || reader.gather(&[15], &mut into).expect("read"));
    assert!(into == contents[15 * 4096..]);
    assert!(matches!(reader.scatter(&[1], &into), Err(RowError::ReadOnly)));
    assert!(matches!(reader.flush(), Err(RowError::ReadOnly)));
    drop(file);
    drop(open(&path, run, 4096, false));
}

#[test]
fn wrong_calls_change_nothing() {
    let (_folder, path, contents) = file(64 << 10);
    let run = RowRun { offset: 0, rows: 16 };
    let file = open(&path, run, 4096, true);
    assert!(matches!(
        file.scatter(&[16], &[0; 4096]),
        Err(RowError::Index { index: 16, last: 15 })
    ));
    assert!(matches!(file.scatter(&[1], &[0; 4095]), Err(RowError::Buffer { .. })));
    let beyond = file.scatter_columns_while(&[1], 4000..4097, &[0; 97], || true);
    assert!(matches!(beyond, Err(RowError::Columns { .. })));
    drop(file);
    assert!(fs::read(&path).expect("read") == contents);
}

#[test]
fn dropped_rows_are_flushed_and_leave_no_log() {
    for atomic in [false, true] {
        let (_folder, path, mut contents) = file(64 << 10);
        let file = open(&path, RowRun { offset: 0, rows: 16 }, 4096, atomic);
        file.scatter(&[3], &[1; 4096]).expect("scattered");
        drop(file);
        contents[3 * 4096..4 * 4096].fill(1);
        assert!(fs::read(&path).expect("read") == contents);
        assert!(!log_of(&path).exists());
    }
}

#[test]
fn threads_change_and_gather_rows_at_once() {
    let (_folder, path, _) = file(4 << 20);
    let run = RowRun { offset: 0, rows: 4096 };
    let options = Options { cores: 2, ..options() };
    let file = RowFile::open_to_write(&path, &[run], 1024, false, &options).expect("it opens");
    // Each thread has the rows of its number.
    let work = &|thread: u64| {
        let mut random = Pcg64::seed_from_u64(thread);
        let mut last = vec![None; 1024];
        for round in 0..30_u8 {
            let own: Vec<u64> = (0..200).map(|_| random.random_range(0..1024)).collect();
            let indices: Vec<u64> = own.iter().map(|row| row * 4 + thread).collect();
            file.scatter(&indices, &[round; 200 << 10]).expect("scattered");
            own.iter().for_each(|row| last[*row as usize] = Some(round));
            if round % 10 == 9 {
                file.flush().expect("flushed");
            }
            let own: Vec<u64> = (0..200).map(|_| random.random_range(0..1024)).collect();
            let indices: Vec<u64> = own.iter().map(|row| row * 4 + thread).collect();
            let mut into = vec![0; 200 << 10];
            file.gather(&indices, &mut into).expect("gathered");
            for (row, found) in own.iter().zip(into.chunks(1024)) {
                let expected = last[*row as usize];
                assert!(expected.is_none_or(|byte| found.iter().all(|found| *found == byte)));
            }
        }
    };
    watched(&file, || {
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
        });
    });
}

fn log_of(path: &Path) -> PathBuf {
    path.with_file_name("rows.rowlog")
}

/// A crash, as far as files show one: what they have while the rows are open.
fn crashed(path: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("rows");
    fs::copy(path, &copy).expect("copied");
    let _ = fs::remove_file(log_of(&copy));
    if log_of(path).exists() {
        fs::copy(log_of(path), log_of(&copy)).expect("copied");
    }
    copy
}

/// Rows of 3 bytes that all are `value`.
fn rows_of(count: usize, value: u8) -> Vec<u8> {
    vec![value; 3 * count]
}

#[test]
fn a_log_that_is_cut_anywhere_gives_rows_that_are_old_or_new() {
    let (folder, path, _) = file(4096);
    fs::write(&path, rows_of(100, 1)).expect("written");
    let run = RowRun { offset: 0, rows: 100 };
    let file = open(&path, run, 3, true);
    // The steps after which the log has grown, with what the rows are then.
    let mut steps = vec![(log_len(&path), rows_of(100, 1))];
    let mut rows = rows_of(100, 1);
    for (value, indices) in [(2, vec![5, 99]), (3, vec![5]), (4, vec![0, 1, 2]), (5, vec![99, 7])] {
        file.scatter(&indices, &rows_of(indices.len(), value)).expect("scattered");
        for index in indices {
            rows[3 * index as usize..3 * (index as usize + 1)].fill(value);
        }
        steps.push((log_len(&path), rows.clone()));
    }
    let crash = tempfile::tempdir_in(folder.path()).expect("a folder");
    let whole = fs::read(log_of(&path)).expect("it has a log");
    assert_eq!(whole.len() as u64, steps.last().expect("steps").0);
    for cut in 0..=whole.len() {
        let copy = crashed(&path, crash.path());
        // A page that was torn: the first half of it is lost.
        let mut torn = fs::read(&copy).expect("read");
        torn[..6].copy_from_slice(&rows_of(2, if cut == whole.len() { 9 } else { 1 }));
        fs::write(&copy, &torn).expect("written");
        fs::write(log_of(&copy), &whole[..cut]).expect("written");
        drop(open(&copy, run, 3, true));
        let expected = steps.iter().rev().find(|(bytes, _)| *bytes <= cut as u64);
        let expected = expected.map_or(&steps[0].1, |(_, rows)| rows);
        assert!(fs::read(&copy).expect("read") == *expected, "cut at {cut}");
        assert!(!log_of(&copy).exists());
    }
}

fn log_len(path: &Path) -> u64 {
    fs::metadata(log_of(path)).expect("it has a log").len()
}

#[test]
fn records_that_come_back_after_a_flush_do_not_undo_newer_rows() {
    let (folder, path, _) = file(4096);
    fs::write(&path, rows_of(100, 1)).expect("written");
    let run = RowRun { offset: 0, rows: 100 };
    let file = open(&path, run, 3, true);
    for value in 2..6 {
        file.scatter(&[7], &rows_of(1, value)).expect("scattered");
    }
    let old = fs::read(log_of(&path)).expect("it has a log");
    file.flush().expect("flushed");
    assert_eq!(log_len(&path), 64, "a flush empties the log");
    file.scatter(&[7], &rows_of(1, 6)).expect("scattered");
    let crash = tempfile::tempdir_in(folder.path()).expect("a folder");
    let copy = crashed(&path, crash.path());
    // The file system had not shortened the file yet.
    let mut log = fs::read(log_of(&copy)).expect("it has a log");
    log.extend(&old[log.len()..]);
    fs::write(log_of(&copy), &log).expect("written");
    drop(open(&copy, run, 3, false));
    assert!(fs::read(&copy).expect("read")[21..24] == rows_of(1, 6));
}

#[test]
fn rows_with_a_log_are_refused_to_readers_until_it_is_applied() {
    let (folder, path, _) = file(4096);
    let run = RowRun { offset: 0, rows: 100 };
    let file = open(&path, run, 3, true);
    file.scatter(&[7], &rows_of(1, 6)).expect("scattered");
    let crash = tempfile::tempdir_in(folder.path()).expect("a folder");
    let copy = crashed(&path, crash.path());
    RowFile::open(&path, &[run], 3, &options()).expect("it has a writer");
    let refused = RowFile::open(&copy, &[run], 3, &options()).expect_err("it has a log");
    assert!(matches!(refused, RowError::Unapplied(_)), "{refused}");
    drop(open(&copy, run, 3, false));
    RowFile::open(&copy, &[run], 3, &options()).expect("its log was applied");
}

#[test]
fn a_log_of_other_rows_is_refused_and_kept() {
    let (folder, path, _) = file(4096);
    let run = RowRun { offset: 0, rows: 100 };
    let file = open(&path, run, 3, true);
    file.scatter(&[7], &rows_of(1, 6)).expect("scattered");
    let crash = tempfile::tempdir_in(folder.path()).expect("a folder");
    let copy = crashed(&path, crash.path());
    let other = RowRun { offset: 1, rows: 100 };
    let refused = RowFile::open_to_write(&copy, &[other], 3, false, &options());
    let refused = refused.expect_err("another place").to_string();
    assert!(refused.contains("rows.rowlog: it is no log, or one of rows of another"), "{refused}");
    let mut log = fs::read(log_of(&copy)).expect("it is kept");
    log[20] ^= 1;
    fs::write(log_of(&copy), log).expect("written");
    let refused = RowFile::open_to_write(&copy, &[run], 3, false, &options());
    assert!(matches!(refused, Err(RowError::Log { .. })));
}

#[test]
fn rows_whose_log_cannot_be_made_are_not_opened_to_be_changed() {
    let (_folder, path, contents) = file(64 << 10);
    let run = RowRun { offset: 0, rows: 16 };
    let log = log_of(&path);
    fs::create_dir(&log).expect("a folder in its place");
    let refused = RowFile::open_to_write(&path, &[run], 4096, true, &options());
    assert!(matches!(refused, Err(RowError::Unwritten { .. })));
    assert!(fs::read(&path).expect("read") == contents);
}

/// Dense rows are read past the cache, which has newer ones.
#[test]
fn dense_rows_are_the_changed_ones_before_a_flush_and_after_it() {
    let (_folder, path, contents) = file(16 << 20);
    let run = RowRun { offset: 0, rows: 16 << 10 };
    let mut model = Model { contents, run, row_bytes: 1024 };
    let file = open(&path, run, 1024, false);
    let all: Vec<u64> = (0..16 << 10).collect();
    let mut random = Pcg64::seed_from_u64(3);
    let mut into = vec![0; 16 << 20];
    watched(&file, || {
        for round in 0..12_u8 {
            let indices = some_rows(&mut random, 16 << 10, 900);
            file.scatter(&indices, &vec![round; indices.len() << 10]).expect("scattered");
            indices.iter().for_each(|index| model.set(*index, 0..1024, &[round; 1024]));
            if round % 4 == 3 {
                file.flush().expect("flushed");
            }
            file.gather(&all, &mut into).expect("gathered");
            assert!(into == model.contents, "round {round}");
        }
    });
}

/// Changed pages leave while a block with them is read.
#[test]
fn dense_rows_of_one_thread_are_its_own_while_others_change_theirs() {
    let (_folder, path, _) = file(8 << 20);
    let run = RowRun { offset: 0, rows: 8 << 10 };
    let file = open(&path, run, 1024, false);
    let work = &|thread: u64| {
        let mut random = Pcg64::seed_from_u64(thread);
        let own: Vec<u64> = (0..2048).map(|row| row * 4 + thread).collect();
        file.scatter(&own, &[0; 2 << 20]).expect("scattered");
        let mut last = vec![0; 2048];
        let mut into = vec![0; 2 << 20];
        for round in 1..30_u8 {
            let some: Vec<usize> = (0..300).map(|_| random.random_range(0..2048)).collect();
            let indices: Vec<u64> = some.iter().map(|row| own[*row]).collect();
            file.scatter(&indices, &[round; 300 << 10]).expect("scattered");
            some.iter().for_each(|row| last[*row] = round);
            file.gather(&own, &mut into).expect("gathered");
            for (row, found) in into.chunks(1024).enumerate() {
                assert!(found.iter().all(|byte| *byte == last[row]), "row {row} in {round}");
            }
        }
    };
    watched(&file, || {
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| drop(scope.spawn(move || work(thread))));
        });
    });
}
