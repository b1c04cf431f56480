//! The claims that formulas alone decide, of every paper.
//!
//! Two are left to others: AS6 needs miss curves, and CX2 the flash pages that a simulated Page
//! Rank writes ([`page_rank_lifetime`](crate::cxl_flash::formulas::page_rank_lifetime)), which the
//! paper does not print.

use crate::claims::{self, Finding, Findings, Ours};
use crate::{astriflash, cxl_flash, flatflash, hams};

/// Every claim that formulas alone decide.
pub fn all() -> Findings {
    let families = [
        astriflash::formulas::findings(),
        flatflash::formulas::findings(),
        hams::formulas::findings(),
        cxl_flash::formulas::findings(),
    ];
    families.into_iter().flatten().collect()
}

/// What we found for a part of the claim `id`, which this crate's tables hold.
pub(crate) fn finding(id: &str, part: &str, ours: impl Into<Ours>) -> Finding {
    let Some(claim) = claims::find(id) else { panic!("no claim is called '{id}'") };
    claim.finding(part, ours)
}
