//! [`Finding`]: a part of a claim with our result.

use ebbtide_report::Compared;
use serde::Serialize;

use super::accept::{Accept, Ours, Verdict};
use super::claim::{Claim, Part};

/// A part of a claim with our result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// The id of the claim.
    pub id: &'static str,
    /// The place in the paper.
    pub source: &'static str,
    /// The quantity, and the name of the part.
    pub quantity: String,
    /// The value as the paper prints it.
    pub theirs: &'static str,
    /// Our value with its unit. `None` for inputs, for claims that cannot be tested, and for values
    /// that have not converged.
    pub ours: Option<String>,
    /// The tolerance in words.
    pub tolerance: String,
    /// The verdict.
    pub verdict: Verdict,
    /// True if the result is of a stand-in or a captured program instead of the paper's. It is then
    /// not counted.
    pub aside: bool,
    /// A note. Often empty.
    pub note: String,
    /// Pairs of our number and the claimed one. Empty for statements.
    #[serde(skip)]
    pub compared: Vec<Compared>,
    /// The finding of a stand-in for the input that decides this one.
    #[serde(skip)]
    stand_in: Option<Box<Finding>>,
}

impl Finding {
    fn new(claim: &Claim, part: &Part, ours: Option<Ours>) -> Finding {
        let quantity = match part.name {
            "" => claim.quantity.to_string(),
            name => format!("{}: {name}", claim.quantity),
        };
        let verdict = match ours {
            Some(ours) => part.accept.judge(ours),
            // Only parts with a known verdict have no result.
            None => part.accept.verdict_beforehand().unwrap_or(Verdict::Outside),
        };
        let finding = Finding {
            id: claim.id,
            source: claim.source,
            quantity,
            theirs: part.theirs,
            ours: ours.map(|ours| written(ours, part)),
            tolerance: part.accept.tolerance(part.unit),
            verdict,
            aside: part.aside,
            note: claim.note.to_string(),
            compared: ours.map_or(Vec::new(), |ours| part.accept.compared(ours, part.theirs)),
            stand_in: None,
        };
        match (part.accept, claim.constructed(part)) {
            (Accept::NotTestable(reason), _) => finding.note(reason),
            (_, Some(why)) => finding.by_construction(why),
            _ => finding,
        }
    }

    /// Returns the finding marked as unable to have another result than the claimed one, with the
    /// reason `why`. Only a finding within the tolerance changes.
    pub fn by_construction(self, why: &str) -> Finding {
        match self.verdict {
            Verdict::Within => Finding { verdict: Verdict::ByConstruction, ..self }.note(why),
            _ => self,
        }
    }

    /// Returns the finding without its value and with [`Verdict::NotConverged`]. `why` is the
    /// reason. Inputs and claims that cannot be tested stay unchanged.
    pub fn not_converged(self, why: &str) -> Finding {
        match self.verdict {
            Verdict::Input | Verdict::NotTestable => self,
            _ => Finding { verdict: Verdict::NotConverged, ..self }.without_value().note(why),
        }
    }

    /// Returns the finding with [`Verdict::Inconsistent`]. The paper's own numbers exclude its
    /// value, as `bound` explains. Only a finding outside of the tolerance changes.
    pub fn inconsistent(self, bound: &str) -> Finding {
        match self.verdict {
            Verdict::Outside => Finding { verdict: Verdict::Inconsistent, ..self }.note(bound),
            _ => self,
        }
    }

    /// Returns the finding with [`Verdict::NeedsInput`] and the note `input`, on the missing trace
    /// or number. Our value stays, without a verdict.
    pub fn needs_input(self, input: &str) -> Finding {
        Finding { verdict: Verdict::NeedsInput, ..self }.note(input)
    }

    /// Returns the finding with [`Verdict::NeedsInput`], the note `input` and no value. The value
    /// of the stand-in moves to a finding of its own, marked `aside`. Later notes go to that one.
    pub fn stand_in(self, input: &str) -> Finding {
        let beside = Finding { aside: true, ..self.clone() };
        let decides = Finding { note: String::new(), ..self };
        let decides = decides.without_value().needs_input(input);
        Finding { stand_in: Some(Box::new(beside)), ..decides }
    }

    fn without_value(self) -> Finding {
        Finding { ours: None, compared: Vec::new(), ..self }
    }

    /// The finding, and that of its stand-in.
    fn split(mut self) -> (Finding, Option<Finding>) {
        let beside = self.stand_in.take().map(|beside| *beside);
        (self, beside)
    }

