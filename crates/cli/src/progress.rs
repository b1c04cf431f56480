//! A progress bar on standard error, if that is a terminal, and Ctrl-C, which stops a watched run.

use std::sync::Once;
use std::time::{Duration, Instant};

use ebbtide_core::{Stop, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
    on_interrupt()?;
    Ok(shown(work))
}

/// Runs `work` and shows its progress. Ctrl-C stops it only if [`on_interrupt`] was called before.
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

/// Returns a bar with the share done, the time since the start and the stage.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {elapsed}  {msg}");
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
