//! What the four papers claim, as data, and the verdict on what we find instead.
//!
//! * [`Claim`]: one claim, with an id that never changes; [`all`] and [`find`].
//! * [`Accept`]: what is close enough, and its [`Verdict`].
//! * [`Finding`]: theirs beside ours; [`Findings`] prints them as a table or as JSON.
//! * [`analytic`]: the claims that need no simulation.
//!
//! ```
//! use ebbtide_study::claims::{self, Verdict};
//!
//! let claim = claims::find("AS3").expect("AstriFlash's first result");
//! assert_eq!(claim.judge("", 94.1), Verdict::Within);
//! assert_eq!(claim.judge("", 60.0), Verdict::Outside);
//! ```
//!
//! A family of claims is a file: [`astriflash`], [`flatflash`], [`hams`], [`cxl_flash`].

mod accept;
pub mod analytic;
pub mod astriflash;
mod claim;
pub mod cxl_flash;
mod finding;
pub mod flatflash;
pub mod hams;
mod table;
#[cfg(test)]
mod tests;

pub use accept::{Accept, Ours, Verdict};
pub use claim::{Claim, Method, Part};
pub use finding::{Finding, Findings};

/// Every claim, paper by paper, in the order of the ids.
pub fn all() -> impl Iterator<Item = &'static Claim> {
    [astriflash::CLAIMS, flatflash::CLAIMS, hams::CLAIMS, cxl_flash::CLAIMS].into_iter().flatten()
}

/// The claim called `id`, such as `AS3`.
pub fn find(id: &str) -> Option<&'static Claim> {
    all().find(|claim| claim.id == id)
}