    /// Returns the finding without `beginning` at the start of its note. Other notes stay
    /// unchanged.
    pub fn without(self, beginning: &str) -> Finding {
        let rest = self.note.strip_prefix(beginning).map(|rest| rest.trim_start().to_string());
        Finding { note: rest.unwrap_or_else(|| self.note.clone()), ..self }
    }

    /// Returns the finding with another sentence at the end of its note.
    pub fn note(mut self, sentence: impl AsRef<str>) -> Finding {
        let sentence = sentence.as_ref();
        if let Some(beside) = self.stand_in.take() {
            return Finding { stand_in: Some(Box::new(beside.note(sentence))), ..self };
        }
        if !self.note.is_empty() && !sentence.is_empty() {
            self.note.push(' ');
        }
        self.note.push_str(sentence);
        self
    }
}

impl Claim {
    /// Returns the finding for the part called `part`, with the result `ours` and its verdict.
    ///
    /// # Panics
    /// When there is no such part, or when one side is a number and the other a statement.
    pub fn finding(&self, part: &str, ours: impl Into<Ours>) -> Finding {
        Finding::new(self, self.known_part(part), Some(ours.into()))
    }

    /// Returns a finding without a value for each part that is an input or cannot be tested.
    pub fn findings_beforehand(&self) -> impl Iterator<Item = Finding> {
        let settled = |part: &&Part| part.accept.verdict_beforehand().is_some();
        self.parts().iter().filter(settled).map(|part| Finding::new(self, part, None))
    }
}

fn written(ours: Ours, part: &Part) -> String {
    match ours {
        Ours::Holds(true) => "holds".to_string(),
        Ours::Holds(false) => "does not hold".to_string(),
        Ours::Number(number) if number.is_nan() => "no number".to_string(),
        Ours::Number(number) => format!("{}{}", digits(number), part.unit),
        Ours::Range(from, to) if digits(from) == digits(to) => {
            format!("{}{}", digits(from), part.unit)
        }
        Ours::Range(from, to) => format!("{}–{}{}", digits(from), digits(to), part.unit),
    }
}

/// `number` with three digits, or with all digits before the decimal point.
fn digits(number: f64) -> String {
    let decimals = match number.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.1 || size == 0.0 => 2,
        _ => 4,
    };
    format!("{number:.decimals$}")
}

/// Findings in the order of their claims. `Display` prints a table of plain text.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Findings {
    /// The findings.
    pub claims: Vec<Finding>,
    /// The findings of stand-ins and captured programs. No count includes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asides: Vec<Finding>,
}

impl Findings {
    /// Returns the number of findings with the verdict `verdict`, without asides.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|finding| finding.verdict == verdict).count()
    }
}

/// The verdicts that the summary counts, in its order.
const COUNTED: [Verdict; 7] = [
    Verdict::Within,
    Verdict::Outside,
    Verdict::ByConstruction,
    Verdict::Inconsistent,
    Verdict::NeedsInput,
    Verdict::NotConverged,
    Verdict::NotTestable,
];

impl Findings {
    /// Returns one line with the number of parts of claims with each verdict. Inputs and asides are
    /// left out.
    pub fn summary(&self) -> String {
        let counts = COUNTED.map(|verdict| format!("{} {verdict}", self.count(verdict)));
        let of = COUNTED.map(|verdict| self.count(verdict)).iter().sum::<usize>();
        format!("{of} parts of claims: {}.", counts.join(", "))
    }

    /// Returns the findings of the claims whose ids `wanted` accepts.
    pub fn only(mut self, wanted: impl Fn(&str) -> bool) -> Findings {
        for findings in [&mut self.claims, &mut self.asides] {
            findings.retain(|finding| wanted(finding.id));
        }
        self
    }

    /// Returns all findings of `papers`, in their order.
    pub fn joined<'a>(papers: impl IntoIterator<Item = &'a Findings>) -> Findings {
        papers.into_iter().fold(Findings::default(), |mut all, findings| {
            all.claims.extend_from_slice(&findings.claims);
            all.asides.extend_from_slice(&findings.asides);
            all
        })
    }
}

