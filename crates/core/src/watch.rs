//! [`Watch`]: reports the progress of a long run, and tells the run to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

/// A request to stop, made from any thread or from a signal handler.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// A stop that is not requested.
    pub const fn new() -> Stop {
        Stop(AtomicBool::new(false))
    }

    /// Requests the stop. A request cannot be withdrawn.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns true if the stop was requested.
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A run was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("cancelled")]
pub struct Stopped;

/// Reports the progress of a long run, and tells the run to stop.
///
/// It is cheap to copy. Any thread may use it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    tell: &'a (dyn Fn(&str, f64) + Sync),
    stop: &'a Stop,
}

impl Watch<'static> {
    /// A watch that reports nothing and never stops.
    pub const fn unattended() -> Watch<'static> {
        static NEVER: Stop = Stop::new();
        Watch { tell: &|_, _| (), stop: &NEVER }
    }
}

impl<'a> Watch<'a> {
    /// Returns a watch that reports to `tell` and stops on `stop`. It reports the stage and the
    /// share of all work done, from 0 to 1.
    pub const fn new(tell: &'a (dyn Fn(&str, f64) + Sync), stop: &'a Stop) -> Watch<'a> {
        Watch { tell, stop }
    }

    /// Returns a watch with the same stop request that reports progress to `tell`. For a part of a
    /// run.
    pub const fn telling<'b>(&self, tell: &'b (dyn Fn(&str, f64) + Sync)) -> Watch<'b>
    where
        'a: 'b,
    {
        Watch { tell, stop: self.stop }
    }

    /// Runs `part`, which is the work between the shares `from` and `to` of the whole. `part`
    /// reports its own share from 0 to 1.
    pub fn within<T>(&self, from: f64, to: f64, part: impl FnOnce(Watch<'_>) -> T) -> T {
        let show = |stage: &str, share: f64| self.show(stage, from + (to - from) * share);
        part(self.telling(&show))
    }

    /// Reports that `stage` is running and `share` of all work is done.
    ///
    /// # Errors
    /// [`Stopped`] if the run is to stop.
    pub fn tell(&self, stage: &str, share: f64) -> Result<(), Stopped> {
        self.show(stage, share);
        self.go_on()
    }

    /// Reports progress without checking for a stop, for a part that has its own check.
    pub fn show(&self, stage: &str, share: f64) {
        (self.tell)(stage, share);
    }

    /// Checks for a stop without reporting progress.
    ///
    /// # Errors
    /// [`Stopped`] if the run is to stop.
    pub fn go_on(&self) -> Result<(), Stopped> {
        if self.is_stopped() { Err(Stopped) } else { Ok(()) }
    }

    /// Returns true if the run must stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.is_stopped()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn a_part_tells_its_own_and_stops_with_the_whole() {
        let (stop, told) = (Stop::new(), Mutex::new(Vec::new()));
        let show = |stage: &str, share: f64| told.lock().unwrap().push((stage.to_string(), share));
        let whole = Watch::new(&show, &stop);
        let half = |stage: &str, share: f64| whole.show(stage, 0.5 + share / 2.0);
        let part = whole.telling(&half);
        assert!(part.tell("second half", 0.5).is_ok());
        stop.stop();
        assert!(part.go_on().is_err() && whole.is_stopped());
        assert_eq!(*told.lock().unwrap(), [("second half".to_string(), 0.75)]);
        whole.within(0.5, 0.75, |part| part.show("third quarter", 0.0));
        assert_eq!(told.lock().unwrap().last(), Some(&("third quarter".to_string(), 0.5)));
    }

    #[test]
    fn an_unattended_run_goes_on() {
        assert!(Watch::unattended().tell("anything", 1.0).is_ok());
    }
}
