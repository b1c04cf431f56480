//! The consistency conditions of TPC-C hold after transactions that interleaved at every access,
//! and every transaction counts exactly once. Where a latch does not exclude, they fail.

use std::collections::HashMap;

use ebbtide_core::{Addr, FullMemory, Memory, Value};
use ebbtide_testbed::{Plain, Shared, interleave, race};
use ebbtide_workloads::tpcc::input::{Payment, Transaction};
use ebbtide_workloads::tpcc::rows::{Customer, District, Stock};
use ebbtide_workloads::tpcc::{DISTRICTS, Database, Delivered, Placed, Status};
use ebbtide_workloads::{Corrupt, Named, Shape, TpccMix};

use crate::common::image;

/// The smallest database, so that transactions collide.
fn smallest() -> TpccMix {
    TpccMix::with_shape(&Shape { dataset_bytes: TpccMix::MIN_BYTES, ..Shape::default() })
}

/// What a transaction told.
#[derive(Debug, Clone)]
enum Told {
    NewOrder(Option<Placed>),
    Payment,
    OrderStatus(Box<Status>),
    Delivery(Delivered),
    StockLevel,
}

type Done = (Transaction, Told);

fn run<M: FullMemory>(
    database: &Database,
    memory: &mut M,
    transaction: Transaction,
) -> Result<Done, Corrupt> {
    let told = match &transaction {
        Transaction::NewOrder(input) => Told::NewOrder(database.new_order(memory, input, 0)?),
        Transaction::Payment(input) => {
            database.payment(memory, input, 0)?;
            Told::Payment
        }
        Transaction::OrderStatus(input) => {
            Told::OrderStatus(Box::new(database.order_status(memory, input, 0)?))
        }
        Transaction::Delivery(input) => Told::Delivery(database.delivery(memory, input, 0)?),
        Transaction::StockLevel(input) => {
            database.stock_level(memory, input, 0)?;
            Told::StockLevel
        }
    };
    Ok((transaction, told))
}

/// Transactions on two districts, so that they collide the more, and half of all payments by
/// customers of the other one.
fn crowded(mix: &TpccMix, job: u64) -> Transaction {
    let near = |d_id: u8| d_id % 2 + 1;
    let mut transaction = mix.job(job);
    match &mut transaction {
        Transaction::NewOrder(input) => input.d_id = near(input.d_id),
        Transaction::Payment(input) => {
            input.d_id = near(input.d_id);
            input.c_d_id = near(input.amount_cents as u8 % DISTRICTS);
        }
        Transaction::OrderStatus(input) => input.d_id = near(input.d_id),
        Transaction::Delivery(_) | Transaction::StockLevel(_) => {}
    }
    transaction
}

/// All that the transactions change, added up over the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Totals {
    orders: u64,
    sold: u64,
    lines: u32,
    paid_cents: i64,
    payments: u64,
    paid_by_customers: u32,
    delivered_to_customers: u32,
}

fn districts(database: &Database) -> impl Iterator<Item = (u32, u8)> {
    (1..=database.scale().warehouses).flat_map(|w_id| (1..=DISTRICTS).map(move |d_id| (w_id, d_id)))
}

fn totals(database: &Database, memory: &mut Plain) -> Result<Totals, Corrupt> {
    let mut totals = Totals::default();
    for (w_id, d_id) in districts(database) {
        let district: District = database.district(memory, w_id, d_id)?;
        totals.orders += district.next_o_id;
        totals.paid_cents += district.ytd_cents;
        totals.payments += district.payments;
        for c_id in 1..=database.scale().customers {
            let customer: Customer = database.customer(memory, w_id, d_id, c_id)?;
            totals.paid_by_customers += customer.payment_cnt;
            totals.delivered_to_customers += customer.delivery_cnt;
        }
    }
    for w_id in 1..=database.scale().warehouses {
        for i_id in 1..=database.scale().items {
            let stock: Stock = database.stock(memory, w_id, i_id)?;
            totals.sold += stock.ytd;
            totals.lines += stock.order_cnt;
        }
    }
    Ok(totals)
}

