//! Programs that mark their transactions once commit durably on a persistent store.

use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{PAGE_BYTES, PageId, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, Jobs, Options};
use ebbtide_workloads::tpcb::Balance;
use ebbtide_workloads::{Kind, Program, Shape, Workload};

use crate::common;

const LOG_BYTES: u64 = 4 << 20;
const JOBS: u64 = 300;

fn program(kind: Kind) -> Program {
    let dataset_bytes = kind.min_bytes().max(4 << 20);
    kind.build(&Shape { dataset_bytes, ..Shape::default() }).unwrap()
}

fn start(store: Store) -> Jobs {
    let mut options = Options { durability: Some(Policy::Always), ..Options::new(4 << 20) };
    options.cores = 2;
    options.tuning.threads = Some(8);
    let engine = Arc::new(Engine::open(&Arc::new(store), &options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

/// A store that holds the image of `program`.
fn filled(program: &Program, path: &std::path::Path) -> Jobs {
    let pages = program.size_bytes().div_ceil(PAGE_BYTES as u64);
    let (path, tag) = (path.to_path_buf(), "programs".into());
    let new = NewStore { path, offset: 0, pages, spare_pages: pages / 2, tag, force: false };
    let image = |page: PageId, out: &mut _| program.image(page, out);
    let unattended = Watch::unattended();
    start(Store::create_persistent_image(&new, LOG_BYTES, &image, unattended).unwrap())
}

fn run(program: &Program, jobs: &Jobs) {
    let tickets = (0..JOBS).map(|job| {
        let program = program.clone();
        jobs.submit(move |memory| program.run(job, memory))
    });
    let tickets: Vec<_> = tickets.collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap().unwrap());
}

/// Runs jobs of `kind` and opens the store again. Returns the program with its new engine.
fn run_and_reopen(kind: Kind, folder: &tempfile::TempDir) -> (Program, Jobs) {
    let (program, path) = (program(kind), folder.path().join("store"));
    let jobs = filled(&program, &path);
    let before = jobs.engine().progress().unwrap();
    run(&program, &jobs);
    let after = jobs.engine().progress().unwrap();
    assert!(after.committed > before.committed, "{kind} commits nothing");
    assert!(after.durable >= after.committed, "{kind} was acknowledged before it was durable");
    jobs.stop().unwrap();
    (program, start(Store::open(&path, 0, Access::Exclusive).unwrap()))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn the_sums_of_a_bank_are_right_after_the_store_is_opened_again() {
    let folder = folder();
    let (program, jobs) = run_and_reopen(Kind::Tpcb, &folder);
    let Program::Tpcb(tpcb) = program else { unreachable!("it is the one that was asked for") };
    let mut expected = Balance::default();
    for job in 0..JOBS {
        expected.amount += tpcb.job(job).delta;
        expected.transactions += 1;
    }
    let total = jobs.submit(move |memory| tpcb.audit(memory)).wait().unwrap();
    assert_eq!(total.unwrap(), expected);
}

#[test]
fn subscribers_records_and_orders_are_there_after_the_store_is_opened_again() {
    for kind in [Kind::Tatp, Kind::TatpMix, Kind::YcsbA, Kind::YcsbF, Kind::TpccMix] {
        let folder = folder();
        let (program, jobs) = run_and_reopen(kind, &folder);
        // Every row that a job reads is checked against what may have been written.
        run(&program, &jobs);
    }
}
