//! Speed of reading traces in accesses a second of one core, in text and native form. The traces
//! are made up, with half of the addresses random, or from real programs (`traces/`).
//!
//!     cargo bench -p ebbtide-trace --bench formats

use std::fs;
use std::io::Cursor;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ebbtide_core::{Addr, PageId, Time};
use ebbtide_trace::native::{NativeReader, NativeWriter};
use ebbtide_trace::text::{TextReader, TextWriter};
use ebbtide_trace::{Access, Compression, Input, Op, Output, Source};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const ACCESSES: u64 = 1_000_000;

/// Accesses like a traced program's: lines of 64 bytes about every 200 ns, within 4 GiB. Half of
/// them continue one of eight streams, and half are random.
fn accesses() -> Vec<Access> {
    let mut random = Pcg64::seed_from_u64(1);
    let mut streams = [0_u64; 8].map(|_| random.random_range(0..1_u64 << 26));
    let mut time = 0;
    let mut access = |_| {
        time += random.random_range(0..400) * 1000;
        let line = if random.random_bool(0.5) {
            let stream = &mut streams[random.random_range(0..8)];
            *stream += 1;
            *stream
        } else {
            random.random_range(0..1_u64 << 26)
        };
        let address = Addr(0x7f00_0000_0000 + line * 64);
        let op = if random.random_bool(0.6) { Op::Read } else { Op::Write };
        Access::new(Time::from_ps(time), address, 64, op)
    };
    (0..ACCESSES).map(&mut access).collect()
}

/// The bytes of a file that `write` fills.
fn file(name: &str, write: impl FnOnce(Output)) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    write(Output::create(&path, Compression::for_path(&path)).expect("a new file"));
    fs::read(&path).expect("the file")
}

fn text(name: &str, accesses: &[Access]) -> Vec<u8> {
    file(name, |output| {
        let mut writer = TextWriter::new(output);
        accesses.iter().for_each(|access| writer.write(access).expect("room"));
        writer.finish().expect("room");
    })
}

fn native(accesses: &[Access]) -> Vec<u8> {
    file("native.ebt", |output| {
        let mut writer = NativeWriter::new(output, "").expect("room");
        accesses.iter().for_each(|access| writer.write(access).expect("room"));
        writer.finish().expect("room");
    })
}

fn read(mut reader: impl Source) -> u64 {
    let (mut batch, mut sum) = (Vec::new(), 0_u64);
    while reader.fill(&mut batch).expect("a valid trace") {
        sum = batch.iter().fold(sum, |sum, access| sum.wrapping_add(access.address.0));
    }
    sum
}

fn input(bytes: &[u8]) -> Input {
    Input::new("bench", Cursor::new(bytes.to_vec())).expect("bytes in memory")
}

fn readers(criterion: &mut Criterion) {
    let virtual_only = accesses();
    let both: Vec<_> = virtual_only
        .iter()
        .map(|&access| Access { frame: Some(PageId(access.address.page().0 ^ 0x5555)), ..access })
        .collect();
    let (plain, zstd) = (text("plain.txt", &virtual_only), text("text.zst", &virtual_only));
    let natives = [native(&virtual_only), native(&both)];
    for (name, bytes) in ["virtual", "virtual and physical"].iter().zip(&natives) {
        println!("native, {name}: {:.2} bytes an access", bytes.len() as f64 / ACCESSES as f64);
    }
    let mut group = criterion.benchmark_group("read");
    group.throughput(Throughput::Elements(ACCESSES)).sample_size(20);
    let programs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces"));
    let native = |bytes: &[u8]| read(NativeReader::new(input(bytes)).expect("a trace"));
    group.bench_function("native", |bencher| bencher.iter(|| native(&natives[0])));
    group.bench_function("native with frames", |bencher| bencher.iter(|| native(&natives[1])));
    for program in ["perl", "sort", "sqlite", "xz"] {
        let bytes = fs::read(programs.join(program).with_extension("ebt")).expect("a trace");
        let accesses = NativeReader::new(input(&bytes)).expect("a trace").accesses().count();
        println!("{program}: {:.2} bytes an access", bytes.len() as f64 / accesses as f64);
        group.throughput(Throughput::Elements(accesses as u64));
        group.bench_function(program, |bencher| bencher.iter(|| native(&bytes)));
    }
    group.throughput(Throughput::Elements(ACCESSES));
    group.bench_function("text", |bencher| bencher.iter(|| read(TextReader::new(input(&plain)))));
    group.bench_function("text zstd", |bencher| {
        bencher.iter(|| read(TextReader::new(input(&zstd))));
    });
}

criterion_group!(benches, readers);
criterion_main!(benches);
