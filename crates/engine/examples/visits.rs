//! 256 MiB on flash behind 16 MiB of DRAM: a map and a vector that jobs on all cores share.

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use ebbtide_core::Addr;
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Engine, Options};
use ebbtide_structures::{Map, Region, Vector};

const STORE_BYTES: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    // Name a file on your flash; a temporary folder, which goes in the end, is only sure to be
    // there.
    let folder = tempfile::tempdir()?;
    let fallback = || folder.path().join("quickstart.store");
    let path = std::env::args_os().nth(1).map_or_else(fallback, PathBuf::from);
    let pages = STORE_BYTES / 4096;
    let (tag, spare_pages) = ("quickstart".into(), pages / 2);
    let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
    let store = Store::create_blank(&new)?;
    let engine = Arc::new(Engine::open(&Arc::new(store), &Options::new(16 << 20))?);

    let mut region = Region::new(Addr(0), STORE_BYTES);
    let visits: Map<u64, u64> = region.map(4_000_000)?;
    let by_country: Vector<u64> = region.vector(200)?;

    let jobs = engine.start()?;
    let visit = |n: u64| {
        let user = n * n % 70_001;
        jobs.submit(move |memory| {
            by_country.update(memory, user % 200, |count| count + 1);
            visits.update(memory, user, |count| Some(count.unwrap_or(0) + 1))
        })
    };
    let mut tickets = VecDeque::new();
    for n in 0..100_000 {
        tickets.push_back(visit(n));
        if tickets.len() == 1000
            && let Some(oldest) = tickets.pop_front()
        {
            oldest.wait()??;
        }
    }
    for ticket in tickets {
        ticket.wait()??;
    }
    let users = jobs.submit(move |memory| visits.len(memory)).wait()?;
    let first = jobs.submit(move |memory| by_country.get(memory, 0)).wait()?;
    println!("{users} users; {first} visits from country 0");
    println!("{:#?}", engine.counters().snapshot());
    Ok(jobs.stop()?)
}
