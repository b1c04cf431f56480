//! Claims as data, and the verdict on what is found instead.
//!
//! * [`Claims`]: the claims of one paper.
//! * [`Claim`]: one claim of a paper, with an id that never changes.
//! * [`Accept`]: what is close enough, and its [`Verdict`].
//! * [`Finding`]: theirs beside ours; [`Findings`] prints them as a table or as JSON.

mod accept;
mod claim;
mod figures;
mod finding;
mod list;
mod mean;
mod table;

pub use accept::{Accept, Ours, Verdict};
pub use claim::{Claim, Method, Part, claim, input, not_testable, part};
pub use figures::{Cell, Figures, Grid};
pub use finding::{Finding, Findings};
pub use list::Claims;
pub use mean::{geometric_mean, least, mean, most};
