//! Terminals ask for what the standard says, as often as it says.

use std::collections::HashMap;

use ebbtide_workloads::tpcc::input::{Inputs, NewOrder, Payment, Transaction, Who};
use ebbtide_workloads::tpcc::{DISTRICTS, Scale};

const JOBS: u64 = 200_000;

/// Ten warehouses of the standard's size.
const SCALE: Scale = Scale { warehouses: 10, ..Scale::FULL };

fn inputs(theta: f64) -> Inputs {
    Inputs::new(SCALE, theta, 7)
}

/// That `count` of `of` is within four standard deviations of `share`.
fn assert_share(what: &str, count: usize, of: usize, share: f64) {
    let (count, of) = (count as f64, of as f64);
    let tolerance = 4.0 * (share * (1.0 - share) / of).sqrt();
    assert!((count / of - share).abs() < tolerance, "{what}: {count} of {of}, not {share}");
}

fn new_orders() -> Vec<NewOrder> {
    let inputs = inputs(0.99);
    (0..JOBS / 4).map(|job| inputs.new_order(job)).collect()
}

#[test]
fn orders_have_five_to_fifteen_lines_of_one_to_ten() {
    let orders = new_orders();
    let mut counts = [0; 16];
    orders.iter().for_each(|order| counts[order.lines.len()] += 1);
    assert_eq!(counts[..5], [0; 5]);
    counts[5..].iter().for_each(|&n| assert_share("a count of lines", n, orders.len(), 1.0 / 11.0));
    let lines: Vec<_> = orders.iter().flat_map(|order| &order.lines).collect();
    for quantity in 1..=10 {
        let n = lines.iter().filter(|line| line.quantity == quantity).count();
        assert_share("a quantity", n, lines.len(), 0.1);
    }
}

#[test]
fn one_order_in_a_hundred_ends_with_an_item_that_does_not_exist() {
    let orders = new_orders();
    let unknown = |i_id: u32| !(1..=SCALE.items).contains(&i_id);
    let ends_so = |order: &&NewOrder| unknown(order.lines.last().unwrap().i_id);
    assert_share("rollback", orders.iter().filter(ends_so).count(), orders.len(), 0.01);
    for order in &orders {
        let (_, others) = order.lines.split_last().unwrap();
        assert!(others.iter().all(|line| !unknown(line.i_id)), "{order:?}");
    }
}

#[test]
fn one_line_in_a_hundred_comes_from_any_other_warehouse() {
    let orders = new_orders();
    let lines = orders.iter().flat_map(|order| order.lines.iter().map(move |l| (order.w_id, l)));
    let (all, mut remote, mut from) = (lines.clone().count(), 0, HashMap::new());
    for (w_id, line) in lines.filter(|(w_id, line)| *w_id != line.supply_w_id) {
        assert!((1..=SCALE.warehouses).contains(&line.supply_w_id));
        remote += 1;
        *from.entry((w_id, line.supply_w_id)).or_insert(0) += 1;
    }
    assert_share("remote supply", remote, all, 0.01);
    assert_eq!(from.len(), 90, "every warehouse supplies every other");
    // The only warehouse supplies itself.
    let alone = Inputs::new(Scale::FULL, 0.99, 7);
    let of_alone = (0..1000).flat_map(|job| alone.new_order(job).lines);
    assert!(of_alone.into_iter().all(|line| line.supply_w_id == 1));
}

#[test]
fn the_mix_is_45_43_4_4_4() {
    let inputs = inputs(0.99);
    let mut counts = [0; 5];
    for job in 0..JOBS {
        counts[match inputs.transaction(job) {
            Transaction::NewOrder(_) => 0,
            Transaction::Payment(_) => 1,
            Transaction::OrderStatus(_) => 2,
            Transaction::Delivery(_) => 3,
            Transaction::StockLevel(_) => 4,
        }] += 1;
    }
    for (n, share) in counts.into_iter().zip([0.45, 0.43, 0.04, 0.04, 0.04]) {
        assert_share("the mix", n, JOBS as usize, share);
    }
}

fn payments() -> Vec<Payment> {
    let inputs = inputs(0.99);
    (0..JOBS)
        .filter_map(|job| match inputs.transaction(job) {
            Transaction::Payment(payment) => Some(payment),
            _ => None,
        })
        .collect()
}

#[test]
fn customers_are_named_by_last_name_three_times_in_five() {
    let payments = payments();
    let by_name = payments.iter().filter(|payment| matches!(payment.who, Who::Name(_))).count();
    assert_share("by name", by_name, payments.len(), 0.6);
    for payment in payments {
        assert!((100..=500_000).contains(&payment.amount_cents));
        assert!((1..=DISTRICTS).contains(&payment.d_id));
        match payment.who {
            Who::Id(c_id) => assert!((1..=SCALE.customers).contains(&c_id)),
            Who::Name(name) => assert!(name < SCALE.names()),
        }
    }
}

#[test]
fn fifteen_payments_in_a_hundred_are_by_customers_of_other_warehouses() {
    let payments = payments();
    let remote = |payment: &&Payment| payment.c_w_id != payment.w_id;
    assert_share("remote", payments.iter().filter(remote).count(), payments.len(), 0.15);
    let at_home = payments.iter().filter(|payment| !remote(payment));
    assert!(at_home.into_iter().all(|payment| payment.c_d_id == payment.d_id));
}

#[test]
fn home_warehouses_are_zipfian_and_without_skew_all_alike() {
    for (theta, hottest) in
        [(0.0, 0.1), (0.99, 1.0 / (1..=10).map(|r| f64::from(r).powf(-0.99)).sum::<f64>())]
    {
        let inputs = inputs(theta);
        let mut counts = [0; 11];
        (0..JOBS).for_each(|job| counts[inputs.new_order(job).w_id as usize] += 1);
        assert_eq!(counts[0], 0);
        let most = if theta == 0.0 { counts[1] } else { *counts.iter().max().unwrap() };
        assert_share("the hottest warehouse", most, JOBS as usize, hottest);
    }
}
