//! [`Timeline`]: the steps of one miss.

use ebbtide_core::{Span, Time};
use serde::Serialize;

use crate::machine::{Missed, Story};
use crate::memory_side::{Noted, Stage};

/// A miss from the issue of its access until its line arrives.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timeline {
    /// The core.
    pub core: u32,
    /// Its thread.
    pub thread: u32,
    /// The page that was absent.
    pub page: u64,
    /// Whether the access was a store.
    pub write: bool,
    /// The whole time.
    pub total_ns: f64,
    /// The number of misses. This one is their median.
    pub of_misses: usize,
    /// The steps, in the order of their beginnings.
    pub steps: Vec<Step>,
}

/// A step of a miss.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// When the step begins, from the beginning of the miss.
    pub from_ns: f64,
    /// Duration of the step.
    pub for_ns: f64,
    /// The part of the machine that works or waits.
    pub who: &'static str,
    /// The action of that part.
    pub what: &'static str,
}

impl Timeline {
    /// The miss of median length in `story`. If possible, it is one of the misses that started a
    /// flash read and repeated their access only once.
    pub(crate) fn typical(story: &Story) -> Option<Timeline> {
        let plain = |missed: &&Missed| missed.repeats == 0 && read(missed, &story.notes).is_some();
        let mut misses: Vec<&Missed> = story.misses.iter().filter(plain).collect();
        if misses.is_empty() {
            misses = story.misses.iter().collect();
        }
        misses.sort_by_key(|missed| missed.done.since(missed.issued));
        let missed = *misses.get(misses.len() / 2)?;
        Some(Timeline {
            core: missed.waiter.core,
            thread: missed.waiter.thread,
            page: missed.page.0,
            write: missed.write,
            total_ns: ns(missed.done.since(missed.issued)),
            of_misses: misses.len(),
            steps: steps(missed, &story.notes),
        })
    }
}

/// When flash had read the missed page.
fn read(missed: &Missed, notes: &[Noted]) -> Option<Time> {
    noted(missed, notes, Stage::Read)
}

/// When `stage` ended for the page, between the miss and its arrival.
fn noted(missed: &Missed, notes: &[Noted], stage: Stage) -> Option<Time> {
    let of = |note: &&Noted| note.page == missed.page && note.stage == stage;
    let during = |at: &Time| (missed.looked..=missed.arrived).contains(at);
    notes.iter().filter(of).map(|note| note.at).find(during)
}

fn steps(missed: &Missed, notes: &[Noted]) -> Vec<Step> {
    let on_core = [
        ("core", "issues the access and translates its address", missed.translated),
        ("L1, LLC", "do not have the line, as is learned over the on-chip network", missed.looked),
        ("memory", "looks for the page, which is not there", missed.replied),
        ("core", "flushes its pipeline", missed.flushed),
        ("core", "switches to another thread", missed.left),
    ];
    let at = |stage| noted(missed, notes, stage);
    let in_memory = [
        ("backside", "has other misses to handle first", at(Stage::Taken)),
        ("backside", "looks for a miss under way, gives up a page, asks flash", at(Stage::Asked)),
        ("link", "carries the command", at(Stage::Commanded)),
        ("flash", "reads the page", at(Stage::Read)),
        ("link", "carries the page", at(Stage::Carried)),
        ("memory", "installs the page", Some(missed.arrived)),
    ];
    let afterwards = [
        ("thread", "waits for the scheduler to choose it", missed.chosen),
        ("core", "switches back to it", missed.resumed),
        ("core", "repeats the access, which now finds its page", missed.done),
    ];
    let known = in_memory.into_iter().filter_map(|(who, what, end)| Some((who, what, end?)));
    let mut steps: Vec<Step> = track(missed, missed.issued, on_core)
        .chain(track(missed, missed.replied, known))
        .chain(track(missed, missed.arrived, afterwards))
        .collect();
    steps.sort_by(|a, b| a.from_ns.total_cmp(&b.from_ns));
    steps
}

/// Consecutive steps, the first one from `from` on, each up to its end. Steps without duration are
/// left out.
fn track(
    missed: &Missed,
    from: Time,
    ends: impl IntoIterator<Item = (&'static str, &'static str, Time)>,
) -> impl Iterator<Item = Step> {
    let mut from = from;
    ends.into_iter().filter_map(move |(who, what, end)| {
        let (since, span) = (from.since(missed.issued), end.since(from));
        from = from.max(end);
        (span > Span::ZERO).then(|| Step { from_ns: ns(since), for_ns: ns(span), who, what })
    })
}

fn ns(span: Span) -> f64 {
    span.as_ps() as f64 / 1e3
}
