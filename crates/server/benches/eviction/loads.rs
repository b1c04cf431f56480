//! Requests like those that the caches of Rails and Django send.
//!
//! Names, times of expiry and kinds of request are those of the frameworks' own code:
//!
//! * Rails: `ActiveSupport::Cache::RedisCacheStore` and the fragment cache of Action View. A page
//!   reads several fragments with one `MGET`. A fragment's name has the version of its record. A
//!   change of the record leaves the old fragment behind for eviction (guide "Caching with Rails").
//! * Django: `django.core.cache.backends.redis`, the cached sessions (two weeks), the middleware of
//!   `cache_page` with its list of headers and its page (600 s), and `cache.get_or_set` (300 s).
//!
//! Published caches give the popularity of keys and the sizes of values. Popularity follows
//! Zipf's law with an exponent of 0.8 to 0.9 (Breslau et al., INFOCOM 1999). Sizes are lognormal,
//! and most are below some kilobytes (Atikoglu et al., SIGMETRICS 2012).

use std::collections::HashMap;

use ebbtide_structures::hash;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A key that is read, or set to a value.
pub(crate) struct Wanted {
    pub(crate) key: String,
    pub(crate) value_bytes: usize,
    /// Its time of expiry in seconds; 0 for none.
    pub(crate) ttl_s: u64,
}

/// What a page of a web application asks of its cache.
pub(crate) struct Step {
    /// Keys that are read, and set if they are missing.
    pub(crate) reads: Vec<Wanted>,
    pub(crate) writes: Vec<Wanted>,
}

/// An endless sequence of steps.
pub(crate) trait Load {
    fn next(&mut self) -> Step;
}

/// Draws of a number `k` with a probability like `1 / k` to an exponent.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(numbers: usize, exponent: f64) -> Zipf {
        let mut sum = 0.0;
        let cumulated = (1..=numbers).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Zipf(cumulated.collect())
    }

    fn next(&self, rng: &mut Pcg64Mcg) -> usize {
        let drawn = rng.random_range(0.0..self.0[self.0.len() - 1]);
        self.0.partition_point(|sum| *sum < drawn)
    }
}

/// Returns the size of a value, which depends on its number only. Sizes are lognormal with this
/// median.
fn value_bytes(number: u64, median: f64, sigma: f64, most: usize) -> usize {
    let uniform = |number: u64| (hash::mix(number) >> 11) as f64 / (1u64 << 53) as f64;
    let (radius, angle) = (uniform(number).max(1e-12), uniform(!number));
    // Box and Muller's transform.
    let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
    ((median * (sigma * normal).exp()) as usize).clamp(16, most)
}

/// Pages of fragments whose records change now and then.
pub(crate) struct Rails {
    rng: Pcg64Mcg,
    records: Zipf,
    /// How often each record has changed.
    versions: HashMap<usize, u32>,
}

impl Rails {
    pub(crate) fn new(scale: f64) -> Rails {
        let records = Zipf::new((120_000.0 * scale) as usize, 0.9);
        Rails { rng: Pcg64Mcg::seed_from_u64(1), records, versions: HashMap::new() }
    }
}

impl Load for Rails {
    fn next(&mut self) -> Step {
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.random_range(1..=12) {
            let record = self.records.next(&mut self.rng);
            let version = self.versions.get(&record).copied().unwrap_or(0);
            reads.push(Wanted {
                key: format!(
                    "views/products/_product:{:032x}/products/{record}-{version:020}",
                    hash::mix(7)
                ),
                value_bytes: value_bytes(record as u64, 1_500.0, 1.0, 64 << 10),
                ttl_s: if record.is_multiple_of(2) { 86_400 } else { 0 },
            });
        }
        if self.rng.random_range(0..100) < 10 {
            let record = self.records.next(&mut self.rng);
            *self.versions.entry(record).or_default() += 1;
        }
        if self.rng.random_range(0..100) < 30 {
            let user = self.records.next(&mut self.rng);
            writes.push(Wanted {
                key: format!("rack::attack:{}:req/ip:10.0.{}.{}", 1, user / 256 % 256, user % 256),
                value_bytes: 8,
                ttl_s: 60,
            });
        }
        Step { reads, writes }
    }
}

/// Sessions, whole pages, and results of queries.
pub(crate) struct Django {
    rng: Pcg64Mcg,
    sessions: Zipf,
    pages: Zipf,
    queries: Zipf,
}

impl Django {
    pub(crate) fn new(scale: f64) -> Django {
        let zipf = |numbers: f64, exponent| Zipf::new((numbers * scale) as usize, exponent);
        Django {
            rng: Pcg64Mcg::seed_from_u64(2),
            sessions: zipf(200_000.0, 0.8),
            pages: zipf(15_000.0, 0.9),
            queries: zipf(150_000.0, 0.9),
        }
    }
}

impl Load for Django {
    fn next(&mut self) -> Step {
        let Django { rng, sessions, pages, queries } = self;
        let (session, page) = (sessions.next(rng), pages.next(rng));
        let name = |kind: u64, number: usize| hash::mix(kind << 32 | number as u64);
        let session = || Wanted {
            key: format!(":1:django.contrib.sessions.cache{:032x}", name(1, session)),
            value_bytes: value_bytes(name(1, session), 250.0, 0.6, 4 << 10),
            ttl_s: 1_209_600,
        };
        let of_page = |kind: &str, end: &str, bytes| Wanted {
            key: format!(":1:views.decorators.cache.{kind}..{:032x}.{end}", name(2, page)),
            value_bytes: bytes,
            ttl_s: 600,
        };
        let page_bytes = value_bytes(name(2, page), 9_000.0, 0.7, 200 << 10);
        let mut reads = vec![session()];
        if rng.random_range(0..100) < 40 {
            reads.push(of_page("cache_header", "en-us.UTC", 60));
            reads.push(of_page("cache_page", "GET.en-us.UTC", page_bytes));
        }
        for _ in 0..rng.random_range(1..=4) {
            let query = queries.next(rng);
            reads.push(Wanted {
                key: format!(":1:query:{:016x}", name(3, query)),
                value_bytes: value_bytes(name(3, query), 400.0, 1.0, 32 << 10),
                ttl_s: 300,
            });
        }
        let saves = rng.random_range(0..100) < 20;
        let writes = saves.then(session).into_iter().collect();
        Step { reads, writes }
    }
}
