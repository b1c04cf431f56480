//! The initial keys, places and rows of each table, computed and not stored (TPC-C rev. 5.11,
//! clause 4.3.3).
//!
//! A table's rows are numbered in the order of their keys; that number is their *rank*.

use bytemuck::Zeroable;

use super::keys;
use super::rows::{
    CustomerRow, DistrictRow, ItemRow, OrderLineRow, OrderRow, Pointer, StockRow, WarehouseRow,
};
use crate::permutation::Permutation;
use crate::silo::Row;
use crate::tpcc::columns::{FIRST_PAYMENT_CENTS, Random, Texts};
use crate::tpcc::input::LOADED;
use crate::tpcc::rows::last_name;
use crate::tpcc::scale::{DISTRICTS, district_ids};
use crate::tpcc::size::Size;
use ebbtide_structures::hash::mix;

/// Lines of every initial order: the mean of the standard's 5 to 15.
const LINES_AT_FIRST: u64 = 10;

/// The parameters that determine the contents of all tables.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub size: Size,
    /// The permutation from a district's initial orders to their customers, both from 0.
    givers: Permutation,
    seed: u64,
}

impl Setup {
    pub fn new(size: Size, seed: u64) -> Setup {
        Setup { size, givers: Permutation::new(size.customers(), mix(seed)), seed }
    }

    /// Random numbers that follow from a row's rank.
    fn random(&self, table: u64, rank: u64) -> Random {
        Random::new(mix(mix(self.seed ^ mix(table)) ^ rank), Texts::Letters)
    }
}

/// The initial contents of a table.
pub(super) trait Contents {
    /// The type of its rows.
    type Row: Row;

    /// The number of initial rows.
    fn keys(size: Size) -> u64;

    /// The number of places for rows.
    fn places(size: Size) -> u64 {
        Self::keys(size)
    }

    /// Returns how many nodes the index may grow by: none if keys do not change.
    fn more_nodes(_size: Size) -> u64 {
        0
    }

    /// The key of a row and the number of its place.
    fn entry(setup: &Setup, rank: u64) -> (u64, u64);

    /// The rank of the row in a place.
    fn rank(_setup: &Setup, place: u64) -> Option<u64> {
        Some(place)
    }

    /// The row.
    fn row(setup: &Setup, rank: u64) -> Self::Row;
}

/// Nodes for `keys` keys that are inserted at one end of each district's range and removed at the
/// other. A node that is split keeps seven of them.
fn nodes_for(keys: u64, size: Size) -> u64 {
    keys / 6 + 4 * size.districts()
}

#[derive(Debug, Clone)]
pub(super) struct Warehouses;

impl Contents for Warehouses {
    type Row = WarehouseRow;

    fn keys(size: Size) -> u64 {
        size.warehouses()
    }

    fn entry(_setup: &Setup, rank: u64) -> (u64, u64) {
        (keys::one(rank as u32 + 1), rank)
    }

