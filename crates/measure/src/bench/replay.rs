//! A trace as load (`--trace`). It is read once, its pages are placed side by side, and the
//! children get its steps.
//!
//! Every child holds the steps as well as its memory under test, so their number is bounded. The
//! first steps of a longer trace are repeated.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use ebbtide_core::{Addr, LINE_BYTES, PageId};
use ebbtide_trace::{Format, Op, Source};
use ebbtide_workloads::{Program, Replay, Step};
use rustc_hash::FxHashMap;
use tempfile::NamedTempFile;

use super::error::BenchError;

/// The most steps of a replay: 64 MiB. Each step reaches at most one page, so page numbers fit in a
/// step.
const STEPS_MAX: usize = 1 << 24;

const _: () = assert!(STEPS_MAX as u64 <= Step::PAGES_MAX);

/// The steps of a replay in a temporary file for the children. Dropping it removes the file.
pub(super) struct StoredSteps {
    file: NamedTempFile,
    /// Bytes of the steps in a child's memory.
    pub(super) bytes: u64,
    /// How much of the trace they are, and what of it is not read, in words.
    pub(super) notices: Vec<String>,
}

impl StoredSteps {
    /// Returns the path of the steps.
    pub(super) fn path(&self) -> PathBuf {
        self.file.path().to_path_buf()
    }
}

/// Reads the trace at `path`; `seed` selects the data of its replay.
///
/// # Errors
/// When the trace cannot be read so far, or holds no access, or there is no room for the steps.
pub(super) fn read(
    path: &Path,
    format: Option<Format>,
    seed: u64,
) -> Result<(Program, StoredSteps), BenchError> {
    let name = path.display();
    let mut trace = ebbtide_trace::open_as(path, format)?;
    let Taken { steps, accesses, is_all } = Taken::of(&mut trace, STEPS_MAX)?;
    if accesses == 0 {
        let most = if is_all { "" } else { " of at most 1 GiB" };
        let problem = format!("{name}: no access in it, expected at least one{most}");
        return Err(BenchError::BadInput(problem));
    }
    let file = keep(&steps).map_err(BenchError::Replay)?;
    let bytes = size_of_val(&steps[..]) as u64;
    let taken = format!(
        "replay: {} {accesses} accesses of {name}, as {} lines over and over, 64 a job; times of \
         the trace do not count; in every mode it takes {:.1} MiB beside the DRAM budget",
        if is_all { "all" } else { "the first" },
        steps.len(),
        bytes as f64 / (1 << 20) as f64,
    );
    let program = Program::Replay(Replay::new(steps, seed));
    let notices = std::iter::once(taken).chain(trace.remark()).collect();
    Ok((program, StoredSteps { file, bytes, notices }))
}

/// Writes `steps` into a temporary file.
fn keep(steps: &[Step]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    let mut out = BufWriter::new(&mut file);
    steps.iter().try_for_each(|step| out.write_all(&step.bits().to_le_bytes()))?;
    out.flush()?;
    drop(out);
    Ok(file)
}

/// Loads the replay with the steps at `path`. It takes little more memory than the steps.
///
/// # Errors
/// When the steps cannot be read, or the file is something else.
pub(super) fn load(path: &Path, seed: u64) -> io::Result<Program> {
    let file = File::open(path)?;
    let count = file.metadata()?.len() as usize / size_of::<Step>();
    let (mut reader, mut steps) = (BufReader::new(file), Vec::with_capacity(count));
    let mut word = [0; size_of::<Step>()];
    while steps.len() < count {
        reader.read_exact(&mut word)?;
        let step = Step::from_bits(u32::from_le_bytes(word));
        steps.push(step.ok_or(io::ErrorKind::InvalidData)?);
    }
    if steps.is_empty() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(Program::Replay(Replay::new(steps, seed)))
}

/// The part of a trace that a replay uses.
#[derive(Debug, PartialEq)]
struct Taken {
    /// A step for every line accessed; pages lie side by side, in the order of their addresses.
    steps: Vec<Step>,
    /// Reads and writes.
    accesses: u64,
    /// True if this is the whole trace.
    is_all: bool,
}

