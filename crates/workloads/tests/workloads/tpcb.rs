//! TPC-B against a plain bank, and the distribution of its transactions.

use ebbtide_core::PageId;
use ebbtide_testbed::Plain;
use ebbtide_workloads::tpcb::{Balance, TELLERS_PER_BRANCH, Transaction};
use ebbtide_workloads::{Kind, Observed, Program, Scatter, Shape, Tpcb, Work, Workload};
use proptest::prelude::*;

use crate::common::{plain, program};

fn tpcb(pages: u64) -> Tpcb {
    match program("tpcb", pages, Scatter::Pages) {
        Program::Tpcb(tpcb) => tpcb,
        _ => unreachable!(),
    }
}

fn of_shape(shape: &Shape) -> Tpcb {
    match Kind::Tpcb.build(shape).unwrap() {
        Program::Tpcb(tpcb) => tpcb,
        _ => unreachable!(),
    }
}

#[test]
fn transactions_do_what_a_plain_bank_does() {
    for pages in [5, 40] {
        let tpcb = tpcb(pages);
        let mut memory = plain(&tpcb);
        let mut accounts = vec![0; (tpcb.branches() * tpcb.accounts_per_branch()) as usize];
        let mut tellers = vec![0; (tpcb.branches() * TELLERS_PER_BRANCH) as usize];
        let jobs = 3 * tpcb.history_rows() + 7;
        for job in 0..jobs {
            let Transaction { account, teller, delta, .. } = tpcb.job(job);
            accounts[account as usize] += delta;
            tellers[teller as usize] += delta;
            tpcb.run(job, &mut memory).unwrap();
        }
        for (account, &amount) in (0..).zip(&accounts) {
            assert_eq!(tpcb.account(&mut memory, account).unwrap().unwrap().amount, amount);
        }
        for (branch, of_branch) in (0..).zip(tellers.chunks(TELLERS_PER_BRANCH as usize)) {
            let (all, each) = tpcb.branch(&mut memory, branch).unwrap().unwrap();
            assert_eq!(each.map(|teller| teller.amount), of_branch);
            assert_eq!(all.amount, of_branch.iter().sum::<i64>());
        }
        let total = Balance { amount: accounts.iter().sum(), transactions: jobs };
        assert_eq!(tpcb.audit(&mut memory), Ok(total));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_transactions_do_what_a_plain_bank_does(
        transactions in prop::collection::vec(
            (any::<u64>(), 0u64..70, 0u64..22, -999_999i64..=999_999), 0..300,
        ),
    ) {
        let tpcb = tpcb(5);
        prop_assert_eq!((tpcb.branches(), tpcb.accounts_per_branch()), (2, 32));
        let mut memory = plain(&tpcb);
        let (mut accounts, mut tellers) = ([Balance::default(); 64], [Balance::default(); 20]);
        let mut all = Balance::default();
        for (number, account, teller, delta) in transactions {
            let transaction = Transaction { number, account, teller, delta };
            let found = tpcb.execute(&mut memory, &transaction).unwrap();
            prop_assert_eq!(found.is_some(), account < 64 && teller < 20);
            let Some(found) = found else { continue };
            let rows = [&mut accounts[account as usize], &mut tellers[teller as usize], &mut all];
            prop_assert_eq!((found.account, found.teller), (*rows[0], *rows[1]));
            for balance in rows {
                balance.amount += delta;
                balance.transactions += 1;
            }
        }
        for (account, balance) in (0..).zip(accounts) {
            prop_assert_eq!(tpcb.account(&mut memory, account), Ok(Some(balance)));
        }
        for (branch, tellers) in (0..).zip(tellers.chunks(10)) {
            prop_assert_eq!(&tpcb.branch(&mut memory, branch).unwrap().unwrap().1[..], tellers);
        }
        prop_assert_eq!(tpcb.audit(&mut memory), Ok(all));
    }
}

#[test]
fn a_new_bank_is_empty_and_consistent() {
    let tpcb = tpcb(300);
    assert_eq!(tpcb.audit(&mut plain(&tpcb)), Ok(Balance::default()));
}

#[test]
fn the_history_keeps_account_of_what_it_overwrote_whatever_the_order() {
    let tpcb = tpcb(5);
    let rows = tpcb.history_rows();
    let mut memory = plain(&tpcb);
    let mut amount = 0;
    // The same place over and over, in no order, one number twice.
    for (rounds, number) in (1..).zip([3, 7 * rows + 3, rows + 3, rows + 3, 2 * rows + 3]) {
        let transaction = Transaction { number, ..tpcb.job(number) };
        amount += transaction.delta;
        let found = tpcb.execute(&mut memory, &transaction).unwrap().unwrap();
        assert_eq!(found.history_rows, rounds - 1);
        assert_eq!(tpcb.audit(&mut memory), Ok(Balance { amount, transactions: rounds }));
    }
}

#[test]
fn nobody_is_paid_who_does_not_exist() {
    let tpcb = tpcb(5);
    let mut memory = plain(&tpcb);
    let accounts = tpcb.branches() * tpcb.accounts_per_branch();
    let tellers = tpcb.branches() * TELLERS_PER_BRANCH;
    for (account, teller) in [(accounts, 0), (0, tellers), (u64::MAX, u64::MAX)] {
        let transaction = Transaction { number: 0, account, teller, delta: 1 };
        assert_eq!(tpcb.execute(&mut memory, &transaction), Ok(None));
    }
    assert_eq!(tpcb.account(&mut memory, accounts), Ok(None));
    assert_eq!(tpcb.branch(&mut memory, tpcb.branches()), Ok(None));
    assert_eq!(tpcb.audit(&mut memory), Ok(Balance::default()));
}

#[test]
fn without_skew_the_distribution_is_the_standards() {
    let tpcb = of_shape(&Shape { theta: 0.0, dataset_bytes: 64 << 20, ..Shape::default() });
    assert_eq!((tpcb.branches(), tpcb.accounts_per_branch()), (4, 100_000));
    let jobs = 100_000;
    let (mut remote, mut sum) = (0, 0);
    let mut tellers = vec![0u32; 40];
    let mut branches_of_accounts = [0u32; 4];
    for job in 0..jobs {
        let transaction = tpcb.job(job);
        assert_eq!(transaction.number, job);
        assert!((-999_999..=999_999).contains(&transaction.delta));
        let account_branch = transaction.account / 100_000;
        remote += u32::from(account_branch != transaction.branch());
        sum += transaction.delta;
        tellers[transaction.teller as usize] += 1;
        branches_of_accounts[account_branch as usize] += 1;
    }
    // Four standard deviations each.
    assert!((f64::from(remote) / jobs as f64 - 0.15).abs() < 0.0046, "{remote}");
    assert!((sum as f64 / jobs as f64).abs() < 7_400.0, "{sum}");
    assert!(tellers.iter().all(|&n| n.abs_diff(2_500) < 198), "{tellers:?}");
    assert!(branches_of_accounts.iter().all(|&n| n.abs_diff(25_000) < 548));
}

#[test]
fn skew_makes_accounts_hot_and_tellers_follow_their_branch() {
    let tpcb = of_shape(&Shape { dataset_bytes: 64 << 20, ..Shape::default() });
    let (mut of_hottest_page, mut remote) = (std::collections::HashMap::new(), 0);
    for job in 0..20_000 {
        let transaction = tpcb.job(job);
        *of_hottest_page.entry(transaction.account / 32).or_insert(0) += 1;
        remote += u32::from(transaction.account / 100_000 != transaction.branch());
    }
    // H(32) / H(400,000) with θ = 0.99.
    let hottest = f64::from(*of_hottest_page.values().max().unwrap()) / 20_000.0;
    assert!((hottest - 0.288).abs() < 0.02, "{hottest}");
    assert!((f64::from(remote) / 20_000.0 - 0.15).abs() < 0.011, "{remote}");
}

/// Runs job 0 with a fault at access `faulty`, from 0; how many accesses it made.
fn run_with_fault(tpcb: &Tpcb, memory: &mut Plain, faulty: Option<u64>) -> u64 {
    let faulty = faulty.map_or(0, |access| access + 1);
    let (result, accesses) =
        ebbtide_testbed::run_with_fault(memory, faulty, |memory| tpcb.run(0, memory));
    result.into_iter().for_each(|done| done.unwrap());
    accesses
}

#[test]
fn a_fault_at_any_access_frees_the_latches_and_never_passes_the_audit_half_done() {
    let tpcb = tpcb(5);
    let accesses = run_with_fault(&tpcb, &mut plain(&tpcb), None);
    let (mut whole, mut none, mut half) = (0, 0, 0);
    for faulty in 0..accesses {
        let mut memory = plain(&tpcb);
        run_with_fault(&tpcb, &mut memory, Some(faulty));
        assert!(memory.words.iter().step_by(8).all(|latch| latch & 1 == 0), "held: {faulty}");
        match tpcb.audit(&mut memory) {
            Ok(Balance { transactions: 0, .. }) => none += 1,
            Ok(_) => whole += 1,
            Err(_) => half += 1,
        }
    }
    // Touches, latches and loads come before the first of four stores; releases come after.
    assert_eq!((none, half), (4 + 3 * 2 + 4 + 1, 3));
    assert_eq!(whole, accesses - none - half);
}

#[test]
fn an_audit_notices_a_page_of_any_table_that_came_back_old() {
    let tpcb = tpcb(5);
    let fresh = plain(&tpcb);
    for page in 0..5 {
        let mut memory = plain(&tpcb);
        (0..50).for_each(|job| tpcb.run(job, &mut memory).unwrap());
        tpcb.audit(&mut memory).unwrap();
        let words = page * 512..(page + 1) * 512;
        memory.words[words.clone()].copy_from_slice(&fresh.words[words]);
        assert!(tpcb.audit(&mut memory).is_err(), "page {page}");
    }
}

#[test]
fn a_job_notices_a_teller_or_branch_that_came_back_old() {
    let tpcb = tpcb(5);
    let fresh = plain(&tpcb);
    for page in 0..2 {
        let mut memory = plain(&tpcb);
        tpcb.run(0, &mut memory).unwrap();
        let words = page * 512..(page + 1) * 512;
        memory.words[words.clone()].copy_from_slice(&fresh.words[words]);
        assert!(tpcb.run(0, &mut memory).is_err(), "page {page}");
    }
}

#[test]
fn a_job_touches_each_of_its_four_rows_before_it_takes_a_latch() {
    let tpcb = tpcb(300);
    let mut memory = plain(&tpcb);
    for job in 0..100 {
        let mut pages: Vec<(PageId, bool)> = Vec::new();
        let mut observed =
            Observed::new(&mut memory, Work::Skipped, |page, write| pages.push((page, write)));
        tpcb.run(job, &mut observed).unwrap();
        let touched = pages.iter().take_while(|(_, write)| !write).map(|&(page, _)| page);
        let touched: Vec<PageId> = touched.collect();
        assert!(touched.len() >= 4);
        assert!(pages.iter().all(|(page, _)| touched.contains(page)));
        assert!(touched.contains(&PageId(0)), "the branches are first");
    }
}