/// Counts what the transactions say that they did.
fn count(totals: &mut Totals, done: &[Done]) {
    for (transaction, told) in done {
        match (transaction, told) {
            (Transaction::NewOrder(order), Told::NewOrder(Some(_))) => {
                totals.orders += 1;
                totals.lines += order.lines.len() as u32;
                totals.sold += order.lines.iter().map(|l| u64::from(l.quantity)).sum::<u64>();
            }
            (Transaction::Payment(Payment { amount_cents, .. }), _) => {
                totals.paid_cents += i64::from(*amount_cents);
                totals.payments += 1;
                totals.paid_by_customers += 1;
            }
            (_, Told::Delivery(delivered)) => {
                totals.delivered_to_customers += delivered.iter().flatten().count() as u32;
            }
            _ => {}
        }
    }
}

/// Checks that every order of a district is numbered and delivered once, in turn, and that no
/// transaction saw half of one.
fn check_told(done: &[Done], first: &HashMap<(u32, u8), District>) -> Result<(), String> {
    let (mut placed, mut delivered) = (HashMap::new(), HashMap::new());
    for (transaction, told) in done {
        match (transaction, told) {
            (Transaction::NewOrder(order), Told::NewOrder(Some(told))) => {
                let orders: &mut Vec<u64> = placed.entry((order.w_id, order.d_id)).or_default();
                orders.push(told.o_id);
            }
            (Transaction::Delivery(delivery), Told::Delivery(told)) => {
                for (d_id, o_id) in (1..).zip(told).filter_map(|(d, o)| Some((d, (*o)?))) {
                    let orders: &mut Vec<u64> = delivered.entry((delivery.w_id, d_id)).or_default();
                    orders.push(o_id);
                }
            }
            (_, Told::OrderStatus(status)) => {
                let Some((order, lines)) = &status.order else { continue };
                let dated = lines.iter().filter(|line| line.delivery_d != 0).count();
                if dated != if order.carrier_id == 0 { 0 } else { lines.len() } {
                    return Err(format!("half a delivery was seen: {order:?}"));
                }
            }
            _ => {}
        }
    }
    let in_turn = |orders: &mut Vec<u64>, first: u64| {
        orders.sort_unstable();
        orders.iter().copied().eq((first..).take(orders.len()))
    };
    for (district, orders) in &mut placed {
        if !in_turn(orders, first[district].next_o_id) {
            return Err(format!("the orders of {district:?} are numbered {orders:?}"));
        }
    }
    for (district, orders) in &mut delivered {
        if !in_turn(orders, first[district].oldest_undelivered) {
            return Err(format!("the orders of {district:?} are delivered as {orders:?}"));
        }
    }
    Ok(())
}

fn check(
    database: &Database,
    mut fresh: Plain,
    words: Shared,
    done: Vec<Result<Vec<Done>, Corrupt>>,
) -> Result<(), String> {
    let text = |wrong: Corrupt| wrong.to_string();
    let done = done.into_iter().collect::<Result<Vec<_>, Corrupt>>().map_err(text)?.concat();
    let first: HashMap<(u32, u8), District> = districts(database)
        .map(|(w, d)| ((w, d), database.district(&mut fresh, w, d).unwrap()))
        .collect();
    check_told(&done, &first)?;
    let mut expected = totals(database, &mut fresh).map_err(text)?;
    count(&mut expected, &done);
    let mut memory = words.into_plain();
    database.check_consistency(&mut memory).map_err(text)?;
    let found = totals(database, &mut memory).map_err(text)?;
    if found == expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}")) }
}

/// Latches that exclude no transaction if `broken` names their address. Taking and releasing them
/// looks right to the caller, and changes nothing.
struct Broken<'a, M, F> {
    inner: &'a mut M,
    broken: F,
    /// What it tells of the latches it pretends to hold.
    pretended: HashMap<Addr, u64>,
}

impl<M: Memory, F: Fn(Addr) -> bool> Memory for Broken<'_, M, F> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        match self.pretended.get(&at) {
            Some(word) if size_of::<T>() == 8 => bytemuck::pod_read_unaligned(&word.to_ne_bytes()),
            _ => self.inner.load(at),
        }
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.inner.store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        if !(self.broken)(at) {
            return self.inner.compare_exchange(at, current, new);
        }
        self.pretended.insert(at, new);
        Ok(current)
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.inner.wait(at, seen);
    }
    fn wake(&mut self, at: Addr) {
        self.inner.wake(at);
    }
}

