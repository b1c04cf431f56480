//! Every form returns the entries that it can hold, is known by its name, and refuses foreign
//! entries.

mod common;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use common::any_trace;
use ebbtide_core::{Addr, PageId, Span, Time};
use ebbtide_trace::{
    Access, Compression, Format, Hinted, Hints, Input, Mapped, Mapping, Op, Output, Physical,
    Source, Statistics, TraceError, copy_to, open, open_as,
};
use proptest::prelude::*;

fn write(format: Format, path: &Path, trace: &[Access]) {
    let output = Output::create(path, Compression::None).expect("a new file");
    let mut sink = format.write(output, "").expect("room");
    trace.iter().for_each(|access| sink.write(access).expect("room"));
    sink.finish().expect("room");
}

fn read(path: &Path) -> Result<Vec<Access>, TraceError> {
    open(path)?.accesses().collect()
}

fn complaint(name: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("room");
    let said = read(&path).expect_err("no trace").to_string();
    assert!(!said.contains('\n') && said.contains(name), "{said}");
    said
}

/// Returns the part of `access` that `format` can hold. `number` is its place in the trace, and
/// `threads` are those of the accesses up to it, in the order of their first ones.
fn held(format: Format, access: Access, number: u64, threads: &[u32]) -> Option<Access> {
    if matches!(format, Format::Native | Format::Csv) {
        return Some(access);
    }
    let Access { at, address, op, .. } = access;
    let plain = Access { frame: None, device: 0, thread: 0, ..access };
    // A line at the very end of the address space is not whole.
    let lists = Access { bytes: (u64::MAX - address.0).min(63) as u32 + 1, ..plain };
    match (format, op) {
        (_, Op::Hint) => None,
        (Format::Text, _) => Some(Access { frame: None, thread: 0, ..access }),
        (Format::Lackey, _) => Some(Access { at: Time::ZERO, ..plain }),
        (Format::Ramulator, _) => Some(Access { at: Time::from_ns(number), ..lists }),
        (Format::Dramsim3, _) => Some(Access { at: Time::from_ns(at.as_ns()), ..lists }),
        (Format::OracleGeneral, _) => {
            // Whole seconds, of which these traces have none, and reads.
            Some(Access { at: Time::ZERO, op: Op::Read, ..plain })
        }
        (Format::Drmemtrace, _) => {
            let place = threads.iter().position(|thread| *thread == access.thread);
            let thread = place.expect("its own thread is among them") as u32;
            Some(Access { at: Time::ZERO, thread, ..plain })
        }
        (Format::ChampSim, _) => {
            // Half a nanosecond and a word an instruction. Address 0 means none.
            let address = address.0.max(1);
            let bytes = (u64::MAX - address).min(7) as u32 + 1;
            Some(Access { at: Time::from_ps(500 * number), address: Addr(address), bytes, ..plain })
        }
        (Format::Native | Format::Csv, _) => unreachable!("both hold everything"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_both_forms_hold_comes_back(trace in any_trace()) {
        let folder = tempfile::tempdir().expect("a folder");
        for format in Format::ALL {
            let name = format.name();
            let path = folder.path().join(format!("trace.{name}"));
            write(format, &path, &trace);
            let (mut number, mut should, mut threads) = (0, Vec::new(), Vec::new());
            for access in &trace {
                if access.op != Op::Hint && !threads.contains(&access.thread) {
                    threads.push(access.thread);
                }
                should.extend(held(format, *access, number, &threads));
                number += u64::from(access.op != Op::Hint);
            }
            if should.is_empty() {
                continue;
            }
            prop_assert_eq!(read(&path).expect("a trace"), should, "{}", name);
        }
    }

    #[test]
    fn hints_come_one_lead_before_their_accesses_and_change_nothing_else(trace in any_trace()) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("trace.ebt");
        let trace: Vec<_> = trace.into_iter().filter(|access| access.op != Op::Hint).collect();
        write(Format::Native, &path, &trace);
        let lead = Span::from_ns(1000);
        let hints = Hints { top: 0.5, chance: 1.0, lead, seed: 1 };
        let hottest = hints.hottest(&mut open(&path).expect("a trace")).expect("a trace");
        let pages = hottest.clone();
        let hinted = Hinted::new(open(&path).expect("a trace"), hints, hottest);
        let all: Vec<_> = hinted.accesses().collect::<Result<_, _>>().expect("a trace");
        prop_assert!(all.is_sorted_by_key(|access| access.at));
        let (told, accesses): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|access| access.op == Op::Hint);
        let page = |access: &Access| access.frame.unwrap_or(access.address.page());
        let should: Vec<_> = trace
            .iter()
            .filter(|access| pages.contains(&page(access)))
            .map(|access| (access.address, access.at.as_ps().saturating_sub(lead.as_ps())))
            .collect();
        let told: Vec<_> = told.iter().map(|hint| (hint.address, hint.at.as_ps())).collect();
        prop_assert_eq!(accesses, trace);
        prop_assert_eq!(told, should);
    }
}

