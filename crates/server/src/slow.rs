//! [`Slow`]: counts how long commands take, and keeps the slowest.
//!
//! Time runs from the start of a command to its reply and includes waits for flash.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, MutexGuard};

/// Maximum number of arguments, and of bytes of each, that are kept for a slow command.
const ARGUMENTS_KEPT: usize = 32;
const ARGUMENT_BYTES_KEPT: usize = 128;

/// Maximum number of slow commands that can be kept.
pub const KEPT_MAX: usize = 1024;

/// Spikes that are kept for `LATENCY HISTORY`.
const SPIKES_KEPT: usize = 160;

/// Kinds of errors that are counted. A script makes errors of any kind, and others share a count.
const ERRORS_KEPT: usize = 128;
const ERROR_BYTES_MAX: usize = 64;
const OTHER_ERRORS: &str = "other";

/// Buckets of times: powers of two of a microsecond. The last one holds all above 2³⁰ µs (18
/// minutes).
const BUCKETS: usize = 32;

/// A slow command.
#[derive(Debug, Clone)]
pub struct SlowCommand {
    /// Number in the slow log.
    pub id: u64,
    /// When it ended, in seconds since the Unix epoch.
    pub at_s: u64,
    /// Duration.
    pub took: Duration,
    /// Its first arguments, truncated if long.
    pub arguments: Vec<Vec<u8>>,
    /// The name of its client, truncated if long.
    pub client: Vec<u8>,
}

/// Calls and times of a command.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// Times it ran.
    pub calls: u64,
    /// Total time in microseconds.
    pub total_us: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it ran and replied with an error.
    pub failed: u64,
    buckets: [u64; BUCKETS],
}

impl Times {
    fn add(mut self, more: Times) -> Times {
        self.calls += more.calls;
        self.total_us += more.total_us;
        self.rejected += more.rejected;
        self.failed += more.failed;
        self.buckets.iter_mut().zip(more.buckets).for_each(|(count, more)| *count += more);
        self
    }

    /// The calls in each bucket, with the longest time of the bucket in seconds: powers of two of
    /// microseconds up to 2³⁰, and infinity.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.into_iter().enumerate().map(|(power, count)| {
            let ends =
                if power < BUCKETS - 1 { (1u64 << power) as f64 / 1e6 } else { f64::INFINITY };
            (ends, count)
        })
    }

    /// For each power of two of microseconds whose bucket has calls: the calls that took at most
    /// that long.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut sum = 0;
        self.buckets.into_iter().enumerate().filter(|(_, count)| *count > 0).map(
            move |(power, count)| {
                sum += count;
                (1 << power, sum)
            },
        )
    }
}

/// Times of commands on one core.
#[derive(Debug)]
pub struct Slow {
    /// Minimum microseconds of a slow command; if negative, none is kept.
    pub threshold_us: i64,
    /// Maximum number of slow commands to keep.
    pub kept_max: usize,
    /// Minimum milliseconds of a spike; if 0, none is kept.
    pub spike_ms: u64,
    log: VecDeque<SlowCommand>,
    /// Number of the next slow command on any core.
    next: Arc<AtomicU64>,
    spikes: VecDeque<(u64, u64)>,
    worst_ms: u64,
    /// Indexed by the number of the command.
    times: Vec<Times>,
    /// Error replies by their first words.
    errors: BTreeMap<String, u64>,
}

impl Default for Slow {
    fn default() -> Slow {
        Slow {
            threshold_us: 10_000,
            kept_max: 128,
            spike_ms: 0,
            log: VecDeque::new(),
            next: Arc::default(),
            spikes: VecDeque::new(),
            worst_ms: 0,
            times: Vec::new(),
            errors: BTreeMap::new(),
        }
    }
}

