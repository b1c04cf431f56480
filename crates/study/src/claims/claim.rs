//! [`Claim`]: a claim of a paper, in one or several parts.

use super::accept::{Accept, Ours, Verdict};

/// A way to test a claim.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// On the simulated machine.
    Simulation,
    /// By formula.
    Analytic,
    /// On a real machine with an ordinary SSD. The result may only show an order or a sign.
    Real,
}

/// A claim of a paper.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Claim {
    /// The id, such as `AS3`. It never changes.
    pub id: &'static str,
    /// The place in the paper, such as a section or a figure.
    pub source: &'static str,
    /// The quantity.
    pub quantity: &'static str,
    /// What the paper claims, in a sentence.
    pub statement: &'static str,
    values: Values,
    /// The ways to test it. Empty for inputs and for claims that cannot be tested.
    pub by: &'static [Method],
    /// The experiment in one line. Empty if there is none.
    pub experiment: &'static str,
    /// A note, such as on a contradiction in the paper. Often empty.
    pub note: &'static str,
    /// The reason why every part can only have the claimed result, if so.
    constructed: Option<&'static str>,
}

/// One value of a claim.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Part {
    /// Its name, such as a workload. Empty if the claim has one value.
    pub name: &'static str,
    /// The value as the paper prints it.
    pub theirs: &'static str,
    /// The unit of our number, with a space before it if it needs one.
    pub unit: &'static str,
    /// The tolerance.
    pub accept: Accept,
    /// The reason why only the claimed result is possible, if so.
    constructed: Option<&'static str>,
    /// Whether a program of ours that is not the paper's decides it. It then counts nowhere.
    pub(super) aside: bool,
}

impl Part {
    /// Returns the part marked as decided by a program that is not the paper's. Its findings are
    /// listed apart and not counted.
    pub const fn aside(self) -> Part {
        Part { aside: true, ..self }
    }

    /// Returns the part marked as unable to have another result than the claimed one. `why` is the
    /// reason.
    pub const fn by_construction(self, why: &'static str) -> Part {
        Part { constructed: Some(why), ..self }
    }
}

/// The values of a claim.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Values {
    /// One value.
    One(Part),
    /// Several, each with a name.
    Many(&'static [Part]),
}

/// Returns one of several values of a claim.
///
/// `theirs` is the value as printed. `unit` belongs to our number, and begins with a space if it
/// needs one.
pub const fn part(
    name: &'static str,
    theirs: &'static str,
    unit: &'static str,
    accept: Accept,
) -> Part {
    Part { name, theirs, unit, accept, constructed: None, aside: false }
}

/// Returns a claim without values and tests. The methods of [`Claim`] add them.
pub const fn claim(id: &'static str, source: &'static str, quantity: &'static str) -> Claim {
    Claim {
        id,
        source,
        quantity,
        statement: "",
        values: Values::Many(&[]),
        by: &[],
        experiment: "",
        note: "",
        constructed: None,
    }
}

/// Returns a claim that is an input of models and experiments.
pub const fn input(
    id: &'static str,
    source: &'static str,
    quantity: &'static str,
    theirs: &'static str,
) -> Claim {
    claim(id, source, quantity).value(theirs, "", Accept::Input)
}

/// Returns a claim that cannot be tested, because of `reason`.
pub const fn not_testable(
    id: &'static str,
    source: &'static str,
    quantity: &'static str,
    theirs: &'static str,
    reason: &'static str,
) -> Claim {
    claim(id, source, quantity).value(theirs, "", Accept::NotTestable(reason))
}

impl Claim {
    /// Returns the claim with `statement`: what the paper claims, in a sentence.
    pub const fn states(self, statement: &'static str) -> Claim {
        Claim { statement, ..self }
    }

    /// Returns the claim with the single value `theirs`. `unit` belongs to our number, and begins
    /// with a space if it needs one.
    pub const fn value(self, theirs: &'static str, unit: &'static str, accept: Accept) -> Claim {
        Claim { values: Values::One(part("", theirs, unit, accept)), ..self }
    }

    /// Returns the claim with several values, each with a name.
    pub const fn values(self, parts: &'static [Part]) -> Claim {
        Claim { values: Values::Many(parts), ..self }
    }

    /// Returns the claim, tested `by` these methods in this `experiment`.
    pub const fn tested(self, by: &'static [Method], experiment: &'static str) -> Claim {
        Claim { by, experiment, ..self }
    }

    /// Returns the claim with a note.
    pub const fn note(self, note: &'static str) -> Claim {
        Claim { note, ..self }
    }

    /// Returns the claim marked as unable to have another result than the claimed one. `why` is the
    /// reason: our result is an input, follows from inputs, or is the same formula.
    pub const fn by_construction(self, why: &'static str) -> Claim {
        Claim { constructed: Some(why), ..self }
    }

    /// Returns the reason why `part` of this claim can only have the claimed result. `None` if it
    /// can have another.
    pub fn constructed(&self, part: &Part) -> Option<&'static str> {
        part.constructed.or(self.constructed)
    }

    /// Returns the values, one for each part.
    pub fn parts(&self) -> &[Part] {
        match &self.values {
            Values::One(part) => std::slice::from_ref(part),
            Values::Many(parts) => parts,
        }
    }

    /// Returns the part called `name`. A single part has the name "".
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.parts().iter().find(|part| part.name == name)
    }

    /// Returns the verdict on `ours` for the part called `part`. A single part has the name "".
    ///
    /// # Panics
    /// When there is no such part, or when one side is a number and the other a statement.
    pub fn judge(&self, part: &str, ours: impl Into<Ours>) -> Verdict {
        self.known_part(part).accept.judge(ours)
    }

    /// Returns the joint verdict on all of `ours` for the part called `part`, as
    /// [`Accept::judge_range`].
    ///
    /// # Panics
    /// When there is no such part, or when one side is a number and the other a statement.
    pub fn judge_range(&self, part: &str, ours: &[Ours]) -> Verdict {
        self.known_part(part).accept.judge_range(ours)
    }

    /// The part called `name`, which the claim must have.
    pub(super) fn known_part(&self, name: &str) -> &Part {
        self.part(name).unwrap_or_else(|| panic!("{} has no part '{name}'", self.id))
    }
}
