//! TPC-C against a plain model of it, one transaction after the other; damage is noticed.

use std::collections::{HashMap, HashSet};

use ebbtide_core::PageId;
use ebbtide_testbed::Plain;
use ebbtide_workloads::tpcc::input::{Delivery, NewOrder, OrderStatus, Payment, StockLevel};
use ebbtide_workloads::tpcc::input::{Transaction, Who};
use ebbtide_workloads::tpcc::rows::last_name;
use ebbtide_workloads::tpcc::{DISTRICTS, Database};
use ebbtide_workloads::{Named, Observed, Shape, Tpcc, TpccMix, Work, Workload};

use crate::common::{image, plain};

fn mix(dataset_bytes: u64) -> TpccMix {
    TpccMix::with_shape(&Shape { dataset_bytes, ..Shape::default() })
}

/// An order as the model keeps it: customer, items with quantities, and whether it is delivered.
struct OrderModel {
    c_id: u32,
    lines: Vec<(u32, u8, i64)>,
    delivered: bool,
}

/// The only warehouse as plain maps. The rings begin with orders that it does not know.
struct Model<'a> {
    database: &'a Database,
    next_o_id: HashMap<u8, u64>,
    undelivered: HashMap<u8, u64>,
    orders: HashMap<(u8, u64), OrderModel>,
    last_order: HashMap<(u8, u32), u64>,
    balance_cents: HashMap<(u8, u32), i64>,
    names: HashMap<(u8, u32), [u8; 16]>,
    quantity: HashMap<u32, u32>,
    price_cents: HashMap<u32, i64>,
}

