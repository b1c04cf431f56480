//! The output of Valgrind's memory tracer (`valgrind --tool=lackey --trace-mem=yes`): one
//! instruction or access a line, without times.
//!
//! ```text
//! I  0401ab70,3
//!  S 1fff000668,8
//!  L 04032e40,8
//!  M 04033e06,1
//! ```
//!
//! Numbers are a hexadecimal address and a size in bytes. `M` reads and then writes. Lines that
//! begin with `==` or `--` are Valgrind's messages. The reader also accepts the output of other
//! programs: shorter addresses, other numbers of blanks, and CRLF at the end of lines.

use std::fmt::Write;

use ebbtide_core::{Addr, Time};

pub use crate::error::LackeyError;
use crate::line_reader::fits;
use crate::threads::Threads;
use crate::{Access, Input, Op, Output, Source, TraceError};

/// The kind of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An instruction is fetched and executed.
    Instruction,
    /// Bytes are read.
    Load,
    /// Bytes are written.
    Store,
    /// Bytes are read and then written.
    Modify,
}

/// The contents of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Line<'a> {
    /// An access: its address and its size in bytes.
    Access(Event, u64, u32),
    /// A message of Valgrind about the process of this number, and its text.
    Message(u32, &'a [u8]),
    /// A message of its scheduler (`--trace-sched=yes`): the thread of this number runs from here
    /// on. True if it begins now.
    Thread(u32, bool),
}

/// Splits Valgrind's output into lines.
#[derive(Default)]
pub(crate) struct LineSplitter {
    /// The start of a line whose end has not been read.
    rest: Vec<u8>,
    /// Lines read, including an invalid last one.
    pub(crate) lines: u64,
}

/// The longest line, in bytes. Valgrind's messages may quote a command.
const LINE_BYTES_MAX: usize = 1 << 16;

impl LineSplitter {
    /// Calls `take` with every line of `text`, which continues the text of the last call. Stops at
    /// an error of `take`, after which this must not be called again.
    pub(crate) fn parse<E: From<LackeyError>>(
        &mut self,
        text: &[u8],
        take: &mut impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut text = text;
        if !self.rest.is_empty() {
            let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
                return self.keep(text).map_err(E::from);
            };
            let mut line = std::mem::take(&mut self.rest);
            line.extend(&text[..=end]);
            self.line(&line, take)?;
            line.clear();
            self.rest = line;
            text = &text[end + 1..];
        }
        loop {
            text = match quick(text) {
                Some((access, rest)) => {
                    self.lines += 1;
                    take(access)?;
                    rest
                }
                None => {
                    let Some(end) = text.iter().position(|&byte| byte == b'\n') else {
                        return self.keep(text).map_err(E::from);
                    };
                    self.line(&text[..=end], take)?;
                    &text[end + 1..]
                }
            }
        }
    }

    /// Parses a line with its end: a message, or an access that the fast path could not take.
    fn line<E: From<LackeyError>>(
        &mut self,
        line: &[u8],
        take: &mut impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.lines += 1;
        // The scheduler also prints some lines without a prefix.
        if line.starts_with(b"--") || line.starts_with(b"SCHED") {
            return running_thread(line)
                .map_or(Ok(()), |(number, begins)| take(Line::Thread(number, begins)));
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(b"==") {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let process = str::from_utf8(&rest[..digits]).ok().and_then(|text| text.parse().ok());
            let text = rest[digits..].strip_prefix(b"==").unwrap_or_default().trim_ascii();
            return process.map_or(Ok(()), |process| take(Line::Message(process, text)));
        }
        take(access(line).ok_or(LackeyError)?)
    }

    fn keep(&mut self, text: &[u8]) -> Result<(), LackeyError> {
        self.rest.extend(text);
        if self.rest.len() > LINE_BYTES_MAX {
            self.lines += 1;
            return Err(LackeyError);
        }
        Ok(())
    }

    /// Whether the text ended with a line end.
    pub(crate) fn ended(&self) -> bool {
        self.rest.is_empty()
    }
}

/// The number of the thread that runs after a message of the scheduler, and whether it begins:
/// `--17--   SCHED[2]:  acquired lock (thread_wrapper(starting new thread))`. `None` for any other
/// message.
fn running_thread(line: &[u8]) -> Option<(u32, bool)> {
    let (_, rest) = str::from_utf8(line).ok()?.split_once("SCHED[")?;
    let (number, rest) = rest.split_once(']')?;
    let runs = rest.contains(" acquired lock (");
    runs.then_some((number.parse().ok()?, rest.contains("starting new thread")))
}

