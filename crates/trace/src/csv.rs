//! Comma-separated values with a header, one access a line.
//!
//! The writer's columns are `time_ns,address,bytes,op,device,physical,thread`. The reader finds
//! them by name in any order and requires only `address`. It also accepts libCacheSim's names
//! `obj_id` for `address` and `obj_size` for `bytes`. libCacheSim's reader takes the first three
//! columns by number. Columns of other names are not read, and [`Source::remark`] lists them.

use ebbtide_core::{Addr, Time};
use smallvec::SmallVec;

use crate::line_reader::{Expected, LineReader, fits};
use crate::text::{Nanoseconds, decimal, nanoseconds, number, readable};
use crate::{Access, Input, Op, Output, Sink, Source, TraceError};

/// The columns as they are written.
const HEADER: &str = "time_ns,address,bytes,op,device,physical,thread\n";

const ADDRESS: &str = "a column 'address' with numbers below 2^64";

/// The names under which a column is read.
const NAMES: [&[&str]; 7] = [
    &["time_ns"],
    &["address", "obj_id"],
    &["bytes", "obj_size"],
    &["op"],
    &["device"],
    &["physical"],
    &["thread"],
];

/// The position of each column, if the file has it.
struct Columns {
    /// The number of fields in each line.
    count: usize,
    time: Option<usize>,
    address: usize,
    bytes: Option<usize>,
    op: Option<usize>,
    device: Option<usize>,
    physical: Option<usize>,
    thread: Option<usize>,
    /// The names of columns that are not read, in quotes.
    unread: Vec<String>,
}

impl Columns {
    fn of(header: &str) -> Option<Columns> {
        let names: Vec<_> = header.split(',').map(str::trim).collect();
        let [time, address, bytes, op, device, physical, thread] =
            NAMES.map(|known| names.iter().position(|name| known.contains(name)));
        let unread = names.iter().filter(|name| !NAMES.iter().any(|known| known.contains(name)));
        let unread = unread.map(|name| format!("'{name}'")).collect();
        let count = names.len();
        Some(Columns {
            count,
            time,
            address: address?,
            bytes,
            op,
            device,
            physical,
            thread,
            unread,
        })
    }

    /// Splits by hand: with the crate `csv`, 10⁵ lines take 200 million instructions instead of 186
    /// million, and a line has no longest length.
    fn parse(&self, line: &str, latest: Time) -> Result<Access, Expected> {
        let fields: SmallVec<[&[u8]; 8]> = line.as_bytes().split(|&byte| byte == b',').collect();
        if fields.len() != self.count {
            return Err("as many fields as the header names".into());
        }
        let field = |place: Option<usize>| place.map(|place| fields[place].trim_ascii());
        let at = match field(self.time) {
            Some(text) => time(text, latest)?,
            None => latest,
        };
        let address = number(fields[self.address].trim_ascii()).ok_or(ADDRESS)?;
        let number32 = |field: Option<&[u8]>, absent| match field {
            None => Some(absent),
            Some(text) => decimal(text).and_then(|number| u32::try_from(number).ok()),
        };
        let bytes = number32(field(self.bytes), 64);
        let bytes = bytes.filter(|&bytes| fits(address, bytes));
        let bytes = bytes.ok_or("a column 'bytes' with sizes from 1, within 64 bits of address")?;
        let op = match field(self.op) {
            None | Some(b"R") => Op::Read,
            Some(b"W") => Op::Write,
            Some(b"H") => Op::Hint,
            Some(_) => return Err("a column 'op' with R (read), W (write) or H (hint)".into()),
        };
        let device = number32(field(self.device), 0);
        let device = device.ok_or("a column 'device' with numbers below 2^32")?;
        let thread = number32(field(self.thread), 0);
        let thread = thread.ok_or("a column 'thread' with numbers below 2^32")?;
        let address = Addr(address);
        let physical = |text: &[u8]| {
            let physical = number(text).map(Addr);
            physical.filter(|physical| physical.page_offset() == address.page_offset())
        };
        let frame = match field(self.physical) {
            None | Some(b"") => None,
            Some(text) => Some(
                physical(text)
                    .ok_or("a column 'physical' with addresses as far into a page as 'address'")?
                    .page(),
            ),
        };
        Ok(Access { at, address, frame, device, thread, bytes, op })
    }
}

/// The time in a field of column 'time_ns'. It must not be before `latest`.
fn time(text: &[u8], latest: Time) -> Result<Time, Expected> {
    let expected = |what: &str| {
        let found = readable(text);
        Expected::Owned(format!("{what} in column 'time_ns', found '{found}'"))
    };
    match nanoseconds(text) {
        Ok(at) if at >= latest => Ok(at),
        Ok(_) => {
            let least = Nanoseconds(latest);
            Err(expected(&format!("at least {least} ns, the time before it,")))
        }
        Err(_) => Err(expected("nanoseconds such as 1250.5, with at most three decimals,")),
    }
}

/// Reads comma-separated values.
pub(crate) struct CsvReader {
    lines: LineReader,
    columns: Columns,
    latest: Time,
}

impl CsvReader {
    /// Reads `input` from its start.
    pub(crate) fn new(input: Input) -> Result<CsvReader, TraceError> {
        let mut lines = LineReader::new(input);
        let header = lines.next()?.unwrap_or_default();
        let columns = Columns::of(header).ok_or_else(|| lines.fault(ADDRESS))?;
        Ok(CsvReader { lines, columns, latest: Time::ZERO })
    }
}

impl Source for CsvReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let (columns, latest) = (&self.columns, &mut self.latest);
        self.lines.fill(batch, &mut |line| {
            let access = columns.parse(line, *latest)?;
            *latest = access.at;
            Ok(access)
        })
    }

    fn remark(&self) -> Option<String> {
        let unread = &self.columns.unread;
        let known = HEADER.trim_end();
        (!unread.is_empty()).then(|| {
            format!(
                "{}: not read: columns {}; known are {known}",
                self.lines.name(),
                unread.join(", ")
            )
        })
    }
}

/// Writes comma-separated values.
pub(crate) struct CsvWriter(Output);

impl CsvWriter {
    /// Writes to `output`.
    pub(crate) fn new(mut output: Output) -> Result<CsvWriter, TraceError> {
        output.write(HEADER.as_bytes())?;
        Ok(CsvWriter(output))
    }
}

impl Sink for CsvWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let Access { at, address, device, thread, bytes, op, .. } = *access;
        let op = match op {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Hint => 'H',
        };
        let physical = access.physical().map(|physical| physical.0.to_string());
        let (time, physical) = (Nanoseconds(at), physical.unwrap_or_default());
        let line = format!("{time},{},{bytes},{op},{device},{physical},{thread}\n", address.0);
        self.0.write(line.as_bytes())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.0.finish()
    }
}
