//! [`SlowScripts`]: scripts that have run longer than the limit. Other commands get `BUSY`, and
//! `SCRIPT KILL` ends the scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The limit at the start in milliseconds, as in Redis.
const LIMIT_MS: u64 = 5000;

/// Time after which a slow script wakes the jobs that wait for it again. One may have begun to wait
/// just after the last time.
const WAKE_EVERY: Duration = Duration::from_millis(100);

/// A script that has run longer than the limit.
#[derive(Debug, Default)]
struct Slow {
    /// True if it must end.
    killed: AtomicBool,
    /// True if it has made changes that cannot be dropped.
    keeps: AtomicBool,
}

/// The answer to a request to end all slow scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kill {
    /// They end soon.
    Done,
    /// There is none.
    NotBusy,
    /// One has made changes that cannot be dropped.
    Keeps,
}

/// The scripts of all cores that have run longer than the limit.
#[derive(Debug)]
pub(crate) struct SlowScripts {
    /// The limit in milliseconds; 0 for none.
    limit_ms: AtomicU64,
    scripts: Mutex<Vec<Arc<Slow>>>,
    /// True if there are some.
    busy: Arc<AtomicBool>,
}

impl Default for SlowScripts {
    fn default() -> SlowScripts {
        let limit_ms = AtomicU64::new(LIMIT_MS);
        SlowScripts { limit_ms, scripts: Mutex::default(), busy: Arc::default() }
    }
}

impl SlowScripts {
    /// The limit in milliseconds; 0 for none.
    pub(crate) fn limit_ms(&self) -> u64 {
        self.limit_ms.load(Ordering::Relaxed)
    }

    /// Changes the limit.
    pub(crate) fn set_limit_ms(&self, limit_ms: u64) {
        self.limit_ms.store(limit_ms, Ordering::Relaxed);
    }

    /// True if a slow script runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// A flag that is true while a slow script runs.
    pub(crate) fn busy(&self) -> &Arc<AtomicBool> {
        &self.busy
    }

    /// Asks all slow scripts to end.
    pub(crate) fn kill(&self) -> Kill {
        let scripts = self.scripts.lock();
        if scripts.is_empty() {
            return Kill::NotBusy;
        }
        if scripts.iter().any(|slow| slow.keeps.load(Ordering::SeqCst)) {
            return Kill::Keeps;
        }
        scripts.iter().for_each(|slow| slow.killed.store(true, Ordering::SeqCst));
        Kill::Done
    }

    /// Watches a script that begins now. `keeps` is true if its changes cannot be dropped.
    pub(crate) fn watch(&self, keeps: bool) -> Watched<'_> {
        let began = Instant::now();
        Watched { all: self, began, slow: None, woke: began, keeps, wrote: false }
    }
}

/// A script under way. It is no longer slow once this is dropped.
#[derive(Debug)]
pub(crate) struct Watched<'a> {
    all: &'a SlowScripts,
    began: Instant,
    slow: Option<Arc<Slow>>,
    /// When it last woke the jobs that wait for it.
    woke: Instant,
    /// True if its changes cannot be dropped.
    keeps: bool,
    /// True if it has made changes.
    wrote: bool,
}

impl Watched<'_> {
    /// Returns true if the script must end.
    pub(crate) fn look(&mut self) -> bool {
        if let Some(slow) = &self.slow {
            return slow.killed.load(Ordering::Relaxed);
        }
        let limit_ms = self.all.limit_ms();
        if limit_ms > 0 && self.began.elapsed() > Duration::from_millis(limit_ms) {
            let slow = Arc::new(Slow::default());
            slow.keeps.store(self.keeps && self.wrote, Ordering::SeqCst);
            let mut scripts = self.all.scripts.lock();
            scripts.push(slow.clone());
            self.all.busy.store(true, Ordering::Relaxed);
            self.slow = Some(slow);
        }
        false
    }

    /// True if the jobs that wait for the script must look again whether they give up. That is so
    /// ten times a second once the script is slow.
    pub(crate) fn must_wake(&mut self) -> bool {
        let must = self.slow.is_some() && self.woke.elapsed() >= WAKE_EVERY;
        if must {
            self.woke = Instant::now();
        }
        must
    }

    /// Records that the script changes a key.
    pub(crate) fn writes(&mut self) {
        self.wrote = true;
        if let Some(slow) = self.slow.as_ref().filter(|_| self.keeps) {
            slow.keeps.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let Some(slow) = self.slow.take() else { return };
        let mut scripts = self.all.scripts.lock();
        scripts.retain(|other| !Arc::ptr_eq(other, &slow));
        self.all.busy.store(!scripts.is_empty(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_beyond_the_limit_is_slow_until_it_ends_and_can_be_killed_before_it_writes() {
        let all = SlowScripts::default();
        let mut script = all.watch(true);
        assert!(!script.look() && !all.is_busy());
        assert_eq!(all.kill(), Kill::NotBusy);
        all.set_limit_ms(1);
        std::thread::sleep(Duration::from_millis(5));
        assert!(!script.look() && all.is_busy());
        assert_eq!(all.kill(), Kill::Done);
        assert!(script.look());
        script.writes();
        assert_eq!(all.kill(), Kill::Keeps);
        drop(script);
        assert!(!all.is_busy());
    }

    #[test]
    fn a_script_whose_changes_can_be_dropped_can_be_killed_after_it_has_written() {
        let all = SlowScripts::default();
        all.set_limit_ms(1);
        let mut script = all.watch(false);
        script.writes();
        std::thread::sleep(Duration::from_millis(5));
        script.look();
        assert_eq!(all.kill(), Kill::Done);
    }
}