/// The access at the start of `text`, and the text after its line. `None` if it is not an access,
/// or if `text` ends too soon to tell.
#[inline]
fn quick(text: &[u8]) -> Option<(Line<'static>, &[u8])> {
    let (kind, rest) = text.split_first_chunk::<3>()?;
    let kind = match kind {
        b"I  " => Event::Instruction,
        b" L " => Event::Load,
        b" S " => Event::Store,
        b" M " => Event::Modify,
        _ => return None,
    };
    // Eight digits, or more for high addresses.
    let (digits, mut rest) = rest.split_first_chunk::<8>()?;
    let mut address = eight_hexadecimal(u64::from_be_bytes(*digits))?;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        if byte == b',' {
            break;
        }
        let digit = char::from(byte).to_digit(16)?;
        address = (address >> 60 == 0).then_some((address << 4) | u64::from(digit))?;
    }
    let mut bytes = 0_u32;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'0'..=b'9' => bytes = bytes.checked_mul(10)?.checked_add(u32::from(byte - b'0'))?,
            b'\n' => break,
            _ => return None,
        }
    }
    address.checked_add(u64::from(bytes.checked_sub(1)?))?;
    Some((Line::Access(kind, address, bytes), rest))
}

/// The access of a line with any number of blanks and of digits, or `None` if it is none.
fn access(line: &[u8]) -> Option<Line<'static>> {
    let (kind, rest) = line.trim_ascii().split_first()?;
    let event = match kind {
        b'I' => Event::Instruction,
        b'L' => Event::Load,
        b'S' => Event::Store,
        b'M' => Event::Modify,
        _ => return None,
    };
    let fields = str::from_utf8(rest.strip_prefix(b" ")?.trim_ascii_start()).ok()?;
    let (address, bytes) = fields.split_once(',')?;
    let is_number = |text: &str, digits: &[u8]| text.bytes().all(|byte| digits.contains(&byte));
    if !is_number(address, b"0123456789abcdef") || !is_number(bytes, b"0123456789") {
        return None;
    }
    let (address, bytes) = (u64::from_str_radix(address, 16).ok()?, bytes.parse().ok()?);
    fits(address, bytes).then_some(Line::Access(event, address, bytes))
}

/// The number written by eight hexadecimal digits in lower case, as Valgrind writes them.
#[inline]
fn eight_hexadecimal(digits: u64) -> Option<u64> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // A letter has bit 6 set: it becomes its place in the alphabet, plus nine.
    let letters = (digits >> 6) & ONES;
    let values = (digits & (0x0f * ONES)) + letters * 9;
    // A byte that was not a digit differs from the digit of its value.
    let back = values + 0x30 * ONES + (((values + 6 * ONES) >> 4) & ONES) * 0x27;
    if back != digits || values & (0xf0 * ONES) != 0 {
        return None;
    }
    let pairs = ((values >> 4) | values) & 0x00ff_00ff_00ff_00ff;
    let fours = ((pairs >> 8) | pairs) & 0x0000_ffff_0000_ffff;
    Some(((fours >> 16) | fours) & 0xffff_ffff)
}

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Reads Valgrind's memory trace. Fetches of instructions only count time.
pub struct LackeyReader {
    input: Input,
    lines: LineSplitter,
    buffer: Vec<u8>,
    instructions: u64,
    ps_per_instruction: f64,
    threads: Threads,
    /// Valgrind's number of the thread that runs.
    running: u32,
    done: bool,
}

impl LackeyReader {
    /// Reads `input` from its start. Time advances by `ps_per_instruction` picoseconds per
    /// instruction.
    pub fn new(input: Input, ps_per_instruction: f64) -> LackeyReader {
        let buffer = vec![0; BUFFER_BYTES];
        LackeyReader {
            input,
            lines: LineSplitter::default(),
            buffer,
            instructions: 0,
            ps_per_instruction,
            threads: Threads::default(),
            running: 1,
            done: false,
        }
    }
}

impl Source for LackeyReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.is_empty() && !self.done {
            let count = self.input.read(&mut self.buffer)?;
            self.done = count == 0;
            // The rest without a line end is either a whole line or an error.
            let text =
                if self.done && !self.lines.ended() { &b"\n"[..] } else { &self.buffer[..count] };
            let (instructions, per) = (&mut self.instructions, self.ps_per_instruction);
            let (threads, running) = (&mut self.threads, &mut self.running);
            // Known from the thread's first access in this text on.
            let mut known = None;
            let parsed = self.lines.parse(text, &mut |line| {
                let (event, address, bytes) = match line {
                    Line::Access(event, address, bytes) => (event, address, bytes),
                    Line::Thread(number, begins) => {
                        (*running, known) = (number, None);
                        if begins {
                            threads.end(u64::from(number));
                        }
                        return Ok(());
                    }
                    Line::Message(..) => return Ok(()),
                };
                if event == Event::Instruction {
                    *instructions += 1;
                    return Ok(());
                }
                let thread = *known.get_or_insert_with(|| threads.number(u64::from(*running)));
                let at = Time::from_ps((*instructions as f64 * per) as u64);
                let access = |op| Access { thread, ..Access::new(at, Addr(address), bytes, op) };
                match event {
                    Event::Instruction => {}
                    Event::Load => batch.push(access(Op::Read)),
                    Event::Store => batch.push(access(Op::Write)),
                    Event::Modify => batch.extend([access(Op::Read), access(Op::Write)]),
                }
                Ok::<(), LackeyError>(())
            });
            parsed.map_err(|problem| {
                self.done = true;
                let name = self.input.name().to_string();
                TraceError::Lackey { name, line: self.lines.lines, problem }
            })?;
        }
        Ok(!batch.is_empty())
    }
}

