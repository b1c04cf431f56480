//! A page that cannot be read ends one transaction. At every access where this happens, no latch
//! stays held, and later transactions run on.

use ebbtide_testbed::Plain;
use ebbtide_workloads::tpcc::input::Transaction;
use ebbtide_workloads::{Named, Shape, TpccMix, Workload};

use crate::common::{image, plain};

/// Runs job `job` with a fault at access `faulty`. Whether it came so far.
fn run_with_fault(mix: &TpccMix, memory: &mut Plain, job: u64, faulty: u64) -> bool {
    let (result, accesses) =
        ebbtide_testbed::run_with_fault(memory, faulty, |memory| mix.run(job, memory));
    result.into_iter().for_each(|done| done.unwrap());
    accesses >= faulty
}

/// A job of each kind.
fn jobs(mix: &TpccMix) -> Vec<u64> {
    let kinds: [fn(&Transaction) -> bool; 5] = [
        |t| matches!(t, Transaction::NewOrder(_)),
        |t| matches!(t, Transaction::Payment(_)),
        |t| matches!(t, Transaction::OrderStatus(_)),
        |t| matches!(t, Transaction::Delivery(_)),
        |t| matches!(t, Transaction::StockLevel(_)),
    ];
    let first = |is: fn(&Transaction) -> bool| (0..).find(|&job| is(&mix.job(job))).unwrap();
    kinds.map(first).to_vec()
}

#[test]
fn a_fault_at_any_access_frees_all_latches_and_the_next_jobs_run() {
    let mix = TpccMix::with_shape(&Shape { dataset_bytes: TpccMix::MIN_BYTES, ..Shape::default() });
    // Warm enough that rings wrap.
    let mut warm = plain(&mix);
    (0..400).for_each(|job| mix.run(job, &mut warm).unwrap());
    for job in jobs(&mix) {
        for faulty in 1.. {
            let mut memory = Plain::new(warm.words.clone());
            if !run_with_fault(&mix, &mut memory, job, faulty) {
                break;
            }
            // A latch that is still held would be waited for, which this memory does not allow.
            for next in (job..job + 60).chain(jobs(&mix)) {
                mix.run(next, &mut memory)
                    .unwrap_or_else(|wrong| panic!("after a fault at {faulty} of {job}: {wrong}"));
            }
        }
    }
}

#[test]
fn a_fault_while_rows_are_read_changes_nothing() {
    let mix = TpccMix::with_shape(&Shape { dataset_bytes: TpccMix::MIN_BYTES, ..Shape::default() });
    let fresh = image(&mix);
    for job in jobs(&mix) {
        // All accesses up to the first one that changes more than a latch.
        let mut memory = plain(&mix);
        let mut unchanged = 0;
        for faulty in 1.. {
            memory.words.copy_from_slice(&fresh);
            let came_so_far = run_with_fault(&mix, &mut memory, job, faulty);
            let changed = (0..fresh.len()).filter(|&word| memory.words[word] != fresh[word]);
            if !came_so_far || changed.into_iter().any(|word| word % 8 != 0) {
                break;
            }
            unchanged = faulty;
        }
        // The least is a Payment by number.
        assert!(unchanged >= 15, "job {job} stores after {unchanged} accesses");
    }
}