impl<'a> Model<'a> {
    fn new(database: &'a Database, memory: &mut Plain) -> Model<'a> {
        let mut model = Model {
            database,
            next_o_id: HashMap::new(),
            undelivered: HashMap::new(),
            orders: HashMap::new(),
            last_order: HashMap::new(),
            balance_cents: HashMap::new(),
            names: HashMap::new(),
            quantity: HashMap::new(),
            price_cents: HashMap::new(),
        };
        for d_id in 1..=DISTRICTS {
            let district = database.district(memory, 1, d_id).unwrap();
            model.next_o_id.insert(d_id, district.next_o_id);
            model.undelivered.insert(d_id, district.oldest_undelivered);
            for c_id in 1..=database.scale().customers {
                let customer = database.customer(memory, 1, d_id, c_id).unwrap();
                model.balance_cents.insert((d_id, c_id), customer.balance_cents);
                model.names.insert((d_id, c_id), customer.last);
            }
        }
        for i_id in 1..=database.scale().items {
            model.quantity.insert(i_id, database.stock(memory, 1, i_id).unwrap().quantity);
        }
        model
    }

    /// The oldest order that a district keeps.
    fn oldest(&self, d_id: u8) -> u64 {
        self.next_o_id[&d_id].saturating_sub(self.database.orders_kept()).max(1)
    }

    fn new_order(&mut self, memory: &mut Plain, order: &NewOrder) {
        let placed = self.database.new_order(memory, order, 0).unwrap();
        let exists = |i_id| i_id <= self.database.scale().items;
        if !order.lines.iter().all(|line| exists(line.i_id)) {
            assert_eq!(placed, None);
            return;
        }
        let &NewOrder { d_id, c_id, .. } = order;
        let o_id = placed.expect("all items exist").o_id;
        assert_eq!(o_id, self.next_o_id[&d_id]);
        for line in &order.lines {
            let stock = self.quantity.get_mut(&line.i_id).unwrap();
            let after = i64::from(*stock) - i64::from(line.quantity);
            *stock = if after < 10 { after + 91 } else { after } as u32;
        }
        self.next_o_id.insert(d_id, o_id + 1);
        let undelivered = self.undelivered[&d_id].max(self.oldest(d_id));
        self.undelivered.insert(d_id, undelivered);
        self.last_order.insert((d_id, c_id), o_id);
        // The prices are learned from the rows.
        let status = OrderStatus { w_id: 1, d_id, who: Who::Id(c_id) };
        let (_, rows) = self.database.order_status(memory, &status, 0).unwrap().order.unwrap();
        let mut lines = Vec::new();
        for (line, row) in order.lines.iter().zip(rows) {
            let price = i64::from(row.amount_cents) / i64::from(line.quantity);
            assert_eq!(*self.price_cents.entry(line.i_id).or_insert(price), price);
            lines.push((line.i_id, line.quantity, i64::from(row.amount_cents)));
        }
        self.orders.insert((d_id, o_id), OrderModel { c_id, lines, delivered: false });
    }

    fn payment(&mut self, memory: &mut Plain, payment: &Payment) {
        let paid = self.database.payment(memory, payment, 0).unwrap();
        self.assert_meant(payment.c_d_id, payment.who, paid.c_id);
        let balance = self.balance_cents.get_mut(&(payment.c_d_id, paid.c_id)).unwrap();
        *balance -= i64::from(payment.amount_cents);
        assert_eq!(paid.balance_cents, *balance);
    }

    fn assert_meant(&self, d_id: u8, who: Who, c_id: u32) {
        match who {
            Who::Id(id) => assert_eq!(c_id, id),
            Who::Name(name) => assert_eq!(self.names[&(d_id, c_id)], last_name(name)),
        }
    }

    fn order_status(&mut self, memory: &mut Plain, input: &OrderStatus) {
        let status = self.database.order_status(memory, input, 0).unwrap();
        let (d_id, c_id) = (input.d_id, status.customer.c_id);
        self.assert_meant(d_id, input.who, c_id);
        assert_eq!(status.customer.balance_cents, self.balance_cents[&(d_id, c_id)]);
        let Some(&o_id) = self.last_order.get(&(d_id, c_id)) else { return };
        let found = status.order.map(|(order, lines)| {
            assert_eq!(order.o_id, o_id);
            lines.iter().map(|l| (l.i_id, l.quantity, l.delivery_d != 0)).collect::<Vec<_>>()
        });
        let kept = o_id >= self.oldest(d_id);
        let expected = kept.then(|| {
            let OrderModel { lines, delivered, .. } = &self.orders[&(d_id, o_id)];
            lines.iter().map(|&(i_id, quantity, _)| (i_id, quantity, *delivered)).collect()
        });
        assert_eq!(found, expected);
    }

    fn delivery(&mut self, memory: &mut Plain, delivery: &Delivery) {
        let told = self.database.delivery(memory, delivery, 0).unwrap();
        for (d_id, told) in (1..).zip(told) {
            let o_id = self.undelivered[&d_id];
            let there = o_id < self.next_o_id[&d_id];
            assert_eq!(told, there.then_some(o_id));
            if !there {
                continue;
            }
            self.undelivered.insert(d_id, o_id + 1);
            match self.orders.get_mut(&(d_id, o_id)) {
                Some(order) => {
                    order.delivered = true;
                    let sum: i64 = order.lines.iter().map(|&(_, _, amount)| amount).sum();
                    *self.balance_cents.get_mut(&(d_id, order.c_id)).unwrap() += sum;
                }
                None => self.learn_balances(memory, d_id),
            }
        }
    }

    /// One of the first orders was delivered: only memory knows whose it was.
    fn learn_balances(&mut self, memory: &mut Plain, d_id: u8) {
        for c_id in 1..=self.database.scale().customers {
            let customer = self.database.customer(memory, 1, d_id, c_id).unwrap();
            self.balance_cents.insert((d_id, c_id), customer.balance_cents);
        }
    }

    fn stock_level(&mut self, memory: &mut Plain, level: &StockLevel) {
        let told = self.database.stock_level(memory, level, 0).unwrap();
        let d_id = level.d_id;
        let recent =
            self.next_o_id[&d_id].saturating_sub(20).max(self.oldest(d_id))..self.next_o_id[&d_id];
        let known: Option<Vec<&OrderModel>> =
            recent.map(|o_id| self.orders.get(&(d_id, o_id))).collect();
        let Some(orders) = known else { return };
        let items: HashSet<u32> =
            orders.iter().flat_map(|order| &order.lines).map(|line| line.0).collect();
        let low = items.iter().filter(|i_id| self.quantity[i_id] < level.threshold).count();
        assert_eq!(told, low as u32);
    }
}

#[test]
fn transactions_do_what_a_plain_model_does() {
    for dataset_bytes in [TpccMix::MIN_BYTES, 2 << 20] {
        let mix = mix(dataset_bytes);
        let database = mix.database();
        let mut memory = plain(&mix);
        let mut model = Model::new(database, &mut memory);
        for job in 0..4000 {
            match &mix.job(job) {
                Transaction::NewOrder(input) => model.new_order(&mut memory, input),
                Transaction::Payment(input) => model.payment(&mut memory, input),
                Transaction::OrderStatus(input) => model.order_status(&mut memory, input),
                Transaction::Delivery(input) => model.delivery(&mut memory, input),
                Transaction::StockLevel(input) => model.stock_level(&mut memory, input),
            }
        }
        database.check_consistency(&mut memory).unwrap();
    }
}

#[test]
fn the_image_is_consistent() {
    for dataset_bytes in [TpccMix::MIN_BYTES, 5_000_000, 30_000_000] {
        let mix = mix(dataset_bytes);
        mix.database().check_consistency(&mut plain(&mix)).unwrap();
    }
}

#[test]
fn orders_without_deliveries_stay_consistent_as_their_rings_wrap() {
    let shape = Shape { dataset_bytes: Tpcc::MIN_BYTES, ..Shape::default() };
    let tpcc = Tpcc::with_shape(&shape);
    let mut memory = plain(&tpcc);
    for job in 0..1000 {
        tpcc.run(job, &mut memory).unwrap();
    }
    let database = tpcc.database();
    database.check_consistency(&mut memory).unwrap();
    for d_id in 1..=DISTRICTS {
        let district = database.district(&mut memory, 1, d_id).unwrap();
        assert!(district.next_o_id > 2 * database.orders_kept(), "the ring has not wrapped");
        assert_eq!(district.oldest_undelivered, database.orders_of(&district).start);
    }
}

#[test]
fn a_rolled_back_order_leaves_nothing() {
    let shape = Shape { dataset_bytes: Tpcc::MIN_BYTES, ..Shape::default() };
    let tpcc = Tpcc::with_shape(&shape);
    let mut memory = plain(&tpcc);
    let items = tpcc.database().scale().items;
    let unknown = |order: &NewOrder| order.lines.last().unwrap().i_id > items;
    let mut rolled_back = 0;
    for job in 0..1000 {
        let order = tpcc.job(job);
        let before = unknown(&order).then(|| memory.words.clone());
        let placed = tpcc.database().new_order(&mut memory, &order, 0).unwrap();
        assert_eq!(placed.is_none(), before.is_some());
        if let Some(before) = before {
            assert_eq!(memory.words, before);
            rolled_back += 1;
        }
    }
    assert!(rolled_back > 0);
}

#[test]
fn the_conditions_notice_a_row_that_came_back_old() {
    // Any page that jobs changed is put back as it was at first.
    let mix = mix(TpccMix::MIN_BYTES);
    let fresh = image(&mix);
    let mut memory = plain(&mix);
    (0..300).for_each(|job| mix.run(job, &mut memory).unwrap());
    let (mut changed, mut noticed) = (0, 0);
    for page in 0..fresh.len() / 512 {
        let words = page * 512..(page + 1) * 512;
        if memory.words[words.clone()] != fresh[words.clone()] {
            let mut old = Plain::new(memory.words.clone());
            old.words[words.clone()].copy_from_slice(&fresh[words]);
            changed += 1;
            noticed += u32::from(mix.database().check_consistency(&mut old).is_err());
        }
    }
    // Stock and the index of last orders enter no condition: 13 pages of the 88.
    assert!(changed > 60 && changed - noticed <= 13, "{noticed} of {changed}");
}

/// Whether `jobs` jobs, or the check of all tables after them, notice that bit 17 of `word` has
/// changed.
fn is_noticed(mix: &TpccMix, clean: &[u64], word: usize, jobs: u64) -> bool {
    let mut memory = Plain::new(clean.to_vec());
    memory.words[word] ^= 1 << 17;
    (0..jobs).any(|job| mix.run(job, &mut memory).is_err())
        || mix.database().check_consistency(&mut memory).is_err()
}

#[test]
fn any_changed_word_of_districts_warehouses_and_stock_is_noticed() {
    let mix = mix(TpccMix::MIN_BYTES);
    let (database, clean) = (mix.database(), image(&mix));
    let rows = [
        (database.district_address(1, 1), 3),
        (database.district_address(1, 9), 3),
        (database.warehouse_address(1), 3),
        (database.stock_address(1, 7), 7),
        (database.stock_address(1, 100), 7),
    ];
    for (at, lines) in rows {
        let first = at.0 as usize / 8;
        // The first word is the latch.
        for word in first + 1..first + lines * 8 {
            let noticed = is_noticed(&mix, &clean, word, 20_000);
            assert!(noticed, "word {} of the row at {at:?}", word - first);
        }
    }
}

#[test]
fn a_changed_word_of_any_table_is_mostly_noticed() {
    // Not noticed: latches, what lies between rows, slots of rings without a line, and what no job
    // reads: C_DATA of good customers and their addresses, unless looked up by name.
    let mix = mix(TpccMix::MIN_BYTES);
    let mut memory = plain(&mix);
    (0..400).for_each(|job| mix.run(job, &mut memory).unwrap());
    let words: Vec<usize> = (0..memory.words.len()).filter(|word| word % 331 == 0).collect();
    let noticed = words.iter().filter(|&&word| is_noticed(&mix, &memory.words, word, 500)).count();
    assert!(noticed * 5 > words.len() * 2, "{noticed} of {}", words.len());
}

#[test]
fn no_page_is_first_touched_with_a_latch_held() {
    let mix = mix(8 << 20);
    let mut memory = plain(&mix);
    for job in 0..3000 {
        let transaction = mix.job(job);
        let mut touched = HashSet::new();
        let mut late = HashSet::new();
        let mut latched = false;
        let mut observed = Observed::new(&mut memory, Work::Skipped, |page: PageId, write| {
            // The first write of all takes a latch.
            latched |= write;
            if touched.insert(page) && latched {
                late.insert(page);
            }
        });
        mix.database().run(&mut observed, &transaction, 0).unwrap();
        if matches!(transaction, Transaction::NewOrder(_) | Transaction::Payment(_)) {
            assert!(late.is_empty(), "{late:?} in {transaction:?}");
        }
    }
}