    fn row(setup: &Setup, rank: u64) -> WarehouseRow {
        let customers = u64::from(DISTRICTS) * setup.size.customers();
        let office = setup.random(0, rank).office(rank as u32 + 1, 0);
        WarehouseRow { ytd_cents: customers as i64 * i64::from(FIRST_PAYMENT_CENTS), office }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Districts;

impl Contents for Districts {
    type Row = DistrictRow;

    fn keys(size: Size) -> u64 {
        size.districts()
    }

    fn entry(_setup: &Setup, rank: u64) -> (u64, u64) {
        let (w_id, d_id) = district_ids(rank);
        (keys::district(w_id, d_id), rank)
    }

    fn row(setup: &Setup, rank: u64) -> DistrictRow {
        let (w_id, d_id) = district_ids(rank);
        DistrictRow {
            next_o_id: setup.size.customers() + 1,
            ytd_cents: setup.size.customers() as i64 * i64::from(FIRST_PAYMENT_CENTS),
            office: setup.random(1, rank).office(w_id, d_id.into()),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Customers;

impl Contents for Customers {
    type Row = CustomerRow;

    fn keys(size: Size) -> u64 {
        size.districts() * size.customers()
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let (w_id, d_id) = district_ids(rank / setup.size.customers());
        (keys::customer(w_id, d_id, (rank % setup.size.customers()) as u32 + 1), rank)
    }

    fn row(setup: &Setup, rank: u64) -> CustomerRow {
        let random = &mut setup.random(2, rank);
        let (w_id, d_id) = district_ids(rank / setup.size.customers());
        let number = (rank % setup.size.customers()) as u32;
        let last = last_name(number % 1000);
        let (account, info) = random.customer((w_id, d_id), number + 1, last);
        CustomerRow { account, info, data: random.letters() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Items;

impl Contents for Items {
    type Row = ItemRow;

    fn keys(size: Size) -> u64 {
        size.items()
    }

    fn entry(_setup: &Setup, rank: u64) -> (u64, u64) {
        (keys::one(rank as u32 + 1), rank)
    }

    fn row(setup: &Setup, rank: u64) -> ItemRow {
        let random = &mut setup.random(3, rank);
        ItemRow {
            im_id: random.from(1, 10_000) as u32,
            price_cents: random.from(100, 10_000) as u32,
            name: random.letters(),
            data: random.letters(),
            spare: [0; 14],
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Stocks;

impl Contents for Stocks {
    type Row = StockRow;

    fn keys(size: Size) -> u64 {
        size.warehouses() * size.items()
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let items = setup.size.items();
        (keys::stock((rank / items) as u32 + 1, (rank % items) as u32 + 1), rank)
    }

    fn row(setup: &Setup, rank: u64) -> StockRow {
        let random = &mut setup.random(4, rank);
        StockRow {
            quantity: random.from(10, 100) as u32,
            dist: std::array::from_fn(|_| random.letters()),
            data: random.letters(),
            ..StockRow::zeroed()
        }
    }
}

/// The district, and the number from 0, of the initial order of this rank.
fn first_order(setup: &Setup, rank: u64) -> (u64, u64) {
    (rank / setup.size.customers(), rank % setup.size.customers())
}

/// The number of an order's place.
pub(super) fn order_place(size: Size, w_id: u32, d_id: u8, o_id: u64) -> u64 {
    let district = u64::from(w_id - 1) * u64::from(DISTRICTS) + u64::from(d_id - 1);
    district * size.ring + o_id % size.ring
}

/// The district and number of the initial order in a place.
fn first_order_in(size: Size, place: u64) -> Option<(u64, u64)> {
    let (district, o_id) = (place / size.ring, place % size.ring);
    (1..=size.customers()).contains(&o_id).then_some((district, o_id))
}

#[derive(Debug, Clone)]
pub(super) struct Orders;

impl Contents for Orders {
    type Row = OrderRow;

    fn keys(size: Size) -> u64 {
        size.districts() * size.customers()
    }

    fn places(size: Size) -> u64 {
        size.districts() * size.ring
    }

    fn more_nodes(size: Size) -> u64 {
        nodes_for(Orders::places(size), size)
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let (district, number) = first_order(setup, rank);
        let (w_id, d_id) = district_ids(district);
        let place = order_place(setup.size, w_id, d_id, number + 1);
        (keys::order(w_id, d_id, number + 1), place)
    }

    fn rank(setup: &Setup, place: u64) -> Option<u64> {
        let (district, o_id) = first_order_in(setup.size, place)?;
        Some(district * setup.size.customers() + o_id - 1)
    }

    fn row(setup: &Setup, rank: u64) -> OrderRow {
        let (_, number) = first_order(setup, rank);
        let delivered = number < setup.size.scale.delivered_at_first();
        OrderRow {
            c_id: setup.givers.apply(number) as u32 + 1,
            entry_d: LOADED,
            delivery_d: if delivered { LOADED } else { 0 },
            carrier_id: if delivered { (rank % 10) as u8 + 1 } else { 0 },
            ol_cnt: LINES_AT_FIRST as u8,
            all_local: 1,
            spare: 0,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct OrderLines;

impl Contents for OrderLines {
    type Row = OrderLineRow;

    fn keys(size: Size) -> u64 {
        Orders::keys(size) * LINES_AT_FIRST
    }

    fn places(size: Size) -> u64 {
        Orders::places(size) * keys::LINES_MAX
    }

    fn more_nodes(size: Size) -> u64 {
        // Orders have ten lines on average; a few orders may have more.
        nodes_for(Orders::places(size) * (LINES_AT_FIRST + 1), size)
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let (district, order) = first_order(setup, rank / LINES_AT_FIRST);
        let number = rank % LINES_AT_FIRST + 1;
        let (w_id, d_id) = district_ids(district);
        let order_place = order_place(setup.size, w_id, d_id, order + 1);
        (keys::line(w_id, d_id, order + 1, number), line_place(order_place, number))
    }

    fn rank(setup: &Setup, place: u64) -> Option<u64> {
        let order = Orders::rank(setup, place / keys::LINES_MAX)?;
        let line = place % keys::LINES_MAX;
        (line < LINES_AT_FIRST).then_some(order * LINES_AT_FIRST + line)
    }

    fn row(setup: &Setup, rank: u64) -> OrderLineRow {
        let random = &mut setup.random(6, rank);
        let (district, _) = first_order(setup, rank / LINES_AT_FIRST);
        OrderLineRow {
            i_id: random.from(1, setup.size.items()) as u32,
            supply_w_id: district_ids(district).0,
            amount_cents: random.from(1, 999_999) as u32,
            quantity: 5,
            dist_info: random.letters(),
        }
    }
}

/// The place of an order line, from that of its order. `number` is from 1.
pub(super) fn line_place(order_place: u64, number: u64) -> u64 {
    order_place * keys::LINES_MAX + number - 1
}

#[derive(Debug, Clone)]
pub(super) struct NewOrders;

impl Contents for NewOrders {
    type Row = Pointer;

    fn keys(size: Size) -> u64 {
        size.districts() * size.scale.undelivered_at_first()
    }

    fn places(size: Size) -> u64 {
        Orders::places(size)
    }

    fn more_nodes(size: Size) -> u64 {
        Orders::more_nodes(size)
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let (w_id, d_id) = district_ids(rank / setup.size.scale.undelivered_at_first());
        let o_id = NewOrders::row(setup, rank).o_id;
        (keys::order(w_id, d_id, o_id), order_place(setup.size, w_id, d_id, o_id))
    }

    fn rank(setup: &Setup, place: u64) -> Option<u64> {
        let (district, o_id) = first_order_in(setup.size, place)?;
        let number = o_id.checked_sub(setup.size.scale.delivered_at_first() + 1)?;
        Some(district * setup.size.scale.undelivered_at_first() + number)
    }

    fn row(setup: &Setup, rank: u64) -> Pointer {
        let delivered = setup.size.scale.delivered_at_first();
        Pointer { o_id: delivered + 1 + rank % setup.size.scale.undelivered_at_first() }
    }
}

/// The index from customers to their orders.
#[derive(Debug, Clone)]
pub(super) struct CustomerOrders;

impl Contents for CustomerOrders {
    type Row = Pointer;

    fn keys(size: Size) -> u64 {
        Orders::keys(size)
    }

    fn places(size: Size) -> u64 {
        Orders::places(size)
    }

    fn more_nodes(size: Size) -> u64 {
        // Keys are inserted and removed anywhere, so nodes are less full.
        2 * Orders::more_nodes(size)
    }

    fn entry(setup: &Setup, rank: u64) -> (u64, u64) {
        let (district, customer) = first_order(setup, rank);
        let (w_id, d_id) = district_ids(district);
        let o_id = CustomerOrders::row(setup, rank).o_id;
        let key = keys::customer_order(w_id, d_id, customer as u32 + 1, o_id);
        (key, order_place(setup.size, w_id, d_id, o_id))
    }

    fn rank(setup: &Setup, place: u64) -> Option<u64> {
        let (district, o_id) = first_order_in(setup.size, place)?;
        Some(district * setup.size.customers() + setup.givers.apply(o_id - 1))
    }

    fn row(setup: &Setup, rank: u64) -> Pointer {
        let (_, customer) = first_order(setup, rank);
        Pointer { o_id: setup.givers.invert(customer) + 1 }
    }
}
