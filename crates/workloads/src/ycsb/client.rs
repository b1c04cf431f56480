//! [`Client`]: the operation of each job in the core workloads.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::requests::{Distribution, Requests};
use crate::keys::{Scatter, job_rng};
use ebbtide_structures::hash::mix;

/// Shares of operations are in twentieths, since the least share is 5%.
const DEAL: u64 = 20;

/// The most inserts that may be under way while later inserts are known to be done.
///
/// The client does not read an item before its insert is acknowledged. A distance in items replaces
/// that here, so that a job stays a pure function of its number. A distance of 50 inserts is 1,000
/// jobs, more than any memory runs at once.
const INSERTS_UNDER_WAY: u64 = 50;

/// The most records that a scan asks for.
pub(crate) const SCAN_RECORDS_MAX: u64 = 100;

/// The kinds of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read all of a record; in workload E, scan from it on.
    Read,
    /// Write one of a record's fields.
    Update,
    /// Add a new record.
    Insert,
    /// Read all of a record, then write one of its fields.
    ReadModifyWrite,
}

/// The operations of a core workload: most are of one kind, the others of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mix {
    /// The kind of most operations.
    pub mostly: Verb,
    /// The kind of the others.
    pub other: Verb,
    /// The number of other operations in twenty; one if they are inserts.
    pub others_in_twenty: u64,
    /// The popularity of records.
    pub distribution: Distribution,
}

impl Mix {
    /// Returns true if any operation changes a record.
    pub const fn writes(&self) -> bool {
        self.others_in_twenty > 0 && !matches!(self.other, Verb::Read)
    }
}

/// One operation, on items by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read this item, or scan from it on.
    Read(u64),
    /// Write a field of this item.
    Update(u64),
    /// Add this item, which is new.
    Insert(u64),
    /// Read this item, then write a field of it.
    ReadModifyWrite(u64),
}

/// The client: an endless, numbered stream of operations.
#[derive(Debug, Clone)]
pub struct Client {
    mix: Mix,
    requests: Requests,
    window: u64,
    seed: u64,
}

impl Client {
    /// Returns the stream `seed` of `mix` over a table of `window` items, with Zipf skew `theta`.
    ///
    /// # Panics
    /// As [`Requests::new`].
    pub fn new(mix: Mix, scatter: Scatter, window: u64, theta: f64, seed: u64) -> Client {
        let requests = Requests::new(mix.distribution, scatter, window, theta);
        Client { mix, requests, window, seed }
    }

    /// Returns the operation of job `job`.
    #[inline]
    pub fn operation(&self, job: u64) -> Operation {
        let mut rng = job_rng(self.seed, job);
        let is_other = match self.mix.other {
            // Items are numbered by insertion, so inserts must be countable: one in every twenty
            // jobs, at a random position among them.
            Verb::Insert => job % DEAL == self.insert_among(job / DEAL),
            _ => rng.random_range(0..DEAL) < self.mix.others_in_twenty,
        };
        let verb = if is_other { self.mix.other } else { self.mix.mostly };
        if verb == Verb::Insert {
            return Operation::Insert(self.window + job / DEAL);
        }
        let item = self.draw(&mut rng, job);
        match verb {
            Verb::Update => Operation::Update(item),
            Verb::ReadModifyWrite => Operation::ReadModifyWrite(item),
            Verb::Read | Verb::Insert => Operation::Read(item),
        }
    }

    /// Returns the number of records that job `job` reads if it is a scan, from 1 to 100.
    #[inline]
    pub fn scan_records(&self, job: u64) -> u64 {
        job_rng(!self.seed, job).random_range(1..=SCAN_RECORDS_MAX)
    }

    /// Which of the twenty jobs from `20 * deal` on inserts.
    #[inline]
    fn insert_among(&self, deal: u64) -> u64 {
        mix(deal ^ self.seed.rotate_left(32)) % DEAL
    }

    /// An item that job `job` knows to be present. Like the client, it draws until it has one.
    #[inline]
    fn draw(&self, rng: &mut Pcg64Mcg, job: u64) -> u64 {
        let inserts = match self.mix.other {
            Verb::Insert => job / DEAL + u64::from(job % DEAL > self.insert_among(job / DEAL)),
            _ => 0,
        };
        // In a small window, half of the items stay known.
        let under_way = INSERTS_UNDER_WAY.min(inserts).min(self.window / 2);
        let newest = self.window - 1 + inserts - under_way;
        loop {
            let item = self.requests.draw(rng, newest);
            // Every insert, also one under way, removes the item one window before it.
            if item >= inserts {
                return item;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 1000;

    fn client(other: Verb, others_in_twenty: u64, distribution: Distribution) -> Client {
        let mix = Mix { mostly: Verb::Read, other, others_in_twenty, distribution };
        Client::new(mix, Scatter::Keys, WINDOW, 0.99, 3)
    }

    #[test]
    fn operations_have_their_shares() {
        let jobs = 100_000;
        for others in [0, 1, 10] {
            let client = client(Verb::Update, others, Distribution::Zipfian);
            let updates = (0..jobs)
                .filter(|&job| matches!(client.operation(job), Operation::Update(_)))
                .count() as f64;
            let share = others as f64 / 20.0;
            let deviation = (jobs as f64 * share * (1.0 - share)).sqrt();
            assert!((updates - jobs as f64 * share).abs() <= 4.0 * deviation, "{updates}");
        }
    }

    #[test]
    fn one_job_in_twenty_inserts_and_every_item_is_inserted_once() {
        let client = client(Verb::Insert, 1, Distribution::Latest);
        let mut places = [0u64; 20];
        let mut inserted = Vec::new();
        for job in 0..40_000 {
            if let Operation::Insert(item) = client.operation(job) {
                inserted.push(item);
                places[job as usize % 20] += 1;
            }
        }
        assert!(inserted.into_iter().eq(WINDOW..WINDOW + 2000));
        // 19 degrees of freedom: above 43.8 one time in a thousand.
        let chi_square: f64 = places.iter().map(|&n| (n as f64 - 100.0).powi(2) / 100.0).sum();
        assert!(chi_square < 43.8, "{chi_square}");
    }

    #[test]
    fn reads_ask_for_items_that_were_inserted_long_ago_and_are_still_there() {
        for distribution in [Distribution::Latest, Distribution::Zipfian] {
            let client = client(Verb::Insert, 1, distribution);
            let mut head = WINDOW;
            let mut newest_seen = 0;
            for job in 0..60_000 {
                match client.operation(job) {
                    Operation::Insert(item) => head = item + 1,
                    Operation::Read(item) => {
                        let known = head.saturating_sub(INSERTS_UNDER_WAY).max(WINDOW);
                        assert!((head - WINDOW..known).contains(&item), "{item} of {known}");
                        newest_seen = newest_seen.max(item);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(newest_seen > WINDOW + 2900, "{newest_seen}");
        }
    }

    #[test]
    fn scans_ask_for_one_to_a_hundred_records_alike() {
        let client = client(Verb::Insert, 1, Distribution::Zipfian);
        let mut seen = [0u64; SCAN_RECORDS_MAX as usize];
        (0..100_000).for_each(|job| seen[client.scan_records(job) as usize - 1] += 1);
        let chi_square: f64 = seen.iter().map(|&n| (n as f64 - 1e3).powi(2) / 1e3).sum();
        // 99 degrees of freedom: above 148.2 one time in a thousand.
        assert!(chi_square < 148.2, "{chi_square}");
    }
}
