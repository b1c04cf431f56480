//! A progress bar on standard error, if that is a terminal, and Ctrl-C, which stops a watched run.

use std::fmt::Write;
use std::sync::Once;
use std::time::{Duration, Instant};

use ebbtide_core::{Stop, Watch, time_left};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::exit::Failure;

/// Number of steps of a bar.
const PARTS: f64 = 1e6;

/// A run shows a bar after this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Set by Ctrl-C once a run observes it.
static STOP: Stop = Stop::new();

/// Makes Ctrl-C set the returned [`Stop`] instead of ending the process.
pub(crate) fn on_interrupt() -> Result<&'static Stop, Failure> {
    ctrlc::set_handler(|| STOP.stop())?;
    Ok(&STOP)
}

/// Whether Ctrl-C has stopped a run.
pub(crate) fn is_stopped() -> bool {
    STOP.is_stopped()
}

/// Runs `work` and shows its progress. Ctrl-C stops it.
pub(crate) fn watched<T>(work: impl FnOnce(Watch<'_>) -> T) -> Result<T, Failure> {
    watched_for(None, work)
}

/// As [`watched`], for work with an expected time, if that is known.
pub(crate) fn watched_for<T>(
    expected: Option<Duration>,
    work: impl FnOnce(Watch<'_>) -> T,
) -> Result<T, Failure> {
    on_interrupt()?;
    Ok(shown(expected, work))
}

/// Runs `work` and shows its progress. Ctrl-C stops it only if [`on_interrupt`] was called before.
pub(crate) fn shown<T>(expected: Option<Duration>, work: impl FnOnce(Watch<'_>) -> T) -> T {
    let bar = LateBar::new(bar(expected));
    let show = |stage: &str, share: f64| {
        bar.update(|bar| {
            bar.set_position((share * PARTS) as u64);
            bar.set_message(stage.to_string());
        });
    };
    let done = work(Watch::new(&show, &STOP));
    bar.clear();
    done
}

/// Returns a bar with the stage, the share done and an estimate of the time left of the `expected`.
fn bar(expected: Option<Duration>) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {left}  {msg}");
    let left = move |state: &ProgressState, out: &mut dyn Write| {
        let left = time_left(state.elapsed(), f64::from(state.fraction()), expected);
        // A bar is there to be looked at: that it cannot be written ends nothing.
        let _ = out.write_str(&left.map_or("measuring its speed".to_string(), in_words));
    };
    let bar = ProgressBar::with_draw_target(Some(PARTS as u64), ProgressDrawTarget::hidden());
    bar.set_style(style.expect("the template is valid").with_key("left", left));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Returns a rough estimate of the time left, in words.
fn in_words(left: Duration) -> String {
    let seconds = left.as_secs_f64();
    match seconds {
        ..55.0 => format!("about {} s left", 5.0 * (seconds / 5.0).ceil()),
        ..5_700.0 => format!("about {} min left", (seconds / 60.0).round()),
        _ => format!("about {:.1} h left", seconds / 3600.0),
    }
}

/// A bar that appears once a run has taken longer than two seconds.
struct LateBar {
    bar: ProgressBar,
    start: Instant,
    appears: Once,
}

impl LateBar {
    fn new(bar: ProgressBar) -> LateBar {
        LateBar { bar, start: Instant::now(), appears: Once::new() }
    }

    fn update(&self, change: impl FnOnce(&ProgressBar)) {
        if self.start.elapsed() >= PATIENCE {
            self.appears.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
            change(&self.bar);
        }
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line of text for a run of unknown length. Like a bar, it appears after two seconds.
pub(crate) struct Spinner(LateBar);

impl Spinner {
    /// A line that is not shown yet.
    pub(crate) fn new() -> Spinner {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{elapsed}  {msg}");
        bar.set_style(style.expect("the template is valid"));
        Spinner(LateBar::new(bar))
    }

    /// Shows `text`.
    pub(crate) fn show(&self, text: &str) {
        self.0.update(|bar| {
            bar.set_message(text.to_string());
            bar.tick();
        });
    }

    /// Removes the line.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_told_as_roughly_as_it_is_known() {
        let said = [0.4, 31.0, 54.9, 57.0, 89.0, 3_000.0, 5_699.0, 9_000.0].map(|seconds| {
            in_words(Duration::from_secs_f64(seconds)).replace("about ", "").replace(" left", "")
        });
        assert_eq!(said, ["5 s", "35 s", "55 s", "1 min", "1 min", "50 min", "95 min", "2.5 h"]);
    }
}
