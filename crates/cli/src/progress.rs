//! A progress bar on standard error, where that is a terminal, and Ctrl-C, which stops what is
//! watched.

use std::sync::Once;
use std::time::{Duration, Instant};

use ebbtide_core::{Stop, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit::Failure;

/// Parts a bar counts in.
const PARTS: f64 = 1000.0;

/// How long a run may take before it shows a bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Set by Ctrl-C, once a run looks at it.
static STOP: Stop = Stop::new();

/// From now on Ctrl-C does not end the process but stops what looks at the result.
pub(crate) fn on_interrupt() -> Result<&'static Stop, Failure> {
    ctrlc::set_handler(|| STOP.stop())?;
    Ok(&STOP)
}

/// Runs `work`, showing its progress; Ctrl-C stops it.
pub(crate) fn watched<T>(work: impl FnOnce(Watch<'_>) -> T) -> Result<T, Failure> {
    on_interrupt()?;
    Ok(shown(work))
}

/// Runs `work`, showing its progress; Ctrl-C stops it only where that was asked for before.
pub(crate) fn shown<T>(work: impl FnOnce(Watch<'_>) -> T) -> T {
    let bar = LateBar::new(bar());
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

/// A bar with the stage, the share done and the time left.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {eta:>4} left  {msg}");
    let bar = ProgressBar::with_draw_target(Some(PARTS as u64), ProgressDrawTarget::hidden());
    bar.set_style(style.expect("the template is valid"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
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

/// A line of text for a run of unknown length, which appears as late as a bar.
pub(crate) struct Spinner(LateBar);

impl Spinner {
    /// A line that does not show yet.
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

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }
}
