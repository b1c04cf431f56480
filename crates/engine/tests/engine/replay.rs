//! Records the engine's writes and flushes on a real file, and cuts power after every step. For
//! every state that the disk may then have, recovery returns a state after a whole number of
//! transactions. All acknowledged transactions are in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::{Block, Geometry, Lsn, Page, Policy};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Jobs, Options};
use ebbtide_testbed::power_loss::{
    Back, DiskModel, Kept, Setting, State, Violation, bring_back, check_back,
};
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::step_recorder::{Step, StepRecorder, blocks_of, materialise, replay};

const PAGES: u64 = 512;
const SPARE_PAGES: u64 = 256;
const LOG_BYTES: u64 = 32 * PAGE_BYTES as u64;
const TRANSACTIONS: u64 = 200;
/// Jobs at once.
const JOBS: usize = 8;

/// The stores of transaction `number`: its number in the first word of all, and in some words
/// elsewhere.
fn stores(number: u64) -> Vec<Addr> {
    let mut random = Pcg64Mcg::seed_from_u64(number);
    let count = random.random_range(1..12);
    let scattered = (0..count).map(|_| {
        let word = random.random_range(0..PAGE_BYTES as u64 / 8);
        PageId(random.random_range(1..PAGES)).start() + word * 8
    });
    std::iter::once(Addr(0)).chain(scattered).collect()
}

/// A time that the engine had the store open. It has the contents of the disk before, the steps,
/// and the states after each transaction, beginning with the first state.
struct Session {
    geometry: Geometry,
    before: Vec<(Block, Box<Page>)>,
    steps: Vec<Step>,
    states: Vec<(Lsn, State)>,
}

/// Runs transactions on the store at `path`, which is in the first of `states`.
fn run(path: &Path, first: (Lsn, State), numbers: std::ops::Range<u64>) -> Session {
    let store = Arc::new(Store::open(path, 0, Access::Exclusive).unwrap());
    let geometry = store.header().persist().unwrap();
    let before = blocks_of(&store);
    let recorder = StepRecorder::new(path, store.persist_offset());
    let mut options = Options { durability: Some(Policy::Always), ..Options::new(3 << 20) };
    options.tuning.threads = Some(JOBS);
    options.tuning.batch_max = 8;
    let engine = recorder.engine(&store, &options);
    let committed = transact(engine.start().unwrap(), &recorder, numbers);
    let mut states = vec![first];
    for (lsn, number) in committed {
        let mut state = states[states.len() - 1].1.clone();
        stores(number).into_iter().for_each(|at| state.set(at, number));
        states.push((lsn, state));
    }
    Session { geometry, before, steps: recorder.take(), states }
}

/// Runs the transactions of `numbers`, several at once. Returns them in the order of the log.
fn transact(
    jobs: Jobs,
    recorder: &StepRecorder,
    numbers: std::ops::Range<u64>,
) -> BTreeMap<Lsn, u64> {
    let committed: Arc<Mutex<BTreeMap<Lsn, u64>>> = Arc::default();
    let tickets: Vec<_> = numbers
        .map(|number| {
            let (recorder, committed) = (recorder.clone(), committed.clone());
            jobs.submit(move |memory| {
                let store_all = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                    stores(number).into_iter().for_each(|at| memory.store(at, number));
                };
                let ((), lsn) = memory.transaction(store_all).unwrap();
                committed.lock().insert(lsn, number);
                memory.durable(lsn).unwrap();
                recorder.note(Step::Acknowledged(lsn));
            })
        })
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    jobs.stop().unwrap();
    Arc::into_inner(committed).unwrap().into_inner()
}

impl Session {
    fn setting(&self) -> Setting {
        Setting { geometry: self.geometry, ..Setting::SMALL }
    }

    /// Recovers `disk` as the power loss has left it, and checks it.
    fn check(&self, mut disk: DiskModel, acknowledged: Lsn) -> Result<(Back, usize), Violation> {
        let back = bring_back(&self.setting(), &mut disk)
            .map_err(|error| Violation { what: error.to_string() })?;
        let found = check_back(&back, &self.states, acknowledged)?;
        Ok((back, found))
    }