#[test]
fn dram_simulators_lists_are_read_whoever_wrote_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("list.ramulator");
    let text = "0x40 R\n0x80 WRITE 7\nST 128\n0xc0 P_MEM_RD 9\n";
    fs::write(&path, text).expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let found: Vec<_> = found.iter().map(|a| (a.address.0, a.op, a.at.as_ns())).collect();
    let should = [(64, Op::Read, 0), (128, Op::Write, 7), (128, Op::Write, 8), (192, Op::Read, 9)];
    assert_eq!(found, should);
    for (words, op) in [
        (&["P_FETCH", "IFETCH", "P_LOCK_RD", "P_LOCK_WR"][..], Op::Read),
        (&["P_MEM_WR", "BOFF"], Op::Write),
    ] {
        for word in words {
            fs::write(&path, format!("0x40 {word} 3\r\n")).expect("room");
            assert_eq!(read(&path).expect("a trace")[0].op, op, "{word}");
        }
    }
}

#[test]
fn an_instruction_of_champsim_reads_and_writes_several_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("400.perlbench-41B.champsimtrace");
    let mut record = [0; 64];
    record[..8].copy_from_slice(&0x40_1000_u64.to_le_bytes());
    for (at, address) in [(16, 0x7f00_u64), (40, 0x1000), (56, 0x2000)] {
        record[at..at + 8].copy_from_slice(&address.to_le_bytes());
    }
    // The second instruction has no access.
    let trace = [record, [0; 64], record].concat();
    fs::write(&path, &trace).expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let found: Vec<_> = found.iter().map(|a| (a.at.as_ps(), a.op, a.address.0, a.bytes)).collect();
    let of = |at| {
        let access = move |op, address| (at, op, address, 8);
        [access(Op::Read, 0x1000), access(Op::Read, 0x2000), access(Op::Write, 0x7f00)]
    };
    assert_eq!(found, [of(0), of(1000)].concat());
    let said = complaint("cut.champsim", &trace[..150]);
    assert!(said.contains("record of 64 bytes, found 22"), "{said}");
}

#[test]
fn compressed_traces_of_champsim_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let access = |address| Access::new(Time::ZERO, Addr(address), 8, Op::Read);
    for (ending, compression) in [("xz", Compression::Xz), ("gz", Compression::Gzip)] {
        let path = folder.path().join(format!("t.champsimtrace.{ending}"));
        let output = Output::create(&path, compression).expect("a new file");
        let mut sink = Format::ChampSim.write(output, "").expect("room");
        (1..5000).for_each(|n| sink.write(&access(64 * n)).expect("room"));
        sink.finish().expect("room");
        let found = read(&path).expect("a trace");
        assert!(found.iter().map(|a| a.address.0).eq((1..5000).map(|n| 64 * n)), "{ending}");
    }
}

