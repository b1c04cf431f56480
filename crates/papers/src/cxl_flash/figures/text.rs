//! The CXL-flash study's runs in plain text.

use std::fmt;

use crate::cxl_flash::CxlFlash;

impl fmt::Display for CxlFlash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "CXL-flash (ATC'23), synthetic programs and their caches 1/{} of the paper's{}",
            self.synthetic_scale_denominator,
            match self.accesses_max {
                Some(most) => format!(", stand-ins for real ones cut after {} M", most / 1_000_000),
                None => String::new(),
            }
        )?;
        for figure in self.figures() {
            writeln!(f, "\n{figure}")?;
            let [sub_us, hit, under, accuracy, coverage] =
                ["<1us%", "hit%", "under%", "acc%", "cov%"];
            writeln!(
                f,
                "{:<15} {:<22} {sub_us:>6} {:>8} {:>8} {hit:>6} {under:>6} {:>8} {accuracy:>5} {coverage:>5}",
                "", "", "mean us", "p99 us", "flash w"
            )?;
            for row in self.runs.iter().filter(|row| row.figure == figure) {
                let share = |count: u64| 100.0 * count as f64 / row.accesses as f64;
                writeln!(
                    f,
                    "{:<15} {:<22} {:>6.1} {:>8.2} {:>8.1} {:>6.1} {:>6.1} {:>8} {:>5.1} {:>5.1}",
                    row.program,
                    row.setup,
                    100.0 * row.sub_us,
                    row.mean_us,
                    row.p99_us,
                    share(row.hits),
                    share(row.hits_under_miss),
                    row.flash_writes,
                    100.0 * row.accuracy,
                    100.0 * row.coverage,
                )?;
            }
        }
        write!(f, "\n{}", self.findings)
    }
}