    /// Replays the steps. After each step, calls `visit` with the disk and the acknowledged
    /// transactions.
    fn replay(
        &self,
        visit: impl FnMut(usize, &DiskModel, Lsn) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        replay(&self.before, &self.steps, self.states[0].0, visit)
    }

    /// Cuts power after every step, with none, all and a drawn part of the unflushed writes.
    fn replay_every_prefix(&self) -> Result<usize, Violation> {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut losses = 0;
        self.replay(|index, disk, acknowledged| {
            let mut lose = |name: &str, kept: &mut dyn FnMut(usize) -> Kept| {
                losses += 1;
                let checked = self.check(disk.after_power_loss(kept), acknowledged);
                checked.map(drop).map_err(|violation| Violation {
                    what: format!("after step {index}, {name} kept: {violation}"),
                })
            };
            lose("nothing", &mut |_| Kept::Lost)?;
            lose("everything", &mut |_| Kept::Whole)?;
            lose("a part", &mut |_| match random.random_range(0..5) {
                0 => Kept::Torn,
                1 | 2 => Kept::Lost,
                _ => Kept::Whole,
            })
        })?;
        Ok(losses)
    }
}

fn new_store(path: &Path) {
    let (path, tag) = (path.to_path_buf(), "replay".into());
    let (pages, spare_pages) = (PAGES, SPARE_PAGES);
    let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
    Store::create_persistent(&new, LOG_BYTES).unwrap();
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn first_session(path: &Path) -> Session {
    new_store(path);
    run(path, (Lsn::ZERO, State::blank(PAGES)), 1..TRANSACTIONS + 1)
}

#[test]
fn every_prefix_of_what_reached_the_device_recovers() {
    let folder = folder();
    let path = folder.path().join("store");
    let session = first_session(&path);
    let slots = session.geometry.slots_start();
    let is_page = |step: &&Step| matches!(step, Step::Submitted { block, .. } if block.0 >= slots);
    assert!(session.steps.iter().filter(is_page).count() > 100, "pages were written, too");
    let losses = session.replay_every_prefix().unwrap_or_else(|violation| panic!("{violation}"));
    assert_eq!(losses, 3 * session.steps.len());
    println!("{} steps, {losses} losses of power", session.steps.len());
}

#[test]
fn every_prefix_of_a_recovery_and_what_follows_recovers() {
    let folder = folder();
    let path = folder.path().join("store");
    let session = first_session(&path);
    let mut random = Pcg64Mcg::seed_from_u64(8);
    let stops: Vec<usize> = (0..3).map(|_| random.random_range(0..session.steps.len())).collect();
    session
        .replay(|index, disk, acknowledged| {
            if !stops.contains(&index) {
                return Ok(());
            }
            let kept = |_| if random.random_bool(0.5) { Kept::Whole } else { Kept::Lost };
            let disk = disk.after_power_loss(kept);
            let again = folder.path().join(format!("after-{index}"));
            materialise(&disk, &path, &again);
            let (_, found) = session.check(disk, acknowledged)?;
            let first = session.states[found].clone();
            let numbers = 1000 * index as u64..1000 * index as u64 + 20;
            run(&again, first, numbers).replay_every_prefix().map(drop)
        })
        .unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn a_flush_or_a_page_that_never_reached_the_device_is_noticed() {
    let folder = folder();
    let session = first_session(&folder.path().join("store"));
    let slots = session.geometry.slots_start();
    let without_flushes = |step: &Step| !matches!(step, Step::FlushEnded);
    let zeros = |step: &mut Step| {
        if let Step::Submitted { block, page, .. } = step
            && block.0 >= slots
        {
            *page = Arc::new(Box::new([0; PAGE_BYTES]).into());
        }
    };
    let mut lying = Session { steps: session.steps.clone(), ..session };
    lying.steps.retain(without_flushes);
    assert!(lying.replay_every_prefix().is_err(), "flushes that flush nothing");
    let mut losing = Session { steps: session.steps, ..lying };
    losing.steps.iter_mut().for_each(zeros);
    assert!(losing.replay_every_prefix().is_err(), "writes that write zeros");
}
