//! TPC-C over Silo: its consistency conditions hold after any interleaving, and its rows add up to
//! what the transactions said they did.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId};
use ebbtide_testbed::{Plain, Raced, Shared, interleave_bursts, race};
use ebbtide_workloads::silo_tpcc::{SiloTpcc, Totals};
use ebbtide_workloads::tpcc::input::Transaction;
use ebbtide_workloads::{Corrupt, Named, Observed, Scatter, Shape, Work, Workload};

use crate::common::{image, plain, sparse};

fn smallest(scatter: Scatter) -> SiloTpcc {
    let shape = Shape { dataset_bytes: SiloTpcc::MIN_BYTES, scatter, ..Shape::default() };
    SiloTpcc::with_shape(&shape)
}

/// Runs a job; what it adds to the totals.
fn run<M: FullMemory>(silo: &SiloTpcc, memory: &mut M, job: u64) -> Result<Totals, Corrupt> {
    let (database, mut does) = (silo.database(), Totals::default());
    match silo.job(job) {
        Transaction::NewOrder(input) => {
            if database.new_order(memory, job, &input, 0)?.is_some() {
                does.orders = 1;
                does.lines = input.lines.len() as u64;
                does.quantity = input.lines.iter().map(|line| u64::from(line.quantity)).sum();
            }
        }
        Transaction::Payment(input) => {
            database.payment(memory, job, &input, 0)?;
            does.payments = 1;
            does.paid_cents = input.amount_cents.into();
        }
        Transaction::OrderStatus(input) => {
            database.order_status(memory, job, &input, 0)?;
        }
        Transaction::Delivery(input) => {
            does.deliveries = database.delivery(memory, job, &input, 0)?.into();
        }
        Transaction::StockLevel(input) => {
            database.stock_level(memory, job, &input, 0)?;
        }
    }
    Ok(does)
}

fn sum(all: impl IntoIterator<Item = Totals>) -> Totals {
    all.into_iter().fold(Totals::default(), |a, b| Totals {
        orders: a.orders + b.orders,
        lines: a.lines + b.lines,
        quantity: a.quantity + b.quantity,
        paid_cents: a.paid_cents + b.paid_cents,
        payments: a.payments + b.payments,
        deliveries: a.deliveries + b.deliveries,
    })
}

/// Checks the conditions, and that rows add up to what jobs did.
fn check(silo: &SiloTpcc, words: Shared, done: Vec<Result<Totals, Corrupt>>) {
    let before = silo.database().check_consistency(&mut plain(silo)).unwrap();
    let done: Result<Vec<Totals>, Corrupt> = done.into_iter().collect();
    let after = silo.database().check_consistency(&mut words.into_plain()).unwrap();
    assert_eq!(after, sum([before, sum(done.unwrap())]));
}

#[test]
fn the_conditions_hold_at_first_and_while_rings_go_round() {
    for scatter in [Scatter::Pages, Scatter::Keys] {
        let silo = smallest(scatter);
        let mut memory = plain(&silo);
        let mut expected = silo.database().check_consistency(&mut memory).unwrap();
        for round in 0..10 {
            let jobs = round * 1000..(round + 1) * 1000;
            let done = sum(jobs.map(|job| run(&silo, &mut memory, job).unwrap()));
            expected = sum([expected, done]);
            let found = silo.database().check_consistency(&mut memory);
            assert_eq!(found, Ok(expected), "round {round}");
        }
        // 4,500 orders in ten rings of five places.
        assert!(expected.orders > 4_000 && expected.deliveries > 2_000, "{expected:?}");
    }
}

#[test]
fn the_conditions_hold_after_interleaved_transactions() {
    for seed in 0..40 {
        let silo = smallest(Scatter::Pages);
        let words = Shared::new(&image(&silo));
        let done = interleave_bursts(&words, 3, seed, 8.0, |thread, memory| {
            let first = (seed * 3 + thread as u64) * 8;
            (first..first + 8).map(|job| run(&silo, memory, job)).collect::<Vec<_>>()
        });
        check(&silo, words, done.concat());
    }
}

#[test]
fn the_conditions_hold_after_raced_transactions() {
    let silo = smallest(Scatter::Keys);
    let words = Shared::new(&image(&silo));
    let done = race(&words, |thread, memory: &mut Raced<'_>| {
        let run = |job: u64| run(&silo, memory, 2 * job + thread as u64);
        (0..4000).map(run).collect::<Vec<_>>()
    });
    check(&silo, words, done.concat());
}