impl Taken {
    /// Takes up to `steps_max` steps of `trace`, or fewer if the trace ends.
    fn of(trace: &mut dyn Source, steps_max: usize) -> Result<Taken, BenchError> {
        let (mut batch, mut pages) = (Vec::new(), Numbered::default());
        let (mut taken, mut is_all) =
            (Taken { steps: Vec::new(), accesses: 0, is_all: false }, true);
        while is_all && trace.fill(&mut batch)? {
            for access in &batch {
                let bytes = if access.op == Op::Hint { 1 } else { access.bytes.max(1) };
                let last = access.address.0.saturating_add(u64::from(bytes) - 1);
                let lines = access.address.0 / LINE_BYTES as u64..=last / LINE_BYTES as u64;
                if taken.steps.len() as u64 + (lines.end() - lines.start()) >= steps_max as u64 {
                    is_all = false;
                    break;
                }
                taken.accesses += u64::from(access.op != Op::Hint);
                taken.steps.extend(lines.map(|line| {
                    let at = Addr(line * LINE_BYTES as u64);
                    let place = PageId(pages.number(at.page())).start() + at.page_offset() as u64;
                    Step::new(access.op, place)
                }));
            }
        }
        let places = pages.in_order();
        for step in &mut taken.steps {
            let at = step.at();
            let place = places[at.page().index()].start() + at.page_offset() as u64;
            *step = Step::new(step.op(), place);
        }
        Ok(Taken { is_all, ..taken })
    }
}

/// Pages, numbered in the order of their arrival.
#[derive(Default)]
struct Numbered {
    numbers: FxHashMap<PageId, u32>,
    pages: Vec<PageId>,
}

impl Numbered {
    fn number(&mut self, page: PageId) -> u64 {
        let number = *self.numbers.entry(page).or_insert_with(|| {
            self.pages.push(page);
            self.pages.len() as u32 - 1
        });
        u64::from(number)
    }

    /// Returns the place of each page in the order of addresses, by number. Neighbours stay
    /// neighbours, because prefetchers depend on it.
    fn in_order(&self) -> Vec<PageId> {
        let mut numbers: Vec<usize> = (0..self.pages.len()).collect();
        numbers.sort_unstable_by_key(|&number| self.pages[number]);
        let mut places = vec![PageId(0); self.pages.len()];
        for (place, number) in (0..).zip(numbers) {
            places[number] = PageId(place);
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Time;
    use ebbtide_trace::{Access, TraceError};

    use super::*;

    /// A trace in one batch.
    struct Batch(Vec<Access>);

    impl Source for Batch {
        fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
            *batch = std::mem::take(&mut self.0);
            Ok(!batch.is_empty())
        }
    }

    fn access(op: Op, address: u64, bytes: u32) -> Access {
        Access::new(Time::ZERO, Addr(address), bytes, op)
    }

    fn taken(accesses: &[Access], steps_max: usize) -> Taken {
        Taken::of(&mut Batch(accesses.to_vec()), steps_max).expect("it can be read")
    }

    #[test]
    fn pages_lie_side_by_side_in_the_order_of_addresses() {
        let far = 0x7fff_0000_0000;
        let taken = taken(
            &[
                access(Op::Write, far + 70, 8),
                access(Op::Read, 0x5000, 64),
                access(Op::Hint, far, 64),
                access(Op::Read, 0x3fc0, 64),
            ],
            100,
        );
        let steps = [(Op::Write, 2, 64), (Op::Read, 1, 0), (Op::Hint, 2, 0), (Op::Read, 0, 0xfc0)];
        let steps = steps.map(|(op, page, offset)| Step::new(op, Addr(page * 4096 + offset)));
        assert_eq!(taken, Taken { steps: steps.to_vec(), accesses: 3, is_all: true });
    }

    #[test]
    fn an_access_is_a_step_for_every_line_that_it_covers() {
        let taken = taken(&[access(Op::Write, 4096 - 65, 67)], 100);
        let lines = [4096 - 128, 4096 - 64, 4096].map(|at| Step::new(Op::Write, Addr(at)));
        assert_eq!((taken.steps, taken.accesses), (lines.to_vec(), 1));
    }

    #[test]
    fn of_a_long_trace_the_first_accesses_are_taken() {
        let accesses = [access(Op::Read, 0, 64), access(Op::Read, 0x1_0000, 256)];
        assert_eq!((taken(&accesses, 5).accesses, taken(&accesses, 5).is_all), (2, true));
        // The second one does not fit whole, and its page is not among the data.
        let shorter = taken(&accesses, 4);
        let first = vec![Step::new(Op::Read, Addr(0))];
        assert_eq!(shorter, Taken { steps: first, accesses: 1, is_all: false });
    }

    #[test]
    fn children_read_the_steps_that_were_written() {
        let steps = taken(&[access(Op::Write, 70, 8), access(Op::Hint, 0x5000, 1)], 9).steps;
        let file = keep(&steps).expect("room in the temporary folder");
        let Ok(Program::Replay(replay)) = load(file.path(), 1) else { panic!("it is a replay") };
        assert_eq!(replay.steps(), steps);
        for other in [&[3, 0, 0, 0][..], &[]] {
            std::fs::write(file.path(), other).expect("room");
            assert!(load(file.path(), 1).is_err());
        }
    }
}
