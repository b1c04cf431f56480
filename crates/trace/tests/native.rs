//! A trace in native form is read whole and exactly, or refused with the place at fault.

mod common;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use common::any_trace;
use ebbtide_core::{Addr, PageId, Time, crc32c, crc32c_append};
use ebbtide_trace::native::{NativeError, NativeReader, NativeWriter};
use ebbtide_trace::{Access, Compression, Input, Op, Output, Source, TraceError, open};
use proptest::prelude::*;

/// `trace` in native form.
fn written(trace: &[Access], description: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.ebt");
    let output = Output::create(&path, Compression::None).expect("a new file");
    let mut writer = NativeWriter::new(output, description).expect("room");
    trace.iter().for_each(|access| writer.write(access).expect("room"));
    writer.finish().expect("room");
    fs::read(&path).expect("the file")
}

fn read(bytes: &[u8]) -> (Vec<Access>, Option<TraceError>) {
    let input = Input::new("t.ebt", Cursor::new(bytes.to_vec())).expect("bytes in memory");
    let mut reader = match NativeReader::new(input) {
        Ok(reader) => reader,
        Err(fault) => return (Vec::new(), Some(fault)),
    };
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    loop {
        let more = reader.fill(&mut batch);
        all.append(&mut batch);
        match more {
            Ok(true) => {}
            Ok(false) => return (all, None),
            Err(fault) => return (all, Some(fault)),
        }
    }
}

/// Reads and writes of neighbours and of strangers, over several blocks.
fn long_trace() -> Vec<Access> {
    let op = |n: u64| [Op::Read, Op::Read, Op::Write][(n % 3) as usize];
    let access = |n: u64| Access {
        at: Time::from_ps(n * 1500),
        address: Addr(if n.is_multiple_of(5) { n * n * 64 } else { 0x1000_0000 + n * 64 }),
        frame: (!n.is_multiple_of(7)).then_some(PageId((n * 64 / 4096) ^ 0x155)),
        device: 0,
        thread: 0,
        bytes: 64,
        op: op(n),
    };
    (0..150_000).map(access).collect()
}

#[test]
fn a_long_trace_comes_back_and_takes_few_bytes() {
    let trace = long_trace();
    let bytes = written(&trace, "made up");
    let (read, fault) = read(&bytes);
    assert!(fault.is_none() && read == trace, "{fault:?}");
    assert!(bytes.len() < 4 * trace.len(), "{} bytes", bytes.len());
}

#[test]
fn an_empty_trace_has_no_entries_and_keeps_its_description() {
    let bytes = written(&[], "nothing at all: ∅");
    let (entries, fault) = read(&bytes);
    assert!(fault.is_none() && entries.is_empty());
    let input = Input::new("t.ebt", Cursor::new(bytes)).expect("bytes in memory");
    let reader = NativeReader::new(input).expect("a trace");
    assert_eq!(reader.description(), "nothing at all: ∅");
}

#[test]
fn a_cut_anywhere_is_noticed_and_says_what_was_read_before() {
    let trace = long_trace();
    let whole = written(&trace, "made up");
    for length in (8..whole.len()).step_by(whole.len() / 61).chain([whole.len() - 1]) {
        let (read, fault) = read(&whole[..length]);
        let fault = fault.expect("a cut");
        assert!(
            matches!(fault, TraceError::Native { problem: NativeError::CutShort { .. }, .. }),
            "{fault}"
        );
        let said = format!("t.ebt: {} entries were read; at byte ", read.len());
        assert!(fault.to_string().starts_with(&said), "{fault}");
        assert!(trace.starts_with(&read));
        assert!(read.len().is_multiple_of(1 << 16) || read.len() == trace.len(), "whole blocks");
    }
}

#[test]
fn a_byte_changed_anywhere_is_noticed() {
    let trace = long_trace();
    let whole = written(&trace, "made up");
    for at in (0..60).chain((60..whole.len()).step_by(whole.len() / 97)) {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        let (read, fault) = read(&changed);
        assert!(fault.is_some() && trace.starts_with(&read), "byte {at}");
    }
    let longer = [&whole[..], b"x"].concat();
    let message = read(&longer).1.expect("a byte too many").to_string();
    assert!(message.ends_with("corrupt, expected the end of the file"), "{message}");
}

#[test]
fn a_later_version_is_named() {
    let mut bytes = written(&[], "");
    bytes[8] = 3;
    let message = read(&bytes).1.expect("version 3").to_string();
    assert!(message.ends_with("at byte 0 it is of format version 3, expected 1 or 2"), "{message}");
}

