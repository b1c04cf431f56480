//! Fills a new store of `ebbtide serve` with generated keys. It inserts them in the order of their
//! hashes, so each insert finds its leaf in DRAM. The keys are
//! `key:000000000000` and so on, as in `ebbtide load`.
//!
//! `cargo bench -p ebbtide-server --bench fill -- STORE KEYS VALUE_BYTES CAPACITY DRAM`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ebbtide_core::durability::{Aborted, Policy};
use ebbtide_core::{Addr, Bytes, Memory, PAGE_BYTES};
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Options};
use ebbtide_server::STORE_TAG;
use ebbtide_structures::keyspace::{Full, HashSecret, Keyspace};

/// Keys of a transaction. The stores of a transaction are bounded.
const BATCH: usize = 100;

/// The keys are generated, so the hash need not be secret.
const SECRET: HashSecret = HashSecret([0x5eed, 0xf111]);

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [path, keys, value_bytes, capacity, dram] = &arguments[..] else {
        return Err("expected STORE KEYS VALUE_BYTES CAPACITY DRAM".into());
    };
    let (keys, value_bytes): (u32, usize) = (keys.parse()?, value_bytes.parse()?);
    let (capacity, dram): (Bytes, Bytes) = (capacity.parse()?, dram.parse()?);
    let pages = capacity.0 / PAGE_BYTES as u64;
    let new = NewStore {
        path: PathBuf::from(path),
        offset: 0,
        pages,
        spare_pages: (pages / 4).max(dram.0 / PAGE_BYTES as u64),
        tag: STORE_TAG.into(),
        force: false,
    };
    let store = Store::create_persistent(&new, (capacity.0 / 16).clamp(16 << 20, 1 << 30))?;
    let mut options = Options::new(dram.0 as usize);
    options.durability = Some(Policy::None);
    let jobs = Arc::new(Engine::open(&Arc::new(store), &options)?).start()?;
    let began = Instant::now();
    let order = by_hash(keys);
    println!("{keys} keys in the order of their hashes after {:.1?}", began.elapsed());
    let began = Instant::now();
    jobs.submit(move |memory| fill(memory, pages, &order, value_bytes)).wait()??;
    let filled = began.elapsed();
    println!("written in {filled:.1?}: {:.0} keys/s", f64::from(keys) / filled.as_secs_f64());
    jobs.checkpoint()?;
    jobs.stop()?;
    println!("on flash after {:.1?}", began.elapsed());
    Ok(())
}

fn name(key: u32) -> String {
    format!("key:{key:012}")
}

/// Returns the numbers of all keys, largest hash first. A full leaf then shares its entries with
/// the leaf after it.
fn by_hash(keys: u32) -> Vec<u32> {
    let hash = |key: u32| SECRET.key(name(key).as_bytes()).hash >> 16;
    let mut order: Vec<u64> = (0..keys).map(|key| hash(key) << 32 | u64::from(key)).collect();
    order.sort_unstable_by(|one, other| other.cmp(one));
    order.into_iter().map(|place| place as u32).collect()
}

fn fill(
    memory: &mut FlashMemory<'_>,
    pages: u64,
    order: &[u32],
    value_bytes: usize,
) -> Result<(), Aborted<Full>> {
    let (keyspace, _) =
        memory.transaction(|memory| Keyspace::format(memory, Addr(0), pages, SECRET))?;
    let value = vec![7; value_bytes];
    for batch in order.chunks(BATCH) {
        memory.try_transaction(|memory| {
            batch.iter().try_for_each(|key| {
                let name = name(*key);
                let key = keyspace.key(name.as_bytes());
                keyspace.set(memory, 0, &key, &value, None).map(drop)
            })
        })?;
    }
    let (free, all) = keyspace.free_pages(memory);
    println!("{} of {all} pages are in use", all - free);
    Ok(())
}
