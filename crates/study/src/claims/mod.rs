//! Claims of papers as data, and the verdicts on our results. Read [`Claim`] and [`Finding`] first.
//!
//! * [`Claims`]: the claims of one paper.
//! * [`Claim`]: one claim of a paper, with an id that never changes.
//! * [`Accept`]: the tolerance of a claim, and its [`Verdict`].
//! * [`Finding`]: a claim with our result; [`Findings`] prints them as a table or as JSON.
//! * [`Figures`]: a paper's figures and tables, as plain text and as a page.

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
pub use list::{CONVERGED, Claims};
pub use mean::{geometric_mean, least, mean, most};
