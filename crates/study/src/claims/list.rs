//! [`Claims`]: the claims of one paper.

use super::accept::Ours;
use super::claim::Claim;
use super::finding::{Finding, Findings};

/// The claims of one paper, in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct Claims(pub &'static [Claim]);

impl Claims {
    /// Every claim.
    pub fn iter(self) -> impl Iterator<Item = &'static Claim> {
        self.0.iter()
    }

    /// The claim called `id`, such as `AS3`.
    ///
    /// # Panics
    /// When the paper has no such claim.
    pub fn get(self, id: &str) -> &'static Claim {
        let found = self.iter().find(|claim| claim.id == id);
        found.unwrap_or_else(|| panic!("no claim is called '{id}'"))
    }

    /// The finding that part `part` of the claim `id` is `ours`.
    ///
    /// # Panics
    /// As [`Claims::get`] and [`Claim::finding`].
    pub fn found(self, id: &str, part: &str, ours: impl Into<Ours>) -> Finding {
        self.get(id).finding(part, ours)
    }

    /// The findings of every claim, in the order of the claims: the `decided` ones, and for a claim
    /// without any what is known without an experiment.
    pub fn findings(self, decided: impl IntoIterator<Item = Finding>) -> Findings {
        let decided: Vec<Finding> = decided.into_iter().collect();
        let mut all = Vec::new();
        for claim in self.iter() {
            let before = all.len();
            let parts = decided.iter().filter(|finding| finding.id == claim.id).cloned();
            // The claim's own note stands with its first part.
            let once = |(number, part): (usize, Finding)| match number {
                0 => part,
                _ => part.without(claim.note),
            };
            all.extend(parts.enumerate().map(once));
            if all.len() == before {
                all.extend(claim.findings_beforehand());
            }
        }
        all.into_iter().collect()
    }
}
