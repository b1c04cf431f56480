//! [`Policy`]: when a transaction is acknowledged.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::time::{NotSpan, Span};

/// When a transaction counts as durable towards its program. Under every policy, the log is flushed
/// at least once a second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Policy {
    /// At once. A crash loses the transactions that were not flushed yet.
    None,
    /// Once it is on the device.
    #[default]
    Always,
    /// At once, unless a transaction older than this time is not on the device yet. Then it waits
    /// for that one. So a crash loses the transactions of at most this time.
    Every(Span),
}

/// A text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no durability policy, expected none, always or every:TIME, such as every:1s")]
pub struct NotPolicy(String);

impl FromStr for Policy {
    type Err = NotPolicy;

    fn from_str(text: &str) -> Result<Policy, NotPolicy> {
        match text {
            "none" => Ok(Policy::None),
            "always" => Ok(Policy::Always),
            _ => {
                let span = text.strip_prefix("every:").map(str::parse::<Span>);
                let span = span.and_then(|span: Result<Span, NotSpan>| span.ok());
                span.filter(|span| *span > Span::ZERO)
                    .map(Policy::Every)
                    .ok_or_else(|| NotPolicy(text.into()))
            }
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::None => f.write_str("none"),
            Policy::Always => f.write_str("always"),
            Policy::Every(span) => write!(f, "every:{span}"),
        }
    }
}

impl From<Policy> for String {
    fn from(policy: Policy) -> String {
        policy.to_string()
    }
}

impl TryFrom<String> for Policy {
    type Error = NotPolicy;

    fn try_from(text: String) -> Result<Policy, NotPolicy> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_by_name_and_others_are_refused() {
        for (text, policy) in [
            ("none", Policy::None),
            ("always", Policy::Always),
            ("every:1s", Policy::Every(Span::from_us(1_000_000))),
        ] {
            assert_eq!(text.parse(), Ok(policy));
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        for text in ["", "every", "every:", "every:0s", "every:soon", "sometimes"] {
            assert!(text.parse::<Policy>().is_err(), "{text}");
        }
    }
}
