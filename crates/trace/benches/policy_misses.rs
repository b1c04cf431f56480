//! Counts the misses of a trace's pages under replacement policies, in caches of some sizes.
//!
//!     cargo bench -p ebbtide-trace --bench policy_misses -- TRACE PAGES… [--pages FILE]
//!
//! Prints a line for each policy and size. `--pages FILE` also writes the number of each accessed
//! page, in eight bytes, for another simulator. `compare_libcachesim.py` in the folder of tests
//! uses it.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use ebbtide_core::PageId;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_trace::curve::{PolicyCaches, Sample, pages_of};
use ebbtide_trace::{Source, open};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut sizes, mut trace, mut pages_file) = (Vec::new(), None, None);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match word.parse::<u64>() {
            Ok(size) => sizes.push(size.max(1)),
            Err(_) if word == "--pages" => pages_file = words.next(),
            Err(_) => trace = Some(word),
        }
    }
    let trace = trace.ok_or("usage: policy_misses TRACE PAGES… [--pages FILE]")?;
    let accesses = accesses(Path::new(&trace))?;
    if let Some(path) = pages_file {
        let mut file = BufWriter::new(File::create(path)?);
        for (page, _) in &accesses {
            file.write_all(&page.0.to_le_bytes())?;
        }
        file.flush()?;
    }
    let distinct = accesses.iter().map(|(page, _)| *page).collect::<HashSet<_>>().len() as u64;
    // The cache is one set, and policies that search sets are not made for that.
    for kind in PolicyKind::ALL.into_iter().filter(|kind| !kind.searches_set()) {
        let mut caches = PolicyCaches::new(kind, &sizes, Sample::all(distinct), 1);
        accesses.iter().for_each(|(page, write)| caches.touch(*page, *write));
        let curve = caches.curve();
        for size in &sizes {
            let misses = curve.miss_ratio(*size) * curve.accesses() as f64;
            println!("{} {size} {}", kind.name(), misses.round());
        }
    }
    Ok(())
}

/// The accesses of a trace to one page each, and whether they write.
fn accesses(path: &Path) -> Result<Vec<(PageId, bool)>, ebbtide_trace::TraceError> {
    let mut trace = open(path)?;
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch)? {
        pages_of(&batch, |page, write| all.push((page, write)));
    }
    Ok(all)
}