#[test]
fn the_view_of_drmemtrace_is_read_with_its_threads_interleaved() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.drmemtrace");
    let text = "\
Hello from the program
Output format:
<--record#-> <--instr#->: <---tid---> <record details>
------------------------------------------------------------
           1           0:     2765542 <marker: version 5>
           6           0:     2765542 <marker: timestamp 13312570674112282>
       47444       37769:     2765543 ifetch       6 byte(s) @ 0x0000000000404a78 0f 84 5b 01 jz
       47445       37770:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 mov
       47446       37770:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x404a7e
       47447       37770:     2765542 ifetch       8 byte(s) @ 0x0000000000401012 48 8d lea
       47447       37770:     2765542                                             00
       47448       37771: W0.T292 write        32 byte(s) @ 0x1000 by PC 0x404a83
T342625 prefetch 64 byte(s) @ 0x2000 by PC 0x404a83
View tool results:
              6 : total instructions
";
    fs::write(&path, text).expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let of = |a: &Access| (a.at.as_ps(), a.op, a.address.0, a.bytes, a.thread);
    let found: Vec<_> = found.iter().map(of).collect();
    let expected = [(500, Op::Read, 0x7fdf_64e2_adc8, 8, 0), (1000, Op::Write, 0x1000, 32, 1)];
    assert_eq!(found, expected);
    for line in ["1 1: 7 read 8 byte(s) @ 0x12zz by PC 0", "1 1: 7 write 0 byte(s) @ 0x10 by PC 0"]
    {
        let said = complaint("bad.drmemtrace", line.as_bytes());
        assert!(said.contains("line 1") || said.contains(":1:"), "{said}");
    }
}

#[test]
fn valgrinds_scheduler_tells_threads_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("app.lackey");
    let text = " L 1000,8\n--9--   SCHED[2]:  acquired lock (thread_wrapper(starting new thread))\n\
        I  5000,4\n L 2000,8\n--9--   SCHED[2]: releasing lock (VG_(scheduler):timeslice)\n\
        --9--   SCHED[1]:  acquired lock (VG_(scheduler):timeslice)\n S 1008,8\n\
        --9--   SCHED[2]:  acquired lock (thread_wrapper(starting new thread))\n L 3000,8\n";
    fs::write(&path, text).expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let found: Vec<_> = found.iter().map(|a| (a.address.0, a.thread)).collect();
    // The second thread 2 is another one.
    assert_eq!(found, [(0x1000, 0), (0x2000, 1), (0x1008, 0), (0x3000, 2)]);
    assert_eq!(Statistics::gather(&mut open(&path).expect("a trace")).expect("it").threads, 3);
}

#[test]
fn oracle_general_knows_every_next_access() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.oracleGeneral");
    // Farther apart than records wait in memory, and close by.
    let address = |n: u64| Addr(if n.is_multiple_of(70_000) { 0 } else { 64 * (1 + n % 1000) });
    let access = |n| Access::new(Time::ZERO, address(n), 64, Op::Read);
    let trace: Vec<_> = (0..150_000).map(access).collect();
    write(Format::OracleGeneral, &path, &trace);
    let bytes = fs::read(&path).expect("the file");
    let mut next = std::collections::HashMap::new();
    for (number, record) in bytes.chunks(24).enumerate().rev() {
        let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
        let stored = i64::from_le_bytes(record[16..].try_into().expect("eight bytes"));
        let should = next.insert(object, number as i64).unwrap_or(-1);
        assert_eq!(stored, should, "record {number}");
    }
}

#[test]
fn csv_needs_an_address_and_takes_libcachesims_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    fs::write(&path, "clock,obj_id,obj_size\n1,4096,100\n2,0x40,8").expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let found: Vec<_> = found.iter().map(|access| (access.address.0, access.bytes)).collect();
    assert_eq!(found, [(4096, 100), (64, 8)]);
    let said = complaint("t.csv", b"time_ns,where\n1,2\n");
    assert!(said.ends_with(":1: expected a column 'address' with numbers below 2^64"), "{said}");
    let said = complaint("t.csv", b"address,op\n64,R\n64,X\n");
    assert!(
        said.ends_with(":3: expected a column 'op' with R (read), W (write) or H (hint)"),
        "{said}"
    );
    for line in ["64", "64,R,5"] {
        let said = complaint("t.csv", format!("address,op\n{line}\n").as_bytes());
        assert!(said.ends_with(":2: expected as many fields as the header names"), "{said}");
    }
}

