//! A trace in text form is read whole and exactly, or refused with the line and the field at fault.

use std::fs;
use std::io::{Cursor, Read};

use ebbtide_core::{Addr, Time};
use ebbtide_trace::text::{TextReader, TextWriter};
use ebbtide_trace::{Access, Compression, Input, Op, Output, Source, TraceError, open};
use proptest::prelude::*;

fn reader(bytes: impl Into<Vec<u8>>) -> TextReader {
    TextReader::new(Input::new("t.txt", Cursor::new(bytes.into())).expect("bytes in memory"))
}

fn read(bytes: impl Into<Vec<u8>>) -> Result<Vec<Access>, TraceError> {
    reader(bytes).accesses().collect()
}

fn message(bytes: impl Into<Vec<u8>>) -> String {
    read(bytes).expect_err("the input is wrong").to_string()
}

fn access(ps: u64, address: u64, bytes: u32, write: bool) -> Access {
    let op = if write { Op::Write } else { Op::Read };
    Access::new(Time::from_ps(ps), Addr(address), bytes, op)
}

/// Reads at most `step` bytes at once, as a pipe may.
struct Slow(Cursor<Vec<u8>>, usize);

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let room = buffer.len().min(self.1);
        self.0.read(&mut buffer[..room])
    }
}

#[test]
fn fields_are_read_in_the_published_order() {
    let text =
        "12 0 4096 8 1\n12 0 0xFFFFFFFFFFFFFFC0 64 0\r\n\n15.25\t3  18446744073709551615 1 1";
    let expected = vec![
        access(12_000, 4096, 8, false),
        access(12_000, 0xffff_ffff_ffff_ffc0, 64, true),
        Access { device: 3, ..access(15_250, u64::MAX, 1, false) },
    ];
    assert_eq!(read(text).expect("a trace"), expected);
}

#[test]
fn an_empty_trace_has_no_accesses() {
    assert_eq!(read("").expect("a trace"), []);
    assert_eq!(read("\n \n").expect("a trace"), []);
}

#[test]
fn every_wrong_field_is_named_with_its_line() {
    for (line, expected) in [
        ("5 0 64 8 7", "'rw': expected 1 (read) or 0 (write), found '7'"),
        ("5 0 64 8 R", "'rw': expected 1 (read) or 0 (write), found 'R'"),
        ("5 0 64 8 01", "'rw': expected 1 (read) or 0 (write), found '01'"),
        ("5 0 64 0 1", "'size': expected a number of bytes from 1 to 2^32 - 1, found '0'"),
        ("5 0 64 4294967296 1", "'size': expected a number of bytes from 1 to 2^32 - 1"),
        ("5 -1 64 8 1", "'device': expected a number below 2^32, found '-1'"),
        ("5 0 0x 8 1", "'address': expected a decimal or 0x hexadecimal number below 2^64"),
        ("5 0 18446744073709551616 8 1", "'address': expected a decimal or 0x hexadecimal"),
        ("5 0 0x1ffffffffffffffff 8 1", "'address': expected a decimal or 0x hexadecimal"),
        ("18446744073709552 0 64 8 1", "'time': expected nanoseconds below 18446744073709551"),
        ("5.1234 0 64 8 1", "'time': expected nanoseconds below"),
        ("5. 0 64 8 1", "'time': expected nanoseconds below"),
        ("3.999 0 64 8 1", "'time': expected at least 4 ns, the time before it, found '3.999'"),
        ("5 0 64", "'size' is missing: expected 'time_ns device byte_address size rw'"),
        ("\u{7}x\u{1b} 0 64 8 1", "'time': expected nanoseconds"),
        ("5 0 18446744073709551615 2 1", "s 'address' and 'size': 2 bytes from"),
    ] {
        let message = message(format!("4 0 64 8 1\n{line}\n9 0 64 8 1\n"));
        assert!(message.starts_with("t.txt:2: field"), "{line}: {message}");
        assert!(message.contains(expected), "{line}: {message}");
        assert!(!message.contains(char::is_control), "{message:?}");
    }
    let too_many = message("4 0 64 8 1\n5 0 64 8 1 6\n");
    assert_eq!(too_many, "t.txt:2: expected the line to end after field 'rw', found '6'");
}

#[test]
fn whatever_is_no_trace_is_refused_in_one_short_line() {
    let endless = message(vec![b'7'; 1 << 20]);
    assert!(endless.contains("t.txt:1: the line is longer than 4096 bytes"), "{endless}");
    let binary = message([0xff_u8; 300].into_iter().chain(*b" 1\n").collect::<Vec<_>>());
    assert!(binary.starts_with("t.txt:1: field 'time'") && binary.len() < 300, "{binary}");
}

#[test]
fn a_cut_anywhere_is_noticed_unless_it_takes_whole_lines() {
    let text = "10 0 4096 8 1\n20 0 8192 64 0\n";
    for length in 0..=text.len() {
        let whole = [0, 13, 14, 28, 29].contains(&length);
        match read(&text[..length]) {
            Ok(accesses) => {
                assert!(whole, "{length}");
                assert_eq!(accesses.len(), length.div_ceil(15));
            }
            Err(fault) => {
                assert!(!whole, "{length}");
                assert!(fault.to_string().ends_with("it was cut short"), "{fault}");
            }
        }
    }
}

