//! Which calls wait until a transaction is on the device.

use ebbtide_core::durability::{Lsn, Policy, TransactionError};
use ebbtide_core::{Addr, Memory};
use ebbtide_engine::JobError;

use super::{create, folder, options, start, word};

#[test]
fn a_job_that_ends_in_a_commit_frees_its_thread_and_its_ticket_waits_for_the_flush() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::Always));
    // More than there are threads, all in a few flushes.
    let count = |n: u64| {
        jobs.submit_commit(move |memory| {
            memory.transaction(|memory| {
                memory.store(word(n), n + 1);
                n
            })
        })
    };
    let tickets: Vec<_> = (0..200).map(count).collect();
    for (n, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), Ok(n));
    }
    let progress = jobs.engine().progress().unwrap();
    assert_eq!(progress.durable, progress.acknowledged);
    assert!(progress.durable >= progress.committed, "{progress:?}");
}

#[test]
fn nothing_is_waited_for_inside_a_transaction() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    let waited = jobs.submit(|memory| {
        let ((), earlier) = memory.transaction(|memory| memory.store(word(1), 1u64))?;
        let (inside, lsn) = memory.transaction(|memory| {
            memory.store(word(0), 7u64);
            let (inner, lsn) = memory.transaction(|memory| memory.durable(Lsn::ZERO))?;
            assert_eq!(inner, Err(TransactionError::Inside));
            Ok::<_, TransactionError>([memory.durable(lsn), memory.durable(earlier)])
        })?;
        memory.durable(lsn)?;
        inside
    });
    let inside = waited.wait().unwrap().unwrap();
    assert_eq!(inside, [Err(TransactionError::Inside), Err(TransactionError::Inside)]);
}

#[test]
fn a_job_that_waited_for_the_log_is_later_no_reason_to_wait_for_ever() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    let durable = jobs.submit(|memory| {
        let ((), lsn) = memory.transaction(|memory| memory.store(Addr(0), 1u64)).unwrap();
        memory.durable(lsn)
    });
    assert_eq!(durable.wait(), Ok(Ok(())));
    let stuck = jobs.submit(|memory| {
        while memory.load::<u64>(Addr(8)) == 0 {
            memory.wait(Addr(8), 0);
        }
    });
    jobs.stop().unwrap();
    assert!(matches!(stuck.wait(), Err(JobError::Deadlock(_))));
}

#[test]
fn who_waits_until_a_transaction_is_durable_finds_it_flushed() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    for value in 0..5u64 {
        let durable = jobs.submit(move |memory| {
            let ((), lsn) = memory.transaction(|memory| memory.store(Addr(0), value)).unwrap();
            memory.durable(lsn).map(|()| lsn)
        });
        let lsn = durable.wait().unwrap().unwrap();
        assert!(jobs.engine().progress().unwrap().durable >= lsn);
    }
}
