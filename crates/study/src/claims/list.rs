//! [`Claims`]: the claims of one paper.

use ebbtide_report::statistics::Estimate;

use super::claim::Claim;
use super::finding::{Finding, Findings};

/// The largest half-width of a converged tail's 95% interval over seeds, as a share of the mean.
pub const CONVERGED: f64 = 0.10;

/// The claims of one paper, in the order of their ids.
#[derive(Clone, Copy, Debug)]
pub struct Claims(pub &'static [Claim]);

impl Claims {
    /// Returns an iterator over the claims.
    pub fn iter(self) -> impl Iterator<Item = &'static Claim> {
        self.0.iter()
    }

    /// Returns the claim called `id`, such as `AS3`.
    ///
    /// # Panics
    /// When the paper has no such claim.
    pub fn get(self, id: &str) -> &'static Claim {
        let found = self.iter().find(|claim| claim.id == id);
        found.unwrap_or_else(|| panic!("no claim is called '{id}'"))
    }

    /// Returns the `decided` findings in the order of the claims. A claim with none gets the
    /// findings that need no experiment: its inputs and parts that cannot be tested.
    pub fn findings(self, decided: impl IntoIterator<Item = Finding>) -> Findings {
        let decided: Vec<Finding> = decided.into_iter().collect();
        let mut all = Vec::new();
        for claim in self.iter() {
            let before = all.len();
            let parts = decided.iter().filter(|finding| finding.id == claim.id).cloned();
            // The claim's own note is shown with its first part.
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

impl Claim {
    /// Returns the finding for a tail latency, the part called `part`, with the result `ours` over
    /// several seeds. It has not converged if the 95% interval exceeds [`CONVERGED`].
    ///
    /// # Panics
    /// As [`Claim::finding`].
    pub fn tail(&self, part: &str, ours: Estimate) -> Finding {
        let finding = self.finding(part, ours.mean);
        if ours.is_within(CONVERGED) {
            return finding;
        }
        let [low, high] = ours.ci95.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
        finding.not_converged(&format!("Over seeds it is between {low:.2} and {high:.2} (95%)."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Accept, Verdict, claim};

    const TAIL: Claim = claim("X1", "§1", "p99").value("2×", "×", Accept::AtMost(3.0));

    #[test]
    fn a_tail_has_a_verdict_only_if_seeds_agree() {
        let found = |values: &[f64]| TAIL.tail("", Estimate::of(values));
        assert_eq!(found(&[2.0, 2.02, 1.98]).verdict, Verdict::Within);
        assert_eq!(found(&[4.0, 4.02, 3.98]).verdict, Verdict::Outside);
        let wide = found(&[0.84, 1.16, 3.5, 4.6]);
        assert_eq!((wide.verdict, wide.ours), (Verdict::NotConverged, None));
        assert!(wide.note.contains("between -0.37 and 5.42"), "{}", wide.note);
        assert_eq!(found(&[2.0]).verdict, Verdict::NotConverged, "one seed says nothing of others");
    }
}
