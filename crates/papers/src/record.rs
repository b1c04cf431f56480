//! [`Record`]: a claim with the runs that it needs and its judge.

use ebbtide_study::claims::{Claim, Claims, Finding, Findings};

use crate::Selection;

/// Judges a claim by the results of runs.
type Judge<Ran> = fn(&Claim, &Ran) -> Vec<Finding>;

/// Judges a claim by arithmetic alone.
type Formula = fn(&Claim) -> Vec<Finding>;

/// A claim with the runs that it needs and its judge. `Set` is a set of runs, and `Ran` is the
/// result of all runs of a paper.
pub(crate) struct Record<Set: 'static, Ran: 'static> {
    claim: Claim,
    runs: &'static [Set],
    judge: Option<Judge<Ran>>,
    formula: Option<Formula>,
}

impl<Set, Ran> Clone for Record<Set, Ran> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Set, Ran> Copy for Record<Set, Ran> {}

/// The record of `claim`, without runs and without a judge.
pub(crate) const fn record<Set, Ran>(claim: Claim) -> Record<Set, Ran> {
    Record { claim, runs: &[], judge: None, formula: None }
}

impl<Set: Copy + PartialEq, Ran> Record<Set, Ran> {
    /// The record of a claim that `judge` decides after `runs`.
    pub(crate) const fn judged(self, runs: &'static [Set], judge: Judge<Ran>) -> Self {
        Record { runs, judge: Some(judge), ..self }
    }

    /// The record of a claim that `formula` decides. It decides the whole claim, or the parts that
    /// runs leave open.
    pub(crate) const fn by_formula(self, formula: Formula) -> Self {
        Record { formula: Some(formula), ..self }
    }
}

/// The claims of `records`.
pub(crate) const fn claims<Set, Ran, const N: usize>(
    records: &[Record<Set, Ran>; N],
) -> [Claim; N] {
    let mut claims = [records[0].claim; N];
    let mut number = 1;
    while number < N {
        claims[number] = records[number].claim;
        number += 1;
    }
    claims
}

/// The sets of runs that the selected claims need, without duplicates.
pub(crate) fn needed<Set: Copy + PartialEq, Ran>(
    records: &[Record<Set, Ran>],
    selection: &Selection,
) -> Vec<Set> {
    let mut needed = Vec::new();
    for record in records.iter().filter(|record| selection.takes(record.claim.id)) {
        for set in record.runs {
            if !needed.contains(set) {
                needed.push(*set);
            }
        }
    }
    needed
}

/// The findings of the selected claims, in the order of `claims`. They are the claims of `records`.
pub(crate) fn findings<Set, Ran>(
    claims: Claims,
    records: &[Record<Set, Ran>],
    ran: &Ran,
    selection: &Selection,
) -> Findings {
    let selected = records.iter().filter(|record| selection.takes(record.claim.id));
    let decided = selected.flat_map(|Record { claim, judge, formula, .. }| {
        let by_runs = judge.iter().flat_map(move |judge| judge(claim, ran));
        by_runs.chain(formula.iter().flat_map(move |formula| formula(claim)))
    });
    claims.findings(decided).only(|id| selection.takes(id))
}

/// The findings of every formula of `records`.
#[cfg(test)]
pub(crate) fn by_formulas<Set, Ran>(records: &[Record<Set, Ran>]) -> Vec<Finding> {
    let formulas = records.iter().filter_map(|record| Some((&record.claim, record.formula?)));
    formulas.flat_map(|(claim, formula)| formula(claim)).collect()
}

#[cfg(test)]
mod tests {
    use ebbtide_study::claims::{Accept, Verdict, claim, input};

    use super::*;

    const RECORDS: [Record<u8, f64>; 3] = [
        record(input("X1", "§1", "price", "1")),
        record(claim("X2", "§2", "gain").value("2×", "×", Accept::Near(2.0, 0.1)))
            .judged(&[1, 2], |claim, ran| vec![claim.finding("", *ran)]),
        record(claim("X3", "§3", "size").value("3 B", " B", Accept::Rounds(3.0, 0)))
            .judged(&[2, 3], |_, _| Vec::new())
            .by_formula(|claim| vec![claim.finding("", 4.0)]),
    ];
    const CLAIMS: Claims = Claims(&claims(&RECORDS));

    #[test]
    fn selected_claims_need_the_union_of_their_runs_and_are_judged_in_order() {
        let some = |ids: &[&'static str]| Selection::Claims(ids.to_vec());
        assert_eq!(needed(&RECORDS, &Selection::All), [1, 2, 3]);
        assert_eq!(needed(&RECORDS, &some(&["X3"])), [2, 3]);
        assert!(needed(&RECORDS, &some(&["X1"])).is_empty());
        let verdicts = |selection| {
            let found = findings(CLAIMS, &RECORDS, &2.0, &selection).claims;
            found.into_iter().map(|finding| (finding.id, finding.verdict)).collect::<Vec<_>>()
        };
        let all = [("X1", Verdict::Input), ("X2", Verdict::Within), ("X3", Verdict::Outside)];
        assert_eq!(verdicts(Selection::All), all);
        assert_eq!(verdicts(some(&["X3"])), all[2..]);
    }
}
