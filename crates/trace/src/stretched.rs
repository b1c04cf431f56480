//! [`Stretched`]: a trace whose time passes more slowly.

use ebbtide_core::Time;

use crate::{Access, Source, TraceError};

/// A trace with all times multiplied by a whole number. The CXL-flash study rescales the times of
/// each traced program in this way (`trace_translation`).
pub struct Stretched<S> {
    source: S,
    times: u64,
}

impl<S: Source> Stretched<S> {
    /// Multiplies all times of `source` by `times`. Times beyond the range of [`Time`] become its
    /// maximum.
    pub fn new(source: S, times: u64) -> Stretched<S> {
        Stretched { source, times }
    }
}

impl<S: Source> Source for Stretched<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch);
        for access in batch.iter_mut() {
            access.at = Time::from_ps(access.at.as_ps().saturating_mul(self.times));
        }
        more
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, line_access};

    /// A trace in one batch.
    struct Once(Vec<Access>);

    impl Source for Once {
        fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
            *batch = std::mem::take(&mut self.0);
            Ok(!batch.is_empty())
        }
    }

    #[test]
    fn times_are_multiplied_and_nothing_else_changes() {
        let given = [0, 3, 10].map(|ps| line_access(ps, ps, Op::Read));
        let (mut stretched, mut batch) = (Stretched::new(Once(given.to_vec()), 7), Vec::new());
        assert!(stretched.fill(&mut batch).unwrap());
        let slower = [0, 3, 10].map(|ps| line_access(7 * ps, ps, Op::Read));
        assert_eq!(batch, slower);
        assert!(!stretched.fill(&mut batch).unwrap());
    }
}
