//! [`Offered`]: the offered load, as a share of DRAM-only's throughput.

use std::str::FromStr;

use serde::Serialize;
use thiserror::Error;

/// The offered load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offered {
    /// A core always finds a new job.
    Saturating,
    /// Poisson arrivals at this share of DRAM-only's throughput.
    PoissonShare(f64),
}

/// The error of a text that is not an [`Offered`] load.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "'{0}' is not a load; expected saturating, or poisson: and a share up to 1, at least \
     0.000001, such as poisson:0.8"
)]
pub struct NoLoad(String);

/// The least share. With less, a run would consist of waiting.
const SHARE_MIN: f64 = 1e-6;

impl FromStr for Offered {
    type Err = NoLoad;

    fn from_str(text: &str) -> Result<Offered, NoLoad> {
        if text == "saturating" {
            return Ok(Offered::Saturating);
        }
        let share = text.strip_prefix("poisson:").and_then(|share| share.parse::<f64>().ok());
        match share {
            Some(share) if (SHARE_MIN..=1.0).contains(&share) => Ok(Offered::PoissonShare(share)),
            _ => Err(NoLoad(text.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_saturating_or_a_share() {
        assert_eq!("saturating".parse(), Ok(Offered::Saturating));
        assert_eq!("poisson:0.8".parse(), Ok(Offered::PoissonShare(0.8)));
        for text in
            ["poisson", "poisson:0", "poisson:1.5", "poisson:nan", "poisson:1e-300", "closed"]
        {
            let error = text.parse::<Offered>().unwrap_err().to_string();
            assert!(error.contains("poisson:0.8"), "{error}");
        }
    }
}
