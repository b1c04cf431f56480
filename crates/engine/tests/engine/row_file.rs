//! Rows gathered from a file are the file's rows, in any order, from any number of threads.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use ebbtide_engine::{Options, RowError, RowFile, RowRun};
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use crate::common::watched;

/// A file of `bytes` bytes that tell their place.
fn file(bytes: usize) -> (TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let path = folder.path().join("rows");
    let contents: Vec<u8> = (0..bytes as u64)
        .map(|place| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    fs::write(&path, &contents).expect("written");
    (folder, path, contents)
}

fn options() -> Options {
    Options::new(2 << 20)
}

#[test]
fn rows_of_any_width_and_place_are_those_of_the_file() {
    let (_folder, path, contents) = file(8 << 20);
    let mut random = rand_pcg::Pcg64::seed_from_u64(1);
    for (offset, row_bytes) in [(0, 512), (128, 512), (77, 100), (3, 4096), (1, 10_001), (5, 1)] {
        let rows = ((contents.len() - offset) / row_bytes) as u64;
        let run = RowRun { offset: offset as u64, rows };
        let file = RowFile::open(&path, &[run], row_bytes, &options()).expect("it opens");
        assert_eq!((file.rows(), file.row_bytes()), (rows, row_bytes));
        for count in [0, 1, 3, 1000] {
            let indices: Vec<u64> = (0..count).map(|_| random.random_range(0..rows)).collect();
            let mut into = vec![0; count * row_bytes];
            watched(&file, || {
                file.prefetch(&indices[..count / 2]).expect("they exist");
                file.gather(&indices, &mut into).expect("read");
            });
            for (index, row) in indices.iter().zip(into.chunks(row_bytes)) {
                let at = offset + *index as usize * row_bytes;
                assert!(row == &contents[at..at + row_bytes], "row {index} of {row_bytes} bytes");
            }
        }
    }
}

#[test]
fn rows_in_several_runs_are_numbered_through() {
    let (_folder, path, contents) = file(1 << 20);
    let runs = [(500_000, 100), (64, 7), (900_000, 0), (100_000, 1000)];
    let places: Vec<usize> = runs
        .iter()
        .flat_map(|(offset, rows)| (0..*rows).map(move |row| offset + row * 48))
        .collect();
    let runs = runs.map(|(offset, rows)| RowRun { offset: offset as u64, rows: rows as u64 });
    let file = RowFile::open(&path, &runs, 48, &options()).expect("it opens");
    assert_eq!(file.rows(), 1107);
    let indices: Vec<u64> = (0..1107).rev().collect();
    let mut into = vec![0; 1107 * 48];
    watched(&file, || file.gather(&indices, &mut into).expect("read"));
    for (index, row) in indices.iter().zip(into.chunks(48)) {
        let at = places[*index as usize];
        assert!(row == &contents[at..at + 48], "row {index}");
    }
}

/// The last page of the rows was taken for cut short when the file ended in it, but behind the
/// rows.
#[test]
fn the_file_may_end_a_little_behind_the_rows() {
    let (_folder, path, contents) = file((1 << 20) + 1000);
    let run = RowRun { offset: 100, rows: (1 << 20) / 100 };
    let file = RowFile::open(&path, &[run], 100, &options()).expect("it opens");
    let mut into = vec![0; 100];
    watched(&file, || file.gather(&[run.rows - 1], &mut into).expect("read"));
    let at = 100 + (run.rows - 1) as usize * 100;
    assert!(into == contents[at..at + 100]);
}

#[test]
fn threads_gather_at_once() {
    let (_folder, path, contents) = file(4 << 20);
    let run = RowRun { offset: 0, rows: 8192 };
    let options = Options { cores: 2, ..options() };
    let file = RowFile::open(&path, &[run], 512, &options).expect("it opens");
    let gather = &|thread: u64| {
        let mut random = rand_pcg::Pcg64::seed_from_u64(thread);
        for _ in 0..20 {
            let indices: Vec<u64> = (0..200).map(|_| random.random_range(0..8192)).collect();
            let mut into = vec![0; 200 * 512];
            file.gather(&indices, &mut into).expect("read");
            for (index, row) in indices.iter().zip(into.chunks(512)) {
                let at = *index as usize * 512;
                assert!(row == &contents[at..at + 512], "row {index}");
            }
        }
    };
    watched(&file, || {
        std::thread::scope(|scope| {
            (0..4).for_each(|thread| drop(scope.spawn(move || gather(thread))));
        });
    });
    assert!(file.counters().misses > 0);
}

/// Rows are taken in the order of the file, in parts of 262,144. The next part begins before one
/// ends.
#[test]
fn several_parts_are_in_the_order_of_their_indices() {
    let (_folder, path, contents) = file(1 << 20);
    let file = RowFile::open(&path, &[RowRun { offset: 3, rows: 100_000 }], 10, &options());
    let file = file.expect("it opens");
    let mut random = rand_pcg::Pcg64::seed_from_u64(2);
    let indices: Vec<u64> = (0..600_000).map(|_| random.random_range(0..100_000)).collect();
    let mut into = vec![0; indices.len() * 10];
    watched(&file, || file.gather(&indices, &mut into).expect("read"));
    for (index, row) in indices.iter().zip(into.chunks(10)) {
        let at = 3 + *index as usize * 10;
        assert!(row == &contents[at..at + 10], "row {index}");
    }
}

const MIB: usize = 1 << 20;

/// 300 rows of a mebibyte. They take far longer than the time between two checks.
fn long_gather(path: &Path) -> (RowFile, Vec<u64>, Vec<u8>) {
    let file = RowFile::open(path, &[RowRun { offset: 0, rows: 8 }], MIB, &options());
    (file.expect("it opens"), (0..300).map(|row| row % 8).collect(), vec![0; 300 * MIB])
}

/// Rows that were written to their end, which is not 0.
fn whole_rows(rows: &[u8]) -> usize {
    rows.chunks(MIB).filter(|row| !row.ends_with(&[0])).count()
}

#[test]
fn a_gather_ends_when_its_caller_gives_it_up() {
    let (_folder, path, contents) = file(8 * MIB);
    assert_eq!(whole_rows(&contents), 8);
    let (file, indices, mut into) = long_gather(&path);
    let mut asked = 0;
    let error = file.gather_while(&indices, &mut into, || {
        asked += 1;
        false
    });
    assert!(matches!(error, Err(RowError::Stopped)) && asked == 1, "{error:?} after {asked}");
    assert!(whole_rows(&into) < 300, "it went on to the end");
    let mut row = vec![0; MIB];
    watched(&file, || file.gather(&[2], &mut row).expect("read"));
    assert!(row == contents[2 * MIB..3 * MIB]);
}

/// No job may write into buffers that unwinding gives back.
#[test]
fn a_caller_that_panics_while_asked_waits_for_its_jobs() {
    let (_folder, path, _) = file(8 * MIB);
    let (file, indices, mut into) = long_gather(&path);
    let panics = || file.gather_while(&indices, &mut into, || panic!("asked"));
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    let written = whole_rows(&into);
    // Behind every job that might still be there.
    watched(&file, || file.gather(&[1; 64], &mut vec![0; 64 * MIB]).expect("read"));
    assert_eq!(whole_rows(&into), written);
}

#[test]
fn what_cannot_be_gathered_is_told_in_a_line() {
    let (_folder, path, _) = file(1 << 20);
    let open = |offset, rows, row_bytes| {
        RowFile::open(&path, &[RowRun { offset, rows }], row_bytes, &options())
    };
    assert!(matches!(open(0, 0, 512), Err(RowError::Empty)));
    assert!(matches!(open(0, 1, 0), Err(RowError::Empty)));
    assert!(matches!(open(u64::MAX, 2, 512), Err(RowError::Beyond)));
    assert!(matches!(open(0, u64::MAX, 512), Err(RowError::Beyond)));
    assert!(matches!(open(0, 2049, 512), Err(RowError::Engine(_))));
    let small = Options::new(1 << 10);
    let run = RowRun { offset: 0, rows: 2048 };
    let error = RowFile::open(&path, &[run], 512, &small).expect_err("it is refused");
    assert!(error.to_string().contains("a DRAM budget of 1024 bytes is too small"), "{error}");

    let file = open(0, 2048, 512).expect("it opens");
    let mut into = vec![0; 512];
    let error = file.gather(&[2048], &mut into).unwrap_err().to_string();
    assert_eq!(error, "index 2048 is out of bounds: expected 0 to 2047");
    assert!(file.prefetch(&[u64::MAX]).is_err());
    let error = file.gather(&[1, 2], &mut into).unwrap_err().to_string();
    assert_eq!(error, "a buffer of 512 bytes: expected 1024, a row an index");

    // What was cut off cannot be read; the rest can.
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 19).unwrap();
    let error = watched(&file, || file.gather(&[2047], &mut into)).unwrap_err().to_string();
    assert!(error.starts_with("a row cannot be read: page 255"), "{error}");
}