/// `bytes`, a trace of one thread and one block, as version 1 has it: without a column of threads.
fn of_version_1(bytes: &[u8]) -> Vec<u8> {
    // The header has 20 bytes, that of a block 16, and the end block 24.
    let (header, rest) = bytes.split_at(20);
    let (block, end) = rest.split_at(rest.len() - 24);
    let raw = zstd::bulk::decompress(&block[16..], 1 << 24).expect("a block");
    assert_eq!(raw[20..24], [0; 4], "no thread follows");
    let raw = [&raw[..20], &raw[24..]].concat();
    let stored = zstd::bulk::compress(&raw, 1).expect("bytes in memory");
    let lengths = [raw.len(), stored.len()].map(|length| (length as u32).to_le_bytes());
    let numbers = [&block[..4], lengths.as_flattened()].concat();
    let checksum = crc32c_append(crc32c(&numbers), &stored).to_le_bytes();
    let mut header = header[..16].to_vec();
    header[8] = 1;
    header.extend(crc32c(&header).to_le_bytes());
    [&header, &numbers, &checksum[..], &stored, end].concat()
}

#[test]
fn a_trace_of_version_1_is_read_as_one_thread() {
    let trace = &long_trace()[..10_000];
    let (entries, fault) = read(&of_version_1(&written(trace, "")));
    assert!(fault.is_none() && entries == trace, "{fault:?}");
}

#[test]
fn the_example_of_the_documentation_has_the_bytes_that_are_written() {
    let access = |ns: u64, page: u64, thread, op| Access {
        thread,
        ..Access::new(Time::from_ps(ns), Addr(page * 4096), 64, op)
    };
    let trace = [access(0, 1, 0, Op::Read), access(500, 2, 1, Op::Write)];
    let bytes = written(&trace, "");
    let raw = zstd::bulk::decompress(&bytes[36..bytes.len() - 24], 1 << 10).expect("a block");
    let text = include_str!("../../../docs/TRACE_FORMAT.md");
    let (_, example) = text.split_once("## Example").expect("an example");
    let cells = example.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let shown = cells.flat_map(|(bytes, _)| bytes.split(' '));
    let shown = shown.map(|byte| u8::from_str_radix(byte, 16).expect("a byte"));
    assert_eq!(raw, shown.collect::<Vec<u8>>());
}

#[test]
fn threads_that_take_turns_come_back_and_cost_little() {
    let turns = |length: u64| {
        let mut trace = long_trace();
        let threads = (0..).map(|n: u64| (n / length % 4) as u32);
        trace.iter_mut().zip(threads).for_each(|(access, thread)| access.thread = thread);
        trace
    };
    let alone = written(&long_trace(), "").len();
    for (length, bytes) in [(1_000, 0.01), (1, 2.0)] {
        let trace = turns(length);
        let stored = written(&trace, "");
        let (entries, fault) = read(&stored);
        assert!(fault.is_none() && entries == trace, "{fault:?}");
        let more = (stored.len() as f64 - alone as f64) / trace.len() as f64;
        assert!(more < bytes, "{more} more bytes an entry with turns of {length}");
    }
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(trace in any_trace()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace");
        write(&path, &trace);
        let read: Result<Vec<_>, _> = open(&path).expect("the file").accesses().collect();
        prop_assert_eq!(read.expect("a trace"), trace);
    }

    /// With every checksum right, so that the decoder itself is put to the test.
    #[test]
    fn columns_of_any_bytes_are_refused_or_read_without_panic(
        entries in 1..300_usize, mut raw in prop::collection::vec(any::<u8>(), 24..2000),
        plausible in any::<bool>(),
    ) {
        if plausible {
            // Tags that exist, and lengths that fit.
            raw.resize(raw.len().max(24 + entries + 2), 0);
            raw[24..24 + entries].iter_mut().for_each(|tag| *tag &= 0x7d);
            raw[..24].fill(0);
            let rest = (raw.len() - 24 - entries) as u32;
            for column in 0..6 {
                let length = if column < 5 { rest / 6 } else { rest - rest / 6 * 5 };
                raw[4 * column..][..4].copy_from_slice(&length.to_le_bytes());
            }
        }
        let stored = zstd::bulk::compress(&raw, 1).expect("bytes in memory");
        let numbers = [entries, raw.len(), stored.len()].map(|n| (n as u32).to_le_bytes());
        let numbers = numbers.as_flattened();
        let checksum = crc32c_append(crc32c(numbers), &stored);
        let mut bytes = written(&[], "");
        bytes.truncate(20);
        bytes.extend(numbers);
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(stored);
        let (read, fault) = read(&bytes);
        prop_assert!(read.len() <= entries && fault.is_some());
    }
}

#[test]
fn a_file_appears_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.ebt");
    let output = Output::create(&path, Compression::None).expect("a new file");
    let mut writer = NativeWriter::new(output, "").expect("room");
    long_trace().iter().for_each(|access| writer.write(access).expect("room"));
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

fn write(path: &Path, trace: &[Access]) {
    fs::write(path, written(trace, "")).expect("room");
}
