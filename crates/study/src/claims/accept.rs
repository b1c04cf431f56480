//! [`Accept`]: the tolerance of a claim, and the [`Verdict`] on a finding.

use std::fmt;

use ebbtide_report::Compared;
use serde::Serialize;

/// The tolerance of a claim. Numbers are in the unit of the claim's part, except shares.
///
/// In `Relative` and `Ends`, a number above 1 claims a gain. Our number must then be at least 1,
/// even if the tolerance reaches below 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Accept {
    /// The number. Ours must round to it with this many decimals.
    Rounds(f64, i32),
    /// The number, plus or minus this much (percentage points where the unit is %).
    Near(f64, f64),
    /// The number, plus or minus this share of it (0.1 is 10%).
    Relative(f64, f64),
    /// A range from the first number to the second, and a share. Our least number must be within
    /// the share of the first, our largest within the share of the second. A single number of ours
    /// counts as both.
    Ends(f64, f64, f64),
    /// From the first number to the second, both included.
    Between(f64, f64),
    /// The number or more.
    AtLeast(f64),
    /// The number or less.
    AtMost(f64),
    /// More than the number.
    Above(f64),
    /// Less than the number.
    Below(f64),
    /// The order of magnitude: from the first number to the second, plus half a decade at either
    /// end.
    Order(f64, f64),
    /// The claim's statement must hold. The text names the kind of statement, such as "sign",
    /// "shape" or "rank".
    Holds(&'static str),
    /// No tolerance: the claim is an input of the models.
    Input,
    /// No tolerance: the paper mentions it in passing, and no model covers it.
    Context,
    /// No tolerance: the claim cannot be tested, for this reason.
    NotTestable(&'static str),
}

/// Our result: a number in the unit of the claim's part, a range of numbers, or whether a statement
/// holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ours {
    /// A number.
    Number(f64),
    /// The least and the largest of several numbers. Both must be within the tolerance.
    Range(f64, f64),
    /// True if the claim's statement holds.
    Holds(bool),
}

impl Ours {
    /// Returns the range of `numbers`. Both ends are NaN if a number is NaN or there are none.
    pub fn range(numbers: impl IntoIterator<Item = f64>) -> Ours {
        let (mut from, mut to) = (f64::NAN, f64::NAN);
        for number in numbers {
            // A NaN makes the whole range NaN, which is outside of every tolerance.
            if number.is_nan() {
                return Ours::Range(f64::NAN, f64::NAN);
            }
            (from, to) = (from.min(number), to.max(number));
        }
        Ours::Range(from, to)
    }
}

impl From<f64> for Ours {
    fn from(number: f64) -> Ours {
        Ours::Number(number)
    }
}

impl From<bool> for Ours {
    fn from(holds: bool) -> Ours {
        Ours::Holds(holds)
    }
}

/// The verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub enum Verdict {
    /// Our result is within the tolerance.
    #[serde(rename = "within")]
    Within,
    /// Our result is outside of the tolerance.
    #[serde(rename = "outside")]
    Outside,
    /// Our result is within the tolerance, but it could not be otherwise. It is an input, follows
    /// from inputs, or both sides are the same formula.
    #[serde(rename = "by construction")]
    ByConstruction,
    /// The paper's own numbers exclude its claimed value.
    #[serde(rename = "inconsistent")]
    Inconsistent,
    /// Our result is not exact enough for a verdict.
    #[serde(rename = "not converged")]
    NotConverged,
    /// The claim depends on a trace or a number that we do not have.
    #[serde(rename = "needs input")]
    NeedsInput,
    /// The claim is an input, and has no result of ours.
    #[serde(rename = "input")]
    Input,
    /// The claim cannot be tested.
    #[serde(rename = "not testable")]
    NotTestable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Within => "within",
            Verdict::Outside => "outside",
            Verdict::ByConstruction => "by construction",
            Verdict::Inconsistent => "inconsistent",
            Verdict::NotConverged => "not converged",
            Verdict::NeedsInput => "needs input",
            Verdict::Input => "input",
            Verdict::NotTestable => "not testable",
        })
    }
}

