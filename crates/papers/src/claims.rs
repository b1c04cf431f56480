//! Every claim of the four papers.
//!
//! ```
//! use ebbtide_papers::claims;
//! use ebbtide_study::claims::Verdict;
//!
//! let claim = claims::find("AS3").expect("AstriFlash's first result");
//! assert_eq!(claim.judge("", 94.1), Verdict::Within);
//! assert_eq!(claim.judge("", 60.0), Verdict::Outside);
//! ```

use ebbtide_study::claims::{Claim, Claims};

use crate::{astriflash, cxl_flash, flatflash, hams};

/// Returns every claim, paper by paper, in the order of the ids.
pub fn all() -> impl Iterator<Item = &'static Claim> {
    let papers = [
        astriflash::claims::CLAIMS,
        flatflash::claims::CLAIMS,
        hams::claims::CLAIMS,
        cxl_flash::claims::CLAIMS,
    ];
    papers.into_iter().flat_map(Claims::iter)
}

/// Returns the claim called `id`, such as `AS3`. Case matters.
pub fn find(id: &str) -> Option<&'static Claim> {
    all().find(|claim| claim.id == id)
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
