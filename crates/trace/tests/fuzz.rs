//! No input makes a reader panic. Inputs are whole traces of each format with random damage, the
//! same ones in every run.
//!
//! The default is a short run. `EBBTIDE_FUZZ=100000 cargo test --release -p ebbtide-trace --test
//! fuzz` reads that many inputs of each format. `tests/corpus` keeps inputs by format (their
//! ending) that are always read first; put one there that once failed.

use std::fs;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ebbtide_core::{Addr, PageId, Time};
use ebbtide_trace::{Access, Compression, Format, Input, Op, Output, Source};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Inputs of each format without `EBBTIDE_FUZZ`.
const FEW: u64 = 1_000;

fn inputs() -> u64 {
    let asked = std::env::var("EBBTIDE_FUZZ").ok();
    asked.map_or(FEW, |count| count.parse().expect("EBBTIDE_FUZZ is a number"))
}

/// A small trace of every kind of access, as bytes of `format`.
fn whole(format: Format) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    let output = Output::create(&path, Compression::None).expect("a new file");
    let mut sink = format.write(output, "a description").expect("room");
    for n in 0..40_u64 {
        let op = [Op::Read, Op::Write, Op::Hint][(n % 3) as usize];
        let frame = (n % 4 > 0).then_some(PageId(n * 7));
        let (address, bytes) = (Addr(n * n * 4_096 + n), 8 << (n % 5));
        let at = Time::from_ns(n * 100);
        sink.write(&Access { at, address, frame, device: 0, thread: 0, bytes, op }).expect("room");
    }
    sink.finish().expect("room");
    fs::read(&path).expect("the file")
}

/// `bytes` with a few of the kinds of damage that files meet, and some that they do not.
fn damaged(bytes: &[u8], random: &mut Pcg64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..6) {
        let place = random.random_range(0..bytes.len().max(1)).min(bytes.len());
        match random.random_range(0..7) {
            0 => bytes.truncate(place),
            1 if place < bytes.len() => bytes[place] ^= 1 << random.random_range(0..8),
            2 if place < bytes.len() => bytes[place] = random.next_u32() as u8,
            3 => bytes.insert(place, random.next_u32() as u8),
            4 => {
                let end = (place + random.random_range(0..32)).min(bytes.len());
                bytes.drain(place..end);
            }
            5 => {
                let end = (place + random.random_range(0..64)).min(bytes.len());
                let piece = bytes[place..end].to_vec();
                bytes.splice(place..place, piece);
            }
            _ => {
                let odd: [&[u8]; 6] =
                    [b"\n", b"18446744073709551616", b"-1", b",,", b"\xff\xff\xff\xff", b"0x"];
                let odd = odd[random.random_range(0..odd.len())];
                bytes.splice(place..place, odd.iter().copied());
            }
        }
    }
    bytes
}

/// Reads all of `bytes`; true if they are a whole trace. Errors are one line.
fn is_read(format: Format, bytes: Vec<u8>) -> bool {
    let read = || -> Result<(), ebbtide_trace::TraceError> {
        let mut source = format.read(Input::new("input", Cursor::new(bytes))?)?;
        let mut batch = Vec::new();
        while source.fill(&mut batch)? {}
        Ok(())
    };
    match read() {
        Ok(()) => true,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            false
        }
    }
}

fn check(format: Format, bytes: &[u8]) -> bool {
    let read = catch_unwind(AssertUnwindSafe(|| is_read(format, bytes.to_vec())));
    read.unwrap_or_else(|_| {
        let kept = std::env::temp_dir().join(format!("failed.{format}"));
        fs::write(&kept, bytes).expect("room");
        panic!("{format}: a reader panics at the input kept in {}", kept.display())
    })
}

#[test]
fn what_failed_once_is_refused_or_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("the corpus").flatten() {
        let path = entry.path();
        let format = Format::of_name(&path).expect("a known ending").expect("an ending");
        check(format, &fs::read(&path).expect("the file"));
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn no_damage_makes_a_reader_panic() {
    for format in Format::ALL {
        let whole = whole(format);
        assert!(check(format, &whole), "{format}");
        let (mut random, mut read) = (Pcg64::seed_from_u64(1), 0);
        for _ in 0..inputs() {
            read += u64::from(check(format, &damaged(&whole, &mut random)));
        }
        println!("{format}: {} inputs, {read} of them whole", inputs());
    }
}
