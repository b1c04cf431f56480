//! `ebbtide trace convert`.

use std::path::{Path, PathBuf};

use clap::Args;
use ebbtide_core::Span;
use ebbtide_trace::{
    Format, Hinted, Hints, Mapped, Mapping, Source, Space, TraceError, copy_to, open_as,
};

use crate::exit::{Failure, say};
use crate::output::check_is_no_store;
use crate::{names, numbers};

/// Seed of the places of fragmented runs and of the choice of hinted accesses.
const SEED: u64 = 1;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Trace to read, plain or compressed with zstd, gzip or xz; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Trace to write, compressed if its name ends in .zst, .gz or .xz; - is standard output
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// Format of IN [default: by the ending of its name, such as .ebt or .csv]. It is native, text,
    /// csv, lackey, ramulator, dramsim3, oracleGeneral, champsim or drmemtrace
    #[arg(
        long,
        alias = "format",
        value_name = "FORMAT",
        value_parser = names::format(),
        hide_possible_values = true
    )]
    from: Option<Format>,
    /// Format of OUT, one of the same [default: by the ending of its name; native if it has none]
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = names::format(),
        hide_possible_values = true
    )]
    to: Option<Format>,
    /// Map pages to physical addresses: identity, fragmented:RUN (runs of RUN pages anywhere in 64
    /// GiB), or a file. Each line of the file has a virtual and a physical page number
    #[arg(long, value_name = "MAP")]
    map: Option<String>,
    /// Addresses to write to OUT: virtual or physical
    #[arg(long, default_value = "virtual")]
    address: Space,
    /// Insert hints for the hottest TOP% of pages, with the given probability, TIME before each
    /// access, such as 5%,0.1,10us. Reads IN twice
    #[arg(long, value_name = "TOP%,CHANCE,TIME", value_parser = hints)]
    hints: Option<Hints>,
}

/// The longest TIME of a hint. The accesses of that time are held in memory.
const LEAD_MAX: Span = Span::from_us(10_000);

fn hints(text: &str) -> Result<Hints, String> {
    let parse = || {
        let [top, chance, lead] = text.split(',').collect::<Vec<_>>().try_into().ok()?;
        let share = |text: &str| text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        let top = share_of_percent(top)?;
        let lead = lead.parse().ok().filter(|&lead: &Span| lead <= LEAD_MAX)?;
        Some(Hints { top, chance: share(chance)?, lead, seed: SEED })
    };
    parse().ok_or_else(|| {
        format!("'{text}' are no hints; expected something like 5%,0.1,10us, up to 10ms ahead")
    })
}

fn share_of_percent(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

/// Parses a mapping.
fn mapping(text: &str) -> Result<Mapping, Failure> {
    if text == "identity" {
        return Ok(Mapping::Identity);
    }
    if let Some(run) = text.strip_prefix("fragmented:") {
        let run = numbers::count(run).map_err(Failure::input)?;
        return Mapping::fragmented(run, SEED).map_err(Failure::input);
    }
    Mapping::read(Path::new(text)).map_err(Failure::input)
}

/// Opens the input and applies everything but hints.
fn open(arguments: &Arguments) -> Result<Box<dyn Source + Send>, Failure> {
    let source = open_as(&arguments.input, arguments.from).map_err(Failure::trace)?;
    Ok(match &arguments.map {
        Some(map) => Box::new(Mapped::new(source, mapping(map)?)),
        None => source,
    })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_is_no_store(&arguments.output)?;
    let mut source = open(arguments)?;
    if let Some(remark) = source.remark() {
        say(&remark);
    }
    if let Some(hints) = arguments.hints {
        if arguments.input.as_os_str() == "-" {
            return Err(Failure::input("--hints reads IN twice, which standard input cannot be"));
        }
        let hottest = hints.hottest(&mut source).map_err(Failure::trace)?;
        source = Box::new(Hinted::new(open(arguments)?, hints, hottest));
    }
    let mut source = arguments.address.of(source);
    let description = match source.origin() {
        Some(origin) => format!("{origin}; converted from {}", arguments.input.display()),
        None => format!("converted from {}", arguments.input.display()),
    };
    let copied = copy_to(&mut source, &arguments.output, arguments.to, &description);
    let format = copied.map_err(|error| match error {
        TraceError::Write { .. } => Failure::run(error),
        error => Failure::trace(error),
    })?;
    if !format.cannot_hold().is_empty() {
        say(&format!("{} has no place for {}", format.name(), format.cannot_hold().join(", ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_three_parts() {
        let lead = Span::from_ns(10_000);
        assert_eq!(hints("5%,0.1,10us"), Ok(Hints { top: 0.05, chance: 0.1, lead, seed: SEED }));
        for text in ["5,0.1,10us", "5%,1.1,10us", "5%,0.1", "101%,1,1us", "1%,1,1s", ""] {
            assert!(hints(text).unwrap_err().contains("5%,0.1,10us"), "{text}");
        }
    }

    #[test]
    fn mappings_are_named_or_files() {
        assert!(matches!(mapping("identity"), Ok(Mapping::Identity)));
        assert!(matches!(mapping("fragmented:16"), Ok(Mapping::Fragmented(_))));
        assert!(mapping("fragmented:3").is_err() && mapping("fragmented:x").is_err());
        assert!(mapping("no/such/file").is_err());
    }
}
