//! [`Description`]: the parts of a design, and the sources of its numbers.

use serde::Serialize;

use super::{Sources, compose, find, resolve, sources};
use crate::config::ConfigError;

/// The parts of a design, and the sources of its numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// The design's name, or the file that describes it.
    pub design: String,
    /// A description in one line.
    pub description: &'static str,
    /// The reaction of a core to a miss.
    pub core_side: String,
    /// The type of its memory side, of [`memory_side`](crate::memory_side).
    pub memory_side: &'static str,
    /// Its parameters.
    #[serde(flatten)]
    pub sources: Sources,
}

/// Describes `given`, a design's name or a TOML file.
///
/// # Errors
/// [`ConfigError`] when there is no such design, or it cannot be built.
pub fn describe(given: &str) -> Result<Description, ConfigError> {
    let config = resolve(given, &[])?;
    let parts = compose(&config)?;
    Ok(Description {
        design: given.to_string(),
        description: find(&config.design)?.about,
        core_side: parts.core_side.description(),
        memory_side: parts.memory_side.name(),
        sources: sources(given)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_design_is_described_by_its_parts() {
        let described = describe("astriflash").unwrap();
        assert_eq!(described.memory_side, "DramCache");
        assert!(described.core_side.contains("32 threads (priority)"), "{}", described.core_side);
        assert!(
            described.core_side.contains("6.5 ns flush, 100 ns out"),
            "{}",
            described.core_side
        );
        assert_eq!(describe("dram-only").unwrap().core_side, "a miss blocks its core");
        assert!(describe("astroflash").unwrap_err().to_string().contains("'astriflash'"));
    }
}