#[test]
fn one_new_order_in_a_hundred_is_rolled_back_and_leaves_nothing() {
    let silo = smallest(Scatter::Pages);
    let mut memory = plain(&silo);
    let mut rolled_back = 0;
    let (mut orders, first) = (0, silo.database().check_consistency(&mut memory).unwrap());
    for job in 0..20_000 {
        let Transaction::NewOrder(input) = silo.job(job) else { continue };
        orders += 1;
        let before = (rolled_back < 20).then(|| memory.words.clone());
        if silo.database().new_order(&mut memory, job, &input, 0).unwrap().is_none() {
            rolled_back += 1;
            assert!(before.is_none_or(|before| before == memory.words), "job {job}");
        }
    }
    assert!((orders / 130..orders / 80).contains(&rolled_back), "{rolled_back} of {orders}");
    let last = silo.database().check_consistency(&mut memory).unwrap();
    assert_eq!(last.orders - first.orders, orders - rolled_back);
}

#[test]
fn a_damaged_image_is_noticed_by_whoever_reads_it() {
    let silo = smallest(Scatter::Pages);
    let fresh = image(&silo);
    let mut tried = 0;
    let mut noticed = 0;
    for word in (0..fresh.len()).filter(|word| word % 61 == 0 && fresh[*word] != 0) {
        let mut memory = Plain::new(fresh.clone());
        memory.words[word] ^= 1 << 17;
        tried += 1;
        // A damaged entry of an index may lead to a word that looks like a held lock. Whoever reads
        // it waits as for any lock, which this memory, with its single job, ends with a panic.
        let check = || silo.database().check_consistency(&mut memory).is_err();
        noticed += usize::from(catch_unwind(AssertUnwindSafe(check)).unwrap_or(false));
    }
    // Not noticed: items, which the check does not read, free places, and links and counts of the
    // indexes that a scan does not need.
    assert!(noticed * 10 > tried * 7, "{noticed} of {tried}");
}

#[test]
fn hot_pages_are_fewer_when_the_popular_lie_together() {
    // How many pages get nine in ten of all accesses.
    let hot = |scatter| {
        let shape = Shape { dataset_bytes: 1 << 27, scatter, ..Shape::default() };
        let silo = SiloTpcc::with_shape(&shape);
        let mut memory = sparse(&silo);
        let mut counts: HashMap<PageId, u64> = HashMap::new();
        let mut count = |page, _| *counts.entry(page).or_default() += 1;
        let mut observed = Observed::new(&mut memory, Work::Skipped, &mut count);
        (0..1500).for_each(|job| silo.run(job, &mut observed).unwrap());
        let mut counts: Vec<u64> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = counts.iter().sum::<u64>() / 10 * 9;
        counts.iter().take_while(|&&count| take_off(&mut left, count)).count()
    };
    let (pages, keys) = (hot(Scatter::Pages), hot(Scatter::Keys));
    assert!(pages * 5 < keys * 4, "{pages} and {keys} pages");
}

/// Takes `count` off what is left; whether there was anything.
fn take_off(left: &mut u64, count: u64) -> bool {
    let any = *left > 0;
    *left = left.saturating_sub(count);
    any
}

#[test]
fn nothing_of_a_rotten_epoch_or_a_page_that_came_back_old_is_believed() {
    let silo = smallest(Scatter::Pages);
    let fresh = image(&silo);
    let mut memory = Plain::new(fresh.clone());
    memory.words[0] ^= 1 << 40;
    assert!((0..20).any(|job| silo.run(job, &mut memory).is_err()));
    // After many epochs, the page of the epoch comes back as it was first: records are newer.
    let mut memory = Plain::new(fresh.clone());
    (0..5000).for_each(|job| silo.run(job, &mut memory).unwrap());
    memory.words[..PAGE_BYTES / 8].copy_from_slice(&fresh[..PAGE_BYTES / 8]);
    assert!((5000..5020).any(|job| silo.run(job, &mut memory).is_err()));
}

#[test]
fn a_transaction_computes_by_the_rows_it_touches_and_an_average_one_what_is_asked() {
    let (work, jobs) = (100_000, 20_000);
    let mut silo = SiloTpcc::with_shape(&Shape { dataset_bytes: 64 << 20, ..Shape::default() });
    silo.set_work(work);
    let mut memory = plain(&silo);
    let mut computed: HashMap<&str, (u64, u64)> = HashMap::new();
    for job in 0..jobs {
        let kind = match silo.job(job) {
            Transaction::NewOrder(_) => "New-Order",
            Transaction::Payment(_) => "Payment",
            Transaction::OrderStatus(_) => "Order-Status",
            Transaction::Delivery(_) => "Delivery",
            Transaction::StockLevel(_) => "Stock-Level",
        };
        let before = memory.worked;
        silo.run(job, &mut memory).unwrap();
        let (count, sum) = computed.entry(kind).or_default();
        (*count, *sum) = (*count + 1, *sum + memory.worked - before);
    }
    let mean = |kind: &str| computed[kind].1 / computed[kind].0;
    assert!(mean("Stock-Level") > 50 * mean("Payment"));
    assert!(mean("New-Order") > 10 * mean("Payment"));
    assert!((work * 9 / 10..work * 11 / 10).contains(&(memory.worked / jobs)), "{computed:?}");
}
