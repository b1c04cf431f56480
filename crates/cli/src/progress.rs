//! A progress bar on standard error, where that is a terminal.

use std::sync::Once;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Parts a bar counts in.
const PARTS: f64 = 1000.0;

/// A bar with the stage, the share done and the time left; hidden where nobody watches.
pub(crate) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {eta:>4} left  {msg}");
    let bar = ProgressBar::with_draw_target(Some(PARTS as u64), ProgressDrawTarget::stderr());
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Moves `bar` to a stage and a share in 0..=1.
pub(crate) fn show(bar: &ProgressBar, stage: &str, share: f64) {
    bar.set_position((share * PARTS) as u64);
    bar.set_message(stage.to_string());
}

/// How long a run may take before it shows a [`LateBar`].
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar that appears once a run has taken longer than two seconds.
pub(crate) struct LateBar {
    bar: ProgressBar,
    start: Instant,
    appears: Once,
}

/// A bar that is not there yet.
pub(crate) fn late_bar() -> LateBar {
    let bar = bar();
    bar.set_draw_target(ProgressDrawTarget::hidden());
    LateBar { bar, start: Instant::now(), appears: Once::new() }
}

impl LateBar {
    /// Moves it to a stage and a share in 0..=1.
    pub(crate) fn show(&self, stage: &str, share: f64) {
        if self.start.elapsed() >= PATIENCE {
            self.appears.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
            show(&self.bar, stage, share);
        }
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line of text that appears once a run has taken longer than two seconds.
pub(crate) struct LateSpinner {
    bar: ProgressBar,
    start: Instant,
    appears: Once,
}

/// A line that is not there yet, for a run of unknown length.
pub(crate) fn late_spinner() -> LateSpinner {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(ProgressStyle::with_template("{elapsed}  {msg}").expect("the template is valid"));
    LateSpinner { bar, start: Instant::now(), appears: Once::new() }
}

impl LateSpinner {
    /// Shows `text`.
    pub(crate) fn show(&self, text: &str) {
        if self.start.elapsed() >= PATIENCE {
            self.appears.call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
            self.bar.set_message(text.to_string());
            self.bar.tick();
        }
    }

    /// Takes it away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
