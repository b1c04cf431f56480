//! Names that users type. The error for an unknown name suggests the nearest known one.

use thiserror::Error;

/// A name that a choice does not have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown {what} '{}'; {}", .given.escape_debug(), suggestion(.nearest.as_deref(), .known))]
pub struct UnknownName {
    /// The kind of name: "replacement policy", "workload", …
    pub what: &'static str,
    /// The text that the user wrote.
    pub given: String,
    /// The nearest known name, if one is close.
    pub nearest: Option<String>,
    /// Every known name.
    pub known: Vec<String>,
}

fn suggestion(nearest: Option<&str>, known: &[String]) -> String {
    let all = known.join(", ");
    match nearest {
        Some(name) => format!("did you mean '{name}'? (known: {all})"),
        None => format!("known: {all}"),
    }
}

/// Returns the item of `known` whose name is `given`.
///
/// # Errors
/// [`UnknownName`], carrying the nearest name when it is close enough to be a misspelling.
pub fn find_by_name<T: Copy>(
    what: &'static str,
    given: &str,
    known: &[(&str, T)],
) -> Result<T, UnknownName> {
    if let Some((_, item)) = known.iter().find(|(name, _)| *name == given) {
        return Ok(*item);
    }
    let wanted = given.to_ascii_lowercase();
    let nearest = known
        .iter()
        .map(|(name, _)| (strsim::jaro_winkler(&wanted, name), *name))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(similarity, _)| *similarity > 0.8)
        .map(|(_, name)| name.to_string());
    Err(UnknownName {
        what,
        given: given.to_string(),
        nearest,
        known: known.iter().map(|(name, _)| name.to_string()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [(&str, u8); 3] = [("fifo", 1), ("clock", 2), ("random", 3)];

    #[test]
    fn a_misspelt_name_is_an_error_that_offers_the_nearest() {
        let error = find_by_name("replacement policy", "clok", &KNOWN).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown replacement policy 'clok'; did you mean 'clock'? (known: fifo, clock, random)"
        );
    }

    #[test]
    fn a_name_like_no_other_lists_the_known_ones_only() {
        let error = find_by_name("replacement policy", "zzz", &KNOWN).unwrap_err();
        assert_eq!(error.nearest, None);
        assert_eq!(find_by_name("x", "random", &KNOWN), Ok(3));
    }
}