/// Writes loads and stores as Valgrind prints them, without times, devices, physical addresses and
/// hints.
pub struct LackeyWriter {
    output: Output,
    buffer: String,
}

impl LackeyWriter {
    /// Writes to `output`.
    pub fn new(output: Output) -> LackeyWriter {
        LackeyWriter { output, buffer: String::new() }
    }
}

impl crate::Sink for LackeyWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let letter = match access.op {
            Op::Read => 'L',
            Op::Write => 'S',
            Op::Hint => return Ok(()),
        };
        writeln!(self.buffer, " {letter} {:08x},{}", access.address.0, access.bytes)
            .expect("a string takes any text");
        if self.buffer.len() >= BUFFER_BYTES {
            self.output.write(self.buffer.as_bytes())?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        self.output.write(self.buffer.as_bytes())?;
        self.output.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> Result<Vec<Line<'static>>, LackeyError> {
        let (mut lines, mut found) = (LineSplitter::default(), Vec::new());
        for part in parts {
            lines.parse(part, &mut |line| {
                found.push(match line {
                    Line::Message(id, text) => Line::Message(id, text.to_vec().leak()),
                    Line::Access(event, address, bytes) => Line::Access(event, address, bytes),
                    Line::Thread(number, begins) => Line::Thread(number, begins),
                });
                Ok::<(), LackeyError>(())
            })?;
        }
        Ok(found)
    }

    const TEXT: &[u8] = b"==17== Lackey\n==17== \nI  0401ab70,3\n S 1fff000668,8\n\
        \x20L 04032e40,16\n M ffffffffffffffff,1\n--17-- warning\n==x\nI  00000000,1\n";

    #[test]
    fn lines_are_the_same_however_the_text_is_cut() {
        let expected = [
            Line::Message(17, b"Lackey"),
            Line::Message(17, b""),
            Line::Access(Event::Instruction, 0x401_ab70, 3),
            Line::Access(Event::Store, 0x1f_ff00_0668, 8),
            Line::Access(Event::Load, 0x403_2e40, 16),
            Line::Access(Event::Modify, u64::MAX, 1),
            Line::Access(Event::Instruction, 0, 1),
        ];
        for cut in 0..=TEXT.len() {
            let (first, second) = TEXT.split_at(cut);
            assert_eq!(lines(&[first, second]).as_deref(), Ok(&expected[..]), "cut at {cut}");
        }
    }

    #[test]
    fn the_thread_that_runs_is_known_by_the_schedulers_message() {
        let text = b"--17--   SCHED[2]:  acquired lock (thread_wrapper(starting new thread))\n\
            SCHEDSETJMP(line 1211) tid 1, jumped=1476724588\n\
            --17--   SCHED[2]: releasing lock (VG_(client_syscall)[async]) -> VgTs_WaitSys\n\
            --17--   SCHED[1]:  acquired lock (VG_(client_syscall)[async])\n";
        assert_eq!(lines(&[text]), Ok(vec![Line::Thread(2, true), Line::Thread(1, false)]));
    }

    #[test]
    fn blanks_digits_and_line_ends_may_be_those_of_other_programs() {
        for (text, event, address, bytes) in [
            ("I 0401ab70,3\n", Event::Instruction, 0x401_ab70, 3),
            ("I  0401ab70,3\r\n", Event::Instruction, 0x401_ab70, 3),
            (" L 10,1\n", Event::Load, 0x10, 1),
            ("S  7ff000398,8\r\n", Event::Store, 0x7_ff00_0398, 8),
            (" M 0,4\n\r\n", Event::Modify, 0, 4),
        ] {
            let should = vec![Line::Access(event, address, bytes)];
            assert_eq!(lines(&[text.as_bytes()]), Ok(should), "{text}");
        }
    }

    #[test]
    fn lines_that_valgrind_does_not_print_are_refused() {
        for text in [
            "hello\n",
            " L 0401AB70,3\n",
            " L 0401ab70,\n",
            " L 0401ab70,0\n",
            " L 0401ab70 3\n",
            " L 1ffffffffffffffff,1\n",
            " L ffffffffffffffff,2\n",
            " X 0401ab70,3\n",
            " L 0401ab7g,3\n",
        ] {
            assert_eq!(lines(&[text.as_bytes()]), Err(LackeyError), "{text}");
        }
    }
}