/// A slice, a column and every second row are read in large blocks, past the cache.
#[test]
fn dense_rows_are_those_of_the_file_and_leave_the_cache_alone() {
    let (_folder, path, contents) = file((16 << 20) + 123);
    for (offset, row_bytes, columns) in [
        (4096, 512, 0..512),
        (128, 512, 100..104),
        (77, 100, 0..100),
        (3, 4096, 10..20),
        (1, 70_001, 0..70_001),
        (1, 200_001, 5..190_000),
        (5, 16, 3..4),
    ] {
        let rows = ((contents.len() - offset) / row_bytes) as u64;
        let run = RowRun { offset: offset as u64, rows };
        let file = RowFile::open(&path, &[run], row_bytes, &options()).expect("it opens");
        let orders: [Vec<u64>; 3] =
            [(0..rows).collect(), (0..rows).rev().collect(), (0..rows).step_by(2).collect()];
        for indices in orders {
            let width = columns.len();
            let mut into = vec![0; indices.len() * width];
            watched(&file, || {
                file.gather_columns_while(&indices, columns.clone(), &mut into, || true)
                    .expect("read");
            });
            for (index, row) in indices.iter().zip(into.chunks(width)) {
                let at = offset + *index as usize * row_bytes;
                let expected = &contents[at + columns.start..at + columns.end];
                assert!(row == expected, "row {index} of {row_bytes} bytes");
            }
        }
        // Of the longest rows some end too far behind their block. Of many rows the last part is
        // short.
        if row_bytes < 4096 {
            assert!(file.counters().flash_reads < 100, "rows of {row_bytes} bytes");
        }
    }
}