/// Half a decade.
const HALF_DECADE: f64 = 3.162_277_660_168_379_5;

/// Whether `ours` is within the share `by` of `of`. If `of` is a gain, `ours` must not be a loss.
fn near(ours: f64, of: f64, by: f64) -> bool {
    let loss = of > 1.0 && ours < 1.0;
    (ours - of).abs() <= of.abs() * by * (1.0 + 1e-9) && !loss
}

impl Accept {
    /// Returns the verdict on `ours`. NaN is outside of every tolerance.
    ///
    /// # Panics
    /// When one side is a number and the other a statement.
    pub fn judge(self, ours: impl Into<Ours>) -> Verdict {
        let within = match (self, ours.into()) {
            (Accept::Input | Accept::Context, _) => return Verdict::Input,
            (Accept::NotTestable(_), _) => return Verdict::NotTestable,
            (Accept::Holds(_), Ours::Holds(holds)) => holds,
            (accept, Ours::Number(number)) if !matches!(accept, Accept::Holds(_)) => {
                accept.takes(number, number)
            }
            (accept, Ours::Range(from, to)) if !matches!(accept, Accept::Holds(_)) => {
                accept.takes(from, to)
            }
            (accept, ours) => panic!("{ours:?} cannot be judged by {accept:?}"),
        };
        if within { Verdict::Within } else { Verdict::Outside }
    }