#[test]
fn a_line_that_is_too_long_is_named() {
    for (bytes, end) in [(4097, "\n2\n"), (1 << 20, "")] {
        let long = ["address\n1\n", &"1".repeat(bytes), end].concat();
        let said = complaint("t.csv", long.as_bytes());
        assert!(said.ends_with("t.csv:3: expected a line of at most 4096 bytes"), "{said}");
    }
}

#[test]
fn files_that_are_no_traces_are_named_with_what_they_are_and_where() {
    let said = complaint("t.bz2", b"BZh91AY&SY\0\0\0");
    assert!(said.contains("byte 0") && said.contains("bzip2 data"), "{said}");
    let said = complaint("t.txt", b"12 0 64 8 1\n\0\0\0");
    assert!(said.contains("byte 12") && said.contains("binary data"), "{said}");
    let said = complaint("t.oracleGeneral.bin", &[1; 30]);
    assert!(said.contains("byte 24"), "{said}");
    let said = complaint("t.lackey", b"I  0401ab70,3\n L 04xx2e40,8\n");
    assert!(said.contains(":2: expected 'I  ADDRESS,SIZE'"), "{said}");
}

#[test]
fn every_compression_of_every_text_format_is_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let access = |n| {
        Access::new(
            Time::from_ns(n),
            Addr(64 * n),
            64,
            if n % 3 == 0 { Op::Write } else { Op::Read },
        )
    };
    let trace: Vec<_> = (0..20_000).map(access).collect();
    for ending in ["txt", "trace", "csv", "lackey", "ramulator", "dramsim3", "oracleGeneral"] {
        for (compression, magic) in
            [("gz", &b"\x1f\x8b"[..]), ("xz", b"\xfd7zXZ\0"), ("zst", b"\x28\xb5\x2f\xfd")]
        {
            let path = folder.path().join(format!("t.{ending}.{compression}"));
            let mut source = Listed(trace.clone());
            let format = copy_to(&mut source, &path, None, "").expect("room");
            let whole = fs::read(&path).expect("the file");
            assert!(whole.starts_with(magic), "{path:?}");
            let should: Vec<_> = (0..)
                .zip(&trace)
                .filter_map(|(n, access)| held(format, *access, n, &[0]))
                .collect();
            assert_eq!(read(&path).expect("a trace"), should, "{path:?}");
            for length in [whole.len() / 2, whole.len() - 1] {
                fs::write(&path, &whole[..length]).expect("room");
                let fault = read(&path).expect_err("it is cut short");
                assert!(fault.is_input() && fault.to_string().contains("cut short"), "{fault}");
            }
        }
    }
}

/// A trace in one batch.
struct Listed(Vec<Access>);

impl Source for Listed {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        *batch = std::mem::take(&mut self.0);
        Ok(!batch.is_empty())
    }
}

#[test]
fn a_trace_of_which_the_format_holds_nothing_is_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.txt");
    let hint = Access::new(Time::ZERO, Addr(0), 64, Op::Hint);
    let said = copy_to(&mut Listed(vec![hint]), &path, None, "").expect_err("hints only");
    assert!(said.to_string().contains("text holds no hints"), "{said}");
    assert!(!path.exists());
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_text() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [
        ("t.csv", "time_ns,address\r\n5,64\r\n"),
        ("t.txt", "5 0 64 64 1\n"),
        ("t.dramsim3", "0x40 READ 5\n"),
        ("t.lackey", " L 40,64\n"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, format!("\u{feff}{text}")).expect("room");
        let found = read(&path).expect("a trace");
        assert_eq!((found.len(), found[0].address), (1, Addr(64)), "{name}");
        assert_eq!(found[0].at.as_ns(), if name == "t.lackey" { 0 } else { 5 }, "{name}");
    }
}

