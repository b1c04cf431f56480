//! A progress bar on standard error, where that is a terminal.

use std::time::Duration;

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