#[test]
fn accesses_before_a_fault_are_given_and_none_after_it() {
    let mut accesses = reader("1 0 64 8 1\n2 0 64 8 x\n3 0 64 8 1\n").accesses();
    assert!(matches!(accesses.next(), Some(Ok(_))));
    assert!(matches!(accesses.next(), Some(Err(TraceError::Line { line: 2, .. }))));
    assert!(accesses.next().is_none());
}

/// Many lines of growing length, longer in total than any buffer.
fn long_trace() -> (String, Vec<Access>) {
    let accesses: Vec<Access> = (0..40_000_u64)
        .map(|n| access(n * n * 977, n.pow(4), n as u32 + 1, n.is_multiple_of(3)))
        .collect();
    let text = accesses.iter().map(|a| {
        let (whole, part) = (a.at.as_ns(), a.at.as_ps() % 1000);
        format!("{whole}.{part:03} 0 {} {} {}\n", a.address.0, a.bytes, u8::from(!a.is_write()))
    });
    (text.collect(), accesses)
}

#[test]
fn zstd_is_recognised_by_its_first_bytes_and_may_have_several_frames() {
    let (text, expected) = long_trace();
    let (first, second) = text.split_at(text.len() / 2);
    let frame = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("bytes in memory");
    let skippable = [&0x184d_2a51_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"abc"].concat();
    let whole = [skippable, frame(first), frame(second)].concat();
    assert_eq!(read(whole).expect("a trace"), expected);
}

#[test]
fn a_zstd_stream_cut_anywhere_is_an_error() {
    let (text, _) = long_trace();
    let whole = zstd::encode_all(text.as_bytes(), 1).expect("bytes in memory");
    for length in (1..whole.len()).step_by(whole.len() / 97).chain([whole.len() - 1]) {
        let message = message(&whole[..length]);
        assert!(message.starts_with("t.txt:"), "{length}: {message}");
    }
}

#[test]
fn a_corrupt_zstd_stream_is_an_error_where_it_carries_a_checksum() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.zst");
    let mut output = Output::create(&path, Compression::Zstd).expect("a new file");
    output.write(long_trace().0.as_bytes()).expect("room");
    output.finish().expect("room");
    let whole = fs::read(&path).expect("a file");
    for at in (8..whole.len()).step_by(whole.len() / 23) {
        let mut corrupt = whole.clone();
        corrupt[at] ^= 0x10;
        assert!(message(corrupt).starts_with(['t', 'c']), "byte {at}");
    }
}

#[test]
fn the_size_of_reads_does_not_matter() {
    let (text, expected) = long_trace();
    for step in [1, 7, 4096, 1 << 20] {
        let slow = Slow(Cursor::new(text.clone().into_bytes()), step);
        let reader = TextReader::new(Input::new("slow", slow).expect("bytes in memory"));
        let accesses: Result<Vec<_>, _> = reader.accesses().collect();
        assert_eq!(accesses.expect("a trace"), expected);
    }
}

fn any_trace() -> impl Strategy<Value = Vec<Access>> {
    let address = prop_oneof![any::<u64>(), 0..1_u64 << 40];
    let span = prop_oneof![0..10_u64, 0..2_000_000_u64, (0..5_000_u64).prop_map(|ns| ns * 1000)];
    let any_access = (span, any::<u32>(), address, 1..=u32::MAX, any::<bool>());
    prop::collection::vec(any_access, 1..200).prop_map(|steps| {
        let mut now = 0;
        let place = |(span, device, address, bytes, write)| {
            now += span;
            let address = Addr(address).0.min(u64::MAX - u64::from(bytes) + 1);
            Access { device, ..access(now, address, bytes, write) }
        };
        steps.into_iter().map(place).collect()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_what_is_read(trace in any_trace(), compress in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(if compress { "trace.txt.zst" } else { "trace.txt" });
        let output = Output::create(&path, Compression::for_path(&path)).expect("a new file");
        let mut writer = TextWriter::new(output);
        for access in &trace {
            writer.write(access).expect("room");
        }
        writer.finish().expect("room");
        let starts_as_zstd = fs::read(&path).expect("a file").starts_with(b"\x28\xb5\x2f\xfd");
        prop_assert_eq!(starts_as_zstd, compress);
        let read: Result<Vec<_>, _> = open(&path).expect("the file").accesses().collect();
        prop_assert_eq!(read.expect("a trace"), trace);
    }
}

#[test]
fn a_file_appears_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    fs::write(&path, "old").expect("room");
    let output = Output::create(&path, Compression::None).expect("a new file");
    let mut writer = TextWriter::new(output);
    writer.write(&access(1000, 64, 8, false)).expect("room");
    drop(writer);
    assert_eq!(fs::read_to_string(&path).expect("a file"), "old");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left behind");
}

#[test]
fn files_that_cannot_be_opened_are_named() {
    let missing = open("no/such/trace".as_ref()).err().expect("there is none").to_string();
    assert!(missing.starts_with("cannot open no/such/trace: "), "{missing}");
    let folder = tempfile::tempdir().expect("a folder");
    let message = open(folder.path()).err().expect("a folder is no trace").to_string();
    assert!(message.starts_with("cannot read "), "{message}");
    let output = Output::create(folder.path(), Compression::None).err().expect("a folder");
    assert!(output.to_string().starts_with("cannot open "), "{output}");
}