#[test]
fn columns_that_are_not_read_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    fs::write(&path, "clock,obj_id,obj_size,ttl\n1,4096,100,0\n").expect("room");
    let remark = open(&path).expect("a trace").remark().expect("there are two");
    assert!(remark.contains("columns 'clock', 'ttl'; known are time_ns,address"), "{remark}");
    fs::write(&path, "time_ns,obj_id\n1,4096\n").expect("room");
    assert_eq!(open(&path).expect("a trace").remark(), None);
}

#[test]
fn times_that_are_wrong_are_shown_with_what_is_wrong() {
    let said =
        |time: &str| complaint("t.csv", format!("time_ns,address\n7,0\n{time},64\n").as_bytes());
    for time in ["1e3", "-1", "", "5 s"] {
        let said = said(time);
        let found = format!("in column 'time_ns', found '{time}'");
        assert!(said.contains("at most three decimals") && said.ends_with(&found), "{said}");
        assert!(!said.contains("before"), "{said}");
    }
    let said = said("6.5");
    assert!(said.contains(":3: expected at least 7 ns, the time before it, in column"), "{said}");
    let record = |time: u32| [&time.to_le_bytes()[..], &[0; 12], &[255; 8]].concat();
    let said = complaint("t.oracleGeneral", &[record(9), record(8)].concat());
    assert!(
        said.contains("at byte 24 a time of at least 9 s, the one before, found 8 s"),
        "{said}"
    );
    let said = complaint("t.oracleGeneral", &[record(9), vec![1; 23]].concat());
    assert!(said.contains("at byte 24 a record of 24 bytes, found 23"), "{said}");
}

#[test]
fn objects_of_any_name_and_without_a_size_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.oracleGeneral");
    let record = |object: u64, size: u32| {
        [&[0; 4], &object.to_le_bytes()[..], &size.to_le_bytes(), &[255; 8]].concat()
    };
    let records = [record(64, 0), record(u64::MAX, 4096), record(u64::MAX - 9, 4096)];
    fs::write(&path, records.concat()).expect("room");
    let found: Vec<_> = read(&path).expect("a trace");
    let found: Vec<_> = found.iter().map(|access| (access.address.0, access.bytes)).collect();
    assert_eq!(found, [(64, 1), (u64::MAX, 1), (u64::MAX - 9, 10)]);
}

#[test]
fn a_format_that_is_not_said_is_not_guessed() {
    let text = b"1 0 64 8 1\n";
    let said = complaint("t.log", text);
    assert!(said.contains("the ending .log") && said.contains("--format"), "{said}");
    let said = complaint("t", text);
    assert!(said.contains("no ending") && said.contains("--format"), "{said}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.log");
    fs::write(&path, text).expect("room");
    let found: Result<Vec<_>, _> =
        open_as(&path, Some(Format::Text)).expect("a trace").accesses().collect();
    assert_eq!(found.expect("a trace").len(), 1);
}

#[test]
fn a_part_of_the_name_says_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("not-oracleGeneral.csv");
    fs::write(&path, "address\n64\n").expect("room");
    assert_eq!(read(&path).expect("a trace").len(), 1);
}