impl FromIterator<Finding> for Findings {
    fn from_iter<I: IntoIterator<Item = Finding>>(findings: I) -> Findings {
        let mut all = Findings::default();
        for (finding, stand_in) in findings.into_iter().map(Finding::split) {
            match finding.aside {
                true => all.asides.push(finding),
                false => all.claims.push(finding),
            }
            all.asides.extend(stand_in);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{claim, input, part};

    const GAIN: Claim = claim("X1", "§1", "gain").value("2×", "×", Accept::Near(2.0, 0.1));

    #[test]
    fn what_could_not_come_out_elsewhere_is_not_within() {
        let why = "It is an input.";
        let given = GAIN.by_construction(why);
        let found = given.finding("", 2.0);
        assert_eq!((found.verdict, found.note.as_str()), (Verdict::ByConstruction, why));
        assert_eq!(given.finding("", 3.0).verdict, Verdict::Outside, "a fault is not excused");
        assert_eq!(GAIN.finding("", 2.0).by_construction(why).verdict, Verdict::ByConstruction);
        assert_eq!(GAIN.finding("", 2.0).verdict, Verdict::Within);
    }

    #[test]
    fn only_what_is_outside_is_inconsistent_and_no_input_no_verdict() {
        let bound = "It is at least 2.5.";
        let found = GAIN.finding("", 3.0).inconsistent(bound);
        assert_eq!((found.verdict, found.note.as_str()), (Verdict::Inconsistent, bound));
        assert_eq!(GAIN.finding("", 2.0).inconsistent(bound).verdict, Verdict::Within);
    }

    #[test]
    fn stand_ins_and_captured_programs_stand_aside_and_count_nowhere() {
        const CAPTURED: Claim = claim("X2", "§2", "gain").values(&[part(
            "captured sort",
            "2×",
            "×",
            Accept::Near(2.0, 0.1),
        )
        .aside()]);
        let input = "Needs trace.txt.";
        let stand_in = GAIN.finding("", 3.0).stand_in(input).note("Of a stand-in.");
        let findings: Findings =
            [stand_in, CAPTURED.finding("captured sort", 2.0)].into_iter().collect();
        let [decides] = &findings.claims[..] else { panic!("{findings:?}") };
        assert_eq!((decides.verdict, &decides.ours), (Verdict::NeedsInput, &None));
        assert_eq!((decides.note.as_str(), decides.compared.is_empty()), (input, true));
        let [beside, captured] = &findings.asides[..] else { panic!("{findings:?}") };
        assert_eq!((beside.verdict, beside.note.as_str()), (Verdict::Outside, "Of a stand-in."));
        assert_eq!(captured.verdict, Verdict::Within);
        assert!(beside.aside && captured.aside && !decides.aside);
        assert!(findings.summary().starts_with("1 parts of claims: 0 within, 0 outside"));
        let text = findings.to_string();
        assert!(text.contains("count nowhere") && text.contains("captured sort"), "{text}");
    }

    #[test]
    fn what_has_not_converged_shows_neither_value_nor_verdict() {
        for ours in [2.0, 3.0] {
            let found = GAIN.finding("", ours).not_converged("Seeds disagree.");
            assert_eq!((found.verdict, found.ours), (Verdict::NotConverged, None));
        }
    }

    #[test]
    fn the_summary_counts_every_verdict_but_inputs() {
        let given = GAIN.by_construction("An input.");
        let findings: Findings = [
            GAIN.finding("", 2.0),
            GAIN.finding("", 2.0),
            GAIN.finding("", 5.0),
            given.finding("", 2.0),
            GAIN.finding("", 2.0).not_converged("Seeds disagree."),
            GAIN.finding("", 3.0).inconsistent("It is at least 2.5."),
            GAIN.finding("", 2.0).needs_input("A trace."),
            input("X2", "§1", "price", "1").findings_beforehand().next().expect("an input"),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            findings.summary(),
            "7 parts of claims: 2 within, 1 outside, 1 by construction, 1 inconsistent, \
             1 needs input, 1 not converged, 0 not testable."
        );
    }

    #[test]
    fn a_range_shows_its_ends() {
        let range = |numbers: [f64; 2]| GAIN.finding("", Ours::range(numbers)).ours;
        assert_eq!(range([1.9, 2.05]).as_deref(), Some("1.90–2.05×"));
        assert_eq!(range([2.0, 2.0]).as_deref(), Some("2.00×"));
    }

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in [
            (94.12, "94.1"),
            (3.236, "3.24"),
            (407.3, "407"),
            (1536.0, "1536"),
            (0.0738, "0.0738"),
            (0.999, "1.00"),
            (-3.0, "-3.00"),
            (0.0, "0.00"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(digits(number), text);
        }
    }
}
