//! [`Figures`]: measurements, and the table of them.

use crate::store::{Commits, Done, Sizes};
use crate::transactions::Load;
use crate::{KINDS, Kind, LOADS, ways};

type Series = (Kind, Load, Commits);

/// Rates of every series, by round.
#[derive(Default)]
pub struct Figures {
    all: Vec<(Series, Vec<(f64, f64)>)>,
}

struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

fn spread(figures: impl Iterator<Item = f64>) -> Spread {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    Spread { median: sorted[sorted.len() / 2], least, most }
}

fn whole(spread: &Spread) -> String {
    format!("{:.0} ({:.0}–{:.0})", spread.median, spread.least, spread.most)
}

impl Figures {
    /// Adds the counts of a series in one round.
    pub fn note(&mut self, series: Series, done: &Done) {
        let place = self.all.iter().position(|(known, _)| *known == series);
        let place = place.unwrap_or_else(|| {
            self.all.push((series, Vec::new()));
            self.all.len() - 1
        });
        let per_s = |count: u64| count as f64 / done.seconds;
        self.all[place].1.push((per_s(done.transactions), per_s(done.commits)));
    }

    fn of(&self, series: Series) -> &[(f64, f64)] {
        let found = self.all.iter().find(|(known, _)| *known == series);
        found.map_or(&[], |(_, figures)| figures)
    }

    /// Returns the way to commit with the highest median.
    fn best(&self, kind: Kind, load: Load) -> Option<(Commits, &[(f64, f64)])> {
        let measured = ways(kind, load).into_iter().map(|way| (way, self.of((kind, load, way))));
        let measured = measured.filter(|(_, figures)| !figures.is_empty());
        let median = |figures: &[(f64, f64)]| spread(figures.iter().map(|one| one.0)).median;
        measured.max_by(|one, other| median(one.1).total_cmp(&median(other.1)))
    }

    /// Prints all series, and compares Ebbtide with the best series of each peer.
    pub fn print(&self, clients: usize, sizes: &Sizes) {
        let (rows, mib) = (sizes.rows, sizes.dram_bytes >> 20);
        println!("{rows} rows, {mib} MiB of DRAM, {clients} clients\n");
        println!("| load | store | commits | transactions/s | commits/s |");
        println!("|---|---|---|---|---|");
        for ((kind, load, commits), figures) in &self.all {
            let transactions = whole(&spread(figures.iter().map(|one| one.0)));
            let committed = whole(&spread(figures.iter().map(|one| one.1)));
            println!("| {load:?} | {kind:?} | {commits:?} | {transactions} | {committed} |");
        }
        println!("\n| load | best of | its way | Ebbtide over it |\n|---|---|---|---|");
        for load in LOADS {
            let Some((_, own)) = self.best(Kind::Ebbtide, load) else { continue };
            for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Ebbtide) {
                let Some((way, other)) = self.best(kind, load) else { continue };
                let ratios = own.iter().zip(other).map(|(own, other)| own.0 / other.0);
                let Spread { median, least, most } = spread(ratios);
                println!("| {load:?} | {kind:?} | {way:?} | {median:.2} ({least:.2}–{most:.2}) |");
            }
        }
    }
}