#[test]
fn an_empty_trace_says_so() {
    for (name, bytes) in [
        ("t.txt", b"".as_slice()),
        ("t.txt", b"\n\n"),
        ("t.csv", b"address\n"),
        ("t", b""),
        ("t.oracleGeneral", b""),
        ("t.lackey", b"==17== Lackey\n"),
    ] {
        let said = complaint(name, bytes);
        assert!(said.contains("the trace is empty"), "{said}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.ebt");
    write(Format::Native, &path, &[]);
    let said = read(&path).expect_err("it is empty").to_string();
    assert!(said.contains("the trace is empty"), "{said}");
}

#[test]
fn truncated_and_damaged_traces_are_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.ebt");
    let access = |n| Access::new(Time::from_ns(n), Addr(64 * n), 64, Op::Read);
    write(Format::Native, &path, &(0..1000).map(access).collect::<Vec<_>>());
    let whole = fs::read(&path).expect("the file");
    let (mut damaged, middle) = (whole.clone(), whole.len() / 2);
    damaged[middle] ^= 0xff;
    for bytes in [&whole[..middle], &damaged] {
        fs::write(&path, bytes).expect("room");
        assert!(read(&path).expect_err("it is not whole").is_input());
    }
    let (path, text) = (folder.path().join("t.txt.zst"), "1 0 64 8 1\n".repeat(1000));
    let whole = zstd::encode_all(text.as_bytes(), 3).expect("bytes in memory");
    let (mut damaged, middle) = (whole.clone(), whole.len() / 2);
    damaged[middle] ^= 0xff;
    for bytes in [&whole[..middle], &damaged] {
        fs::write(&path, bytes).expect("room");
        assert!(read(&path).expect_err("it is not whole").is_input());
    }
}

#[test]
fn a_table_maps_pages_and_names_one_that_it_does_not_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, table) = (folder.path().join("t.txt"), folder.path().join("map"));
    fs::write(&path, "1 0 4100 8 1\n2 0 8192 8 0\n").expect("room");
    fs::write(&table, "1 0x77\n2 3\n").expect("room");
    let mapping = || Mapping::read(&table).expect("a mapping");
    let mapped = Physical::new(Mapped::new(open(&path).expect("a trace"), mapping()));
    let found: Vec<_> = mapped.accesses().collect::<Result<_, _>>().expect("a trace");
    assert_eq!(found[0].address, PageId(0x77).start() + 4);
    assert_eq!(found[1].address, PageId(3).start());
    fs::write(&path, "1 0 12288 8 1\n").expect("room");
    let mut missing = Mapped::new(open(&path).expect("a trace"), mapping());
    let said = missing.fill(&mut Vec::new()).expect_err("page 3 is not there").to_string();
    assert!(said.contains("no virtual page 0x3"), "{said}");
    let mut none = Physical::new(open(&path).expect("a trace"));
    let said = none.fill(&mut Vec::new()).expect_err("nothing is known").to_string();
    assert!(said.contains("0x3000 has no physical address"), "{said}");
}

#[test]
fn statistics_are_what_their_definitions_say() {
    // Two pages; lines 0, 1, 64, 0: strides -, 1, 63, 0 (the same line counts as none).
    let text = "0 0 0 64 1\n10 0 64 64 1\n20 0 4096 64 0\n30 0 0 64 1\n";
    let input = Input::new("t", Cursor::new(text)).expect("bytes in memory");
    let mut source = Format::Text.read(input).expect("a trace");
    let found = Statistics::gather(&mut source).expect("a trace");
    assert_eq!((found.accesses, found.reads, found.writes), (4, 3, 1));
    assert_eq!((found.footprint_bytes, found.inter_arrival_ns), (8192, 10.0));
    assert!((found.spatial_locality - (1.0 + 1.0 / 63.0) / 4.0).abs() < 1e-12);
    // Distances 1 and 2 of 4 accesses.
    let closeness = 2.0 - (2.0_f64.ln() + 3.0_f64.ln()) / 5.0_f64.ln();
    assert!((found.temporal_locality - closeness / 4.0).abs() < 1e-12);
    assert_eq!(found.heat, [3, 1]);
    assert_eq!(found.hottest[0].accesses_share, 0.75);
}

#[test]
fn statistics_count_every_page_of_an_access() {
    let text = "0 0 4000 8192 1\n10 0 8192 64 0\n";
    let input = Input::new("t", Cursor::new(text)).expect("bytes in memory");
    let found = Statistics::gather(&mut Format::Text.read(input).expect("a trace"));
    let found = found.expect("a trace");
    assert_eq!((found.accesses, found.footprint_bytes), (2, 3 * 4096));
    assert_eq!(found.heat, [1, 1, 2]);
    assert_eq!(found.hottest[0].accesses_share, 0.5);
    assert!(found.temporal_locality > 0.0 && found.temporal_locality < 1.0);
}
