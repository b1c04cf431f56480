//! Ctrl-C, and what it stops.

use std::ops::ControlFlow;

use ebbtide_measure::bench::Cancel;

use crate::exit::Failure;

/// From now on Ctrl-C does not end the process but what is given to look at this.
pub(crate) fn on_interrupt() -> Result<Cancel, Failure> {
    let cancel = Cancel::default();
    let canceller = cancel.clone();
    ctrlc::set_handler(move || canceller.cancel())?;
    Ok(cancel)
}

/// Whether to go on.
pub(crate) fn unless_cancelled(cancel: &Cancel) -> ControlFlow<()> {
    if cancel.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}