impl Slow {
    /// Records that command number `command` of client `client` has ended at `now_ms`.
    pub fn note(
        &mut self,
        command: usize,
        took: Duration,
        arguments: &[&[u8]],
        client: &[u8],
        now_ms: u64,
    ) {
        let us = took.as_micros() as u64;
        let times = self.of(command);
        times.calls += 1;
        times.total_us += us;
        times.buckets[(u64::BITS - us.saturating_sub(1).leading_zeros()).min(31) as usize] += 1;
        let ms = us / 1000;
        if self.spike_ms > 0 && ms >= self.spike_ms {
            self.worst_ms = self.worst_ms.max(ms);
            self.spikes.truncate(SPIKES_KEPT - 1);
            self.spikes.push_front((now_ms / 1000, ms));
        }
        if u64::try_from(self.threshold_us).is_ok_and(|threshold| us >= threshold) {
            self.log.push_front(SlowCommand {
                id: self.next.fetch_add(1, Ordering::Relaxed),
                at_s: now_ms / 1000,
                took,
                arguments: kept(arguments),
                client: client[..client.len().min(ARGUMENT_BYTES_KEPT)].to_vec(),
            });
            self.log.truncate(self.kept_max);
        }
    }

    /// Counts a refusal of command number `command`.
    pub fn note_rejected(&mut self, command: usize) {
        self.of(command).rejected += 1;
    }

    /// Counts an error reply of command number `command`. [`Self::note`] counts the call.
    pub fn note_failed(&mut self, command: usize) {
        self.of(command).failed += 1;
    }

    /// Counts an error reply by its first word.
    pub fn note_error(&mut self, text: &str) {
        let word = text.split_ascii_whitespace().next().unwrap_or("ERR");
        let word = match word.len() <= ERROR_BYTES_MAX {
            true => word,
            false => OTHER_ERRORS,
        };
        let is_there = self.errors.contains_key(word);
        let word = if is_there || self.errors.len() < ERRORS_KEPT { word } else { OTHER_ERRORS };
        *self.errors.entry(word.to_string()).or_default() += 1;
    }

    fn of(&mut self, command: usize) -> &mut Times {
        if self.times.len() <= command {
            self.times.resize(command + 1, Times::default());
        }
        &mut self.times[command]
    }

    /// Slow commands, latest first.
    pub fn log(&self) -> &VecDeque<SlowCommand> {
        &self.log
    }

    /// Discards the slow commands.
    pub fn reset_log(&mut self) {
        self.log.clear();
    }

    /// Spikes, latest first: seconds since the Unix epoch, and milliseconds.
    pub fn spikes(&self) -> &VecDeque<(u64, u64)> {
        &self.spikes
    }

    /// The longest spike in milliseconds.
    pub fn worst_ms(&self) -> u64 {
        self.worst_ms
    }

    /// Discards the spikes. Returns true if there were any.
    pub fn reset_spikes(&mut self) -> bool {
        let any = !self.spikes.is_empty();
        self.spikes.clear();
        self.worst_ms = 0;
        any
    }

    /// Returns the times of a command.
    pub fn times(&self, command: usize) -> Times {
        self.times.get(command).copied().unwrap_or_default()
    }

    /// Discards the times of all commands, and the counts of errors.
    pub fn reset_times(&mut self) {
        self.times.clear();
        self.errors.clear();
    }
}

/// Times of commands on all cores. Each core records its own; readers merge them.
#[derive(Debug)]
pub struct SlowOfCores(Box<[CachePadded<Mutex<Slow>>]>);

impl SlowOfCores {
    /// Returns empty records for `cores` cores.
    pub fn new(cores: usize) -> SlowOfCores {
        let next = Arc::new(AtomicU64::new(0));
        let slow = |_| CachePadded::new(Mutex::new(Slow { next: next.clone(), ..Slow::default() }));
        SlowOfCores((0..cores).map(slow).collect())
    }

