//! The claims that formulas decide, evaluated (SPEC part E).
//!
//! Two are left to others: AS6 needs miss curves, and CX2 the flash pages that a simulated Page
//! Rank writes ([`cxl_flash::page_rank_lifetime`]), which the paper does not print.

pub mod astriflash;
pub mod cxl_flash;
pub mod flatflash;
pub mod hams;

use super::accept::Ours;
use super::finding::{Finding, Findings};

/// Every claim that formulas alone decide.
pub fn all() -> Findings {
    let families =
        [astriflash::findings(), flatflash::findings(), hams::findings(), cxl_flash::findings()];
    families.into_iter().flatten().collect()
}

/// What we found for a part of the claim `id`, which this crate's tables hold.
fn finding(id: &str, part: &str, ours: impl Into<Ours>) -> Finding {
    let Some(claim) = super::find(id) else { panic!("no claim is called '{id}'") };
    claim.finding(part, ours)
}