#[test]
fn dense_rows_behind_the_end_of_a_file_that_was_cut_are_an_error() {
    let (_folder, path, _) = file(8 << 20);
    let run = RowRun { offset: 0, rows: 16 << 10 };
    let file = RowFile::open(&path, &[run], 512, &options()).expect("it opens");
    fs::OpenOptions::new().write(true).open(&path).expect("opens").set_len(6 << 20).expect("cut");
    let indices: Vec<u64> = (0..16 << 10).collect();
    let mut into = vec![0; 8 << 20];
    let cut = watched(&file, || file.gather(&indices, &mut into));
    assert!(matches!(cut, Err(RowError::Read(_))), "{cut:?}");
}

#[test]
fn a_gather_of_dense_rows_ends_when_its_caller_gives_it_up() {
    let (_folder, path, _) = file(8 << 20);
    let run = RowRun { offset: 0, rows: 16 << 10 };
    let file = RowFile::open(&path, &[run], 512, &options()).expect("it opens");
    let indices: Vec<u64> = (0..16 << 10).cycle().take(1 << 20).collect();
    let mut into = vec![0; 512 << 20];
    let stopped = watched(&file, || file.gather_while(&indices, &mut into, || false));
    assert!(matches!(stopped, Err(RowError::Stopped)), "{stopped:?}");
}