    /// Returns the verdict on results for several choices of an open parameter. It is
    /// [`Verdict::Within`] if one result is, or if the claimed number lies between two results.
    /// Otherwise it is [`Verdict::Outside`].
    ///
    /// # Panics
    /// As [`Accept::judge`].
    pub fn judge_range(self, ours: &[Ours]) -> Verdict {
        let within = ours.iter().any(|one| self.judge(*one) == Verdict::Within);
        let (from, to) = match self {
            Accept::Rounds(of, _) | Accept::Near(of, _) | Accept::Relative(of, _) => (of, of),
            Accept::Ends(from, to, _) | Accept::Between(from, to) => (from, to),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        let any = |is: &dyn Fn(f64) -> bool| {
            ours.iter().any(|one| matches!(one, Ours::Number(number) if is(*number)))
        };
        let around = any(&|number| number < from) && any(&|number| number > to);
        if within || around { Verdict::Within } else { Verdict::Outside }
    }

    /// Returns the verdict that needs no result: on an input or a claim that cannot be tested.
    /// `None` for all other claims.
    pub fn verdict_beforehand(self) -> Option<Verdict> {
        match self {
            Accept::Input | Accept::Context => Some(Verdict::Input),
            Accept::NotTestable(_) => Some(Verdict::NotTestable),
            _ => None,
        }
    }

    /// Whether numbers from `from` to `to` are within the tolerance.
    fn takes(self, from: f64, to: f64) -> bool {
        match self {
            Accept::Ends(low, high, by) => near(from, low, by) && near(to, high, by),
            one => one.takes_one(from) && one.takes_one(to),
        }
    }

    fn takes_one(self, ours: f64) -> bool {
        match self {
            Accept::Rounds(of, decimals) => {
                let unit = 10_f64.powi(decimals);
                (ours * unit).round() == (of * unit).round()
            }
            // 95 − 2 is not exactly 93 in binary.
            Accept::Near(of, by) => (ours - of).abs() <= by * (1.0 + 1e-9),
            Accept::Relative(of, by) => near(ours, of, by),
            Accept::Between(from, to) => ours >= from && ours <= to,
            Accept::AtLeast(least) => ours >= least,
            Accept::AtMost(most) => ours <= most,
            Accept::Above(bound) => ours > bound,
            Accept::Below(bound) => ours < bound,
            Accept::Order(from, to) => ours >= from / HALF_DECADE && ours <= to * HALF_DECADE,
            Accept::Ends(..)
            | Accept::Holds(_)
            | Accept::Input
            | Accept::Context
            | Accept::NotTestable(_) => false,
        }
    }

    /// Returns pairs of our number and the claimed one. The text `theirs` has the claimed number if
    /// the tolerance has none. Empty for statements, and for numbers without a logarithm.
    pub(super) fn compared(self, ours: Ours, theirs: &str) -> Vec<Compared> {
        let (from, to) = match ours {
            Ours::Number(number) => (number, number),
            Ours::Range(from, to) => (from, to),
            Ours::Holds(_) => return Vec::new(),
        };
        let compared = |wanted, found, (least, most)| Compared { wanted, found, least, most };
        let share = |of: f64, by: f64| (of * (1.0 - by), of * (1.0 + by));
        let mut all = match (self, self.bounds()) {
            (Accept::Ends(low, high, by), _) => {
                vec![compared(low, from, share(low, by)), compared(high, to, share(high, by))]
            }
            (_, Some((wanted, bounds))) => {
                let wanted = wanted.or(first_number(theirs)).unwrap_or(middle(bounds));
                vec![compared(wanted, from, bounds), compared(wanted, to, bounds)]
            }
            _ => Vec::new(),
        };
        all.dedup();
        all.retain(|one| [one.wanted, one.found].iter().all(|n| n.is_finite() && *n > 0.0));
        all
    }

    /// The claimed number, if the tolerance names it, and the least and greatest tolerated numbers.
    fn bounds(self) -> Option<(Option<f64>, (f64, f64))> {
        Some(match self {
            Accept::Rounds(of, decimals) => {
                let half = 0.5 * 10_f64.powi(-decimals);
                (Some(of), (of - half, of + half))
            }
            Accept::Near(of, by) => (Some(of), (of - by, of + by)),
            Accept::Relative(of, by) => (Some(of), (of * (1.0 - by), of * (1.0 + by))),
            Accept::Between(from, to) => (None, (from, to)),
            Accept::AtLeast(least) | Accept::Above(least) => (None, (least, f64::INFINITY)),
            Accept::AtMost(most) | Accept::Below(most) => (None, (0.0, most)),
            Accept::Order(from, to) => (None, (from / HALF_DECADE, to * HALF_DECADE)),
            Accept::Ends(..)
            | Accept::Holds(_)
            | Accept::Input
            | Accept::Context
            | Accept::NotTestable(_) => return None,
        })
    }

    /// Returns the tolerance in words, such as "±10%", for numbers in `unit`.
    pub fn tolerance(self, unit: &str) -> String {
        match self {
            Accept::Rounds(..) => "exact".to_string(),
            Accept::Near(_, by) if unit == "%" => format!("±{by} pp"),
            Accept::Near(_, by) => format!("±{by}{unit}"),
            Accept::Relative(_, by) => format!("±{:.0}%", 100.0 * by),
            Accept::Ends(_, _, by) => format!("±{:.0}% of the ends", 100.0 * by),
            Accept::Between(from, to) => format!("{from}–{to}{unit}"),
            Accept::AtLeast(least) => format!("≥{least}{unit}"),
            Accept::AtMost(most) => format!("≤{most}{unit}"),
            Accept::Above(bound) => format!(">{bound}{unit}"),
            Accept::Below(bound) => format!("<{bound}{unit}"),
            Accept::Order(..) => "order".to_string(),
            Accept::Holds(what) => what.to_string(),
            Accept::Input | Accept::Context | Accept::NotTestable(_) => "–".to_string(),
        }
    }
}

/// The first number in `text`.
fn first_number(text: &str) -> Option<f64> {
    let start = text.find(|letter: char| letter.is_ascii_digit())?;
    let digits = &text[start..];
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    digits[..end.unwrap_or(digits.len())].trim_end_matches('.').parse().ok()
}

/// The middle of two bounds on a logarithmic axis, or the one that has a logarithm.
fn middle((least, most): (f64, f64)) -> f64 {
    match (least > 0.0, most.is_finite()) {
        (true, true) => (least * most).sqrt(),
        (true, false) => least,
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_with_the_claimed_ones_and_their_bounds() {
        let compared = |accept: Accept, ours: Ours, theirs| {
            let numbers = accept.compared(ours, theirs);
            numbers.iter().map(|n| [n.wanted, n.found, n.least, n.most]).collect::<Vec<_>>()
        };
        let number = Ours::Number;
        let near = compared(Accept::Near(95.0, 2.0), number(90.0), "95%");
        assert_eq!(near, [[95.0, 90.0, 93.0, 97.0]]);
        let knee = compared(Accept::Between(2.0, 5.0), number(4.0), "~3%");
        assert_eq!(knee, [[3.0, 4.0, 2.0, 5.0]]);
        let many = compared(Accept::Above(100.0), number(300.0), "100s");
        assert_eq!(many, [[100.0, 300.0, 100.0, f64::INFINITY]]);
        let ends = compared(Accept::Ends(1.0, 2.0, 0.5), Ours::Range(1.5, 4.0), "1–2×");
        assert_eq!(ends, [[1.0, 1.5, 0.5, 1.5], [2.0, 4.0, 1.0, 3.0]]);
        let order = compared(Accept::Order(100.0, 400.0), number(150.0), "hundreds");
        assert!((order[0][0] - 200.0).abs() < 1e-9, "{order:?}");
        assert!(compared(Accept::Holds("sign"), Ours::Holds(true), "below").is_empty());
        assert!(compared(Accept::Near(5.0, 9.0), number(-1.0), "5%").is_empty());
        assert!(compared(Accept::Near(5.0, 9.0), number(f64::NAN), "5%").is_empty());
    }

    /// For each kind, numbers just within and just outside.
    const EDGES: [(Accept, &[f64], &[f64]); 10] = [
        (Accept::Rounds(1.6, 1), &[1.55, 1.6, 1.6404], &[1.549, 1.651, 16.0, -1.6]),
        (Accept::Near(95.0, 2.0), &[93.0, 95.0, 97.0], &[92.99, 97.01, -95.0]),
        (Accept::Relative(60.0, 0.1), &[54.0, 66.0], &[53.9, 66.1]),
        (Accept::Ends(1.2, 1.4, 0.15), &[1.19, 1.3, 1.38], &[1.18, 1.39]),
        (Accept::Between(2.0, 5.0), &[2.0, 5.0], &[1.999, 5.001]),
        (Accept::AtLeast(4.0), &[4.0, 1e9], &[3.999]),
        (Accept::AtMost(1.1), &[1.1, 0.0], &[1.101]),
        (Accept::Above(3.0), &[3.001], &[3.0]),
        (Accept::Below(20.0), &[19.999], &[20.0]),
        (Accept::Order(10.0, 10.0), &[3.2, 10.0, 31.0], &[3.1, 32.0]),
    ];

    #[test]
    fn every_kind_takes_what_is_within_and_refuses_what_is_outside() {
        for (accept, within, outside) in EDGES {
            for &ours in within {
                assert_eq!(accept.judge(ours), Verdict::Within, "{accept:?} {ours}");
            }
            for &ours in outside {
                assert_eq!(accept.judge(ours), Verdict::Outside, "{accept:?} {ours}");
            }
        }
    }

    #[test]
    fn a_range_is_judged_by_both_of_its_ends() {
        let gains = Accept::Ends(1.1, 1.6, 0.2);
        assert_eq!(gains.judge(Ours::range([1.2, 1.5, 1.3])), Verdict::Within);
        assert_eq!(gains.judge(Ours::range([1.0, 1.9])), Verdict::Within);
        assert_eq!(gains.judge(Ours::range([1.2, 1.25])), Verdict::Outside, "it stays below 1.6");
        assert_eq!(gains.judge(Ours::range([1.4, 1.6])), Verdict::Outside, "it stays above 1.1");
        assert_eq!(gains.judge(Ours::range([])), Verdict::Outside);
        assert_eq!(gains.judge(Ours::range([1.2, f64::NAN, 1.5])), Verdict::Outside);
        assert_eq!(Accept::Between(2.0, 5.0).judge(Ours::range([2.5, 4.0])), Verdict::Within);
        let apart = Ours::range([0.5, 3.0, 14.0]);
        assert_eq!(Accept::Between(2.0, 5.0).judge(apart), Verdict::Outside, "its mean is 5.8");
        assert_eq!(Accept::Between(0.0, 6.0).judge(apart), Verdict::Outside);
    }

    #[test]
    fn a_gain_is_not_met_by_a_loss() {
        let gains = Accept::Ends(1.1, 1.6, 0.2);
        assert_eq!(gains.judge(Ours::range([0.95, 1.6])), Verdict::Outside);
        assert_eq!(Accept::Relative(1.2, 0.25).judge(0.95), Verdict::Outside);
        assert_eq!(Accept::Relative(1.2, 0.25).judge(1.0), Verdict::Within);
        assert_eq!(Accept::Relative(1.0, 0.25).judge(0.8), Verdict::Within, "neither is claimed");
    }

    #[test]
    fn what_is_no_number_is_outside() {
        for (accept, ..) in EDGES {
            assert_eq!(accept.judge(f64::NAN), Verdict::Outside, "{accept:?}");
            assert_eq!(accept.verdict_beforehand(), None);
        }
        assert_eq!(Accept::Near(95.0, 2.0).judge(f64::INFINITY), Verdict::Outside);
    }

    #[test]
    fn statements_hold_or_do_not() {
        assert_eq!(Accept::Holds("sign").judge(true), Verdict::Within);
        assert_eq!(Accept::Holds("sign").judge(false), Verdict::Outside);
    }

    #[test]
    fn several_numbers_take_what_lies_between_them() {
        let range = |accept: Accept, ours: &[f64]| {
            accept.judge_range(&ours.iter().map(|one| Ours::Number(*one)).collect::<Vec<_>>())
        };
        assert_eq!(range(Accept::Near(84.0, 5.0), &[60.0, 99.0]), Verdict::Within);
        assert_eq!(range(Accept::Near(84.0, 5.0), &[60.0, 80.0]), Verdict::Within);
        assert_eq!(range(Accept::Near(84.0, 5.0), &[60.0, 70.0]), Verdict::Outside);
        assert_eq!(range(Accept::Between(15.0, 35.0), &[10.0, 80.0]), Verdict::Within);
        assert_eq!(range(Accept::Between(15.0, 35.0), &[40.0, 80.0]), Verdict::Outside);
        assert_eq!(range(Accept::AtLeast(85.0), &[10.0, 80.0]), Verdict::Outside);
        assert_eq!(range(Accept::AtLeast(85.0), &[10.0, 90.0]), Verdict::Within);
        let holds = [false, true].map(Ours::Holds);
        assert_eq!(Accept::Holds("sign").judge_range(&holds), Verdict::Within);
        assert_eq!(Accept::Holds("sign").judge_range(&holds[..1]), Verdict::Outside);
    }

    #[test]
    fn inputs_and_what_cannot_be_tested_are_never_judged() {
        for (accept, verdict) in [
            (Accept::Input, Verdict::Input),
            (Accept::Context, Verdict::Input),
            (Accept::NotTestable("a picture"), Verdict::NotTestable),
        ] {
            assert_eq!(accept.judge(1.0), verdict);
            assert_eq!(accept.judge(false), verdict);
            assert_eq!(accept.verdict_beforehand(), Some(verdict));
        }
    }

    #[test]
    #[should_panic(expected = "cannot be judged")]
    fn a_number_is_not_judged_by_a_statement() {
        Accept::Holds("sign").judge(1.0);
    }

    #[test]
    fn tolerances_are_written_in_the_claims_unit() {
        for (accept, unit, text) in [
            (Accept::Near(95.0, 2.0), "%", "±2 pp"),
            (Accept::Near(20.0, 0.5), "×", "±0.5×"),
            (Accept::Relative(60.0, 0.1), " GB/s", "±10%"),
            (Accept::Between(2.0, 5.0), "%", "2–5%"),
            (Accept::AtMost(120.0), " ns", "≤120 ns"),
            (Accept::Ends(1.0, 2.0, 0.4), "×", "±40% of the ends"),
        ] {
            assert_eq!(accept.tolerance(unit), text);
        }
    }
}