impl<M: FullMemory, F: Fn(Addr) -> bool> FullMemory for Broken<'_, M, F> {
    fn work(&mut self, instructions: u64) {
        self.inner.work(instructions);
    }
}

/// Runs transactions on three threads, interleaved by `seed`, with some latches broken.
fn interleaved(
    seed: u64,
    broken: impl Fn(&Database, Addr) -> bool + Sync,
    job: impl Fn(&TpccMix, u64) -> Transaction + Sync,
) -> Result<(), String> {
    let mix = smallest();
    let database = mix.database();
    let fresh = image(&mix);
    let words = Shared::new(&fresh);
    let done = interleave(&words, 3, seed, |thread, memory| {
        let broken = |at| broken(database, at);
        let mut memory = Broken { inner: memory, broken, pretended: HashMap::new() };
        (0..5)
            .map(|n| run(database, &mut memory, job(&mix, seed * 15 + thread as u64 * 5 + n)))
            .collect()
    });
    check(database, Shared::new(&fresh).into_plain(), words, done)
}

#[test]
fn the_conditions_hold_after_interleaved_transactions() {
    for seed in 0..12 {
        interleaved(seed, |_, _| false, crowded)
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

/// The first job from `from` on that is such a transaction.
fn next(mix: &TpccMix, from: u64, is: fn(&Transaction) -> bool) -> Transaction {
    (from * 1000..).map(|job| crowded(mix, job)).find(is).expect("there is no end of jobs")
}

/// How many of a few interleavings of such transactions, with some latches broken, are noticed.
fn noticed(broken: fn(&Database, Addr) -> bool, is: fn(&Transaction) -> bool) -> usize {
    let job = |mix: &TpccMix, n| next(mix, n, is);
    (0..4).filter(|&seed| interleaved(seed, broken, job).is_err()).count()
}

fn is_new_order(transaction: &Transaction) -> bool {
    matches!(transaction, Transaction::NewOrder(_))
}

fn is_payment(transaction: &Transaction) -> bool {
    matches!(transaction, Transaction::Payment(_))
}

fn is_district(database: &Database, at: Addr) -> bool {
    districts(database).any(|(w_id, d_id)| database.district_address(w_id, d_id) == at)
}

#[test]
fn orders_without_the_latch_of_the_district_are_caught() {
    assert_eq!(noticed(|_, _| false, is_new_order), 0);
    assert!(noticed(is_district, is_new_order) >= 3);
}

#[test]
fn orders_without_the_latches_of_stock_are_caught() {
    let is_stock = |database: &Database, at: Addr| {
        (1..=database.scale().items).any(|i_id| database.stock_address(1, i_id) == at)
    };
    assert!(noticed(is_stock, is_new_order) >= 1);
}

#[test]
fn payments_without_the_latch_of_the_warehouse_are_caught() {
    assert_eq!(noticed(|_, _| false, is_payment), 0);
    let is_warehouse = |database: &Database, at: Addr| database.warehouse_address(1) == at;
    assert!(noticed(is_warehouse, is_payment) >= 1);
    // The only warehouse's latch alone keeps payments apart; with it goes all.
    let is_any = |_: &Database, _: Addr| true;
    assert!(noticed(is_any, is_payment) >= 3);
}

#[test]
fn deliveries_without_the_latch_of_the_district_are_caught() {
    let is_delivery = |transaction: &Transaction| matches!(transaction, Transaction::Delivery(_));
    assert_eq!(noticed(|_, _| false, is_delivery), 0);
    assert!(noticed(is_district, is_delivery) >= 3);
}

#[test]
fn the_conditions_hold_after_raced_transactions() {
    let mix = smallest();
    let database = mix.database();
    let fresh = image(&mix);
    let words = Shared::new(&fresh);
    // So few that no undelivered order leaves its ring, which has room for 20 more.
    let done = race(&words, |thread, memory| {
        let jobs = (0..40).map(|n| 2 * n + thread as u64);
        jobs.map(|job| run(database, memory, crowded(&mix, job))).collect()
    });
    check(database, Shared::new(&fresh).into_plain(), words, done).unwrap();
    let words = Shared::new(&fresh);
    race(&words, |thread, memory| {
        for job in 0..4000 {
            run(database, memory, crowded(&mix, 2 * job + thread as u64)).unwrap();
        }
    });
    database.check_consistency(&mut words.into_plain()).unwrap();
}