    /// Locks the record of one core.
    pub fn of(&self, core: usize) -> MutexGuard<'_, Slow> {
        self.0[core].lock()
    }

    /// Applies a change to the records of all cores.
    pub fn change(&self, mut change: impl FnMut(&mut Slow)) {
        self.0.iter().for_each(|slow| change(&mut slow.lock()));
    }

    /// Slow commands of all cores, latest first.
    pub fn log(&self) -> Vec<SlowCommand> {
        let mut log: Vec<SlowCommand> = Vec::new();
        self.change(|slow| log.extend(slow.log().iter().cloned()));
        log.sort_by_key(|one| std::cmp::Reverse(one.id));
        log.truncate(self.of(0).kept_max);
        log
    }

    /// Spikes of all cores, latest first: seconds since the Unix epoch, and milliseconds.
    pub fn spikes(&self) -> Vec<(u64, u64)> {
        let mut spikes: Vec<(u64, u64)> = Vec::new();
        self.change(|slow| spikes.extend(slow.spikes()));
        spikes.sort_by_key(|(at_s, _)| std::cmp::Reverse(*at_s));
        spikes.truncate(SPIKES_KEPT);
        spikes
    }

    /// The longest spike in milliseconds.
    pub fn worst_ms(&self) -> u64 {
        self.0.iter().map(|slow| slow.lock().worst_ms()).max().unwrap_or(0)
    }

    /// Discards the spikes. Returns true if there were any.
    pub fn reset_spikes(&self) -> bool {
        let mut any = false;
        self.change(|slow| any |= slow.reset_spikes());
        any
    }

    /// Error replies of all cores by their first words.
    pub fn errors(&self) -> BTreeMap<String, u64> {
        let mut errors = BTreeMap::new();
        self.change(|slow| {
            for (word, count) in &slow.errors {
                *errors.entry(word.clone()).or_default() += count;
            }
        });
        errors
    }

    /// Returns the times of a command on all cores.
    pub fn times(&self, command: usize) -> Times {
        self.0.iter().map(|slow| slow.lock().times(command)).fold(Times::default(), Times::add)
    }
}

/// Truncates the arguments of a slow command. As in Redis, a note states how much is left out.
fn kept(arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let whole = match arguments.len() {
        0..=ARGUMENTS_KEPT => arguments.len(),
        _ => ARGUMENTS_KEPT - 1,
    };
    let cut = |argument: &&[u8]| match argument.len().checked_sub(ARGUMENT_BYTES_KEPT) {
        None | Some(0) => argument.to_vec(),
        Some(more) => {
            let more = format!("... ({more} more bytes)");
            [&argument[..ARGUMENT_BYTES_KEPT], more.as_bytes()].concat()
        }
    };
    let mut kept: Vec<Vec<u8>> = arguments[..whole].iter().map(cut).collect();
    if whole < arguments.len() {
        kept.push(format!("... ({} more arguments)", arguments.len() - whole).into_bytes());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_commands_are_kept_the_last_first_and_all_are_counted() {
        let mut slow = Slow { threshold_us: 100, kept_max: 2, spike_ms: 1, ..Slow::default() };
        for us in [1, 99, 100, 3_000, 200] {
            let long = [b'x'; 500];
            slow.note(7, Duration::from_micros(us), &[b"get", &long], b"me", 5_000);
        }
        let kept: Vec<u64> = slow.log().iter().map(|one| one.took.as_micros() as u64).collect();
        assert_eq!(kept, [200, 3_000], "the first slow one made room");
        let long = format!("{}... (372 more bytes)", "x".repeat(128)).into_bytes();
        assert_eq!(slow.log()[0].arguments[1], long);
        let times: Vec<_> = slow.times(7).cumulative().collect();
        assert_eq!(times, [(1, 1), (128, 3), (256, 4), (4096, 5)]);
        assert_eq!((slow.spikes()[0], slow.worst_ms()), ((5, 3), 3));
        assert!(slow.reset_spikes() && !slow.reset_spikes());
    }

    #[test]
    fn errors_are_counted_by_their_first_words_up_to_a_bound() {
        let slow = SlowOfCores::new(2);
        slow.of(0).note_error("WRONGTYPE Operation against a key");
        slow.of(1).note_error("WRONGTYPE");
        slow.of(1).note_error("");
        let counts = slow.errors();
        assert_eq!((counts["WRONGTYPE"], counts["ERR"], counts.len()), (2, 1, 2));
        (0..1_000).for_each(|number| slow.of(0).note_error(&format!("E{number} text")));
        slow.of(0).note_error(&"x".repeat(65));
        let counts = slow.of(0).errors.clone();
        assert_eq!((counts.len(), counts["WRONGTYPE"]), (ERRORS_KEPT + 1, 1));
        assert_eq!(counts.values().sum::<u64>(), 1_002);
    }

    #[test]
    fn of_many_arguments_the_first_are_kept_and_the_others_counted() {
        let arguments: Vec<Vec<u8>> = (0..34).map(|n: u32| n.to_string().into_bytes()).collect();
        let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        assert_eq!(kept(&arguments[..32]), &arguments[..32]);
        let many = kept(&arguments);
        assert_eq!((many.len(), &many[..31]), (32, &kept(&arguments[..31])[..]));
        assert_eq!(many[31], b"... (3 more arguments)");
    }
}
