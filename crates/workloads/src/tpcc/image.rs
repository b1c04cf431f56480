//! The initial contents of the tables (TPC-C rev. 5.11, clause 4.3.3).

use crate::PageBytes;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};
use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};

use super::columns::{FIRST_PAYMENT_CENTS, Random, Texts};
use super::database::Database;
use super::input::{LINES_MAX, LOADED};
use super::layout::Table;
use super::rows::{
    CustomerData, District, History, Item, Order, OrderLine, Stock, StockData, StockDistricts,
    Warehouse, last_name,
};
use super::scale::{DISTRICTS, district_ids};
use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, clear_records};

/// The lines of one page.
type Lines = [Line; PAGE_BYTES / LINE_BYTES];

/// A page whose rows are being written.
struct Page<'a> {
    database: &'a Database,
    first: Addr,
    lines: &'a mut Lines,
}

impl Page<'_> {
    /// Writes the part of a row that shares the line at `at` with a latch.
    fn put_latched<T: Pod>(&mut self, at: Addr, part: T) {
        self.lines[(at - self.first) as usize / LINE_BYTES] =
            self.database.checksums.line(at, part);
    }

    /// Writes a row, or a part of one, from the line at `at` on.
    fn put<T: Pod>(&mut self, at: Addr, row: &T) {
        for (at, line) in self.database.checksums.row_lines(at, row) {
            self.lines[(at - self.first) as usize / LINE_BYTES] = line;
        }
    }
}

impl Database {
    /// Writes the initial rows of `page` that have a line in `lines` into `out`, and returns which
    /// lines it wrote.
    pub(super) fn image(
        &self,
        page: PageId,
        lines: Range<usize>,
        out: &mut PageBytes,
    ) -> Range<usize> {
        let rows = self.layout.rows_of(page);
        let table = rows.table;
        let (slots, written) = clear_records(out, lines, table.bytes() as usize / LINE_BYTES);
        let first = page.start();
        let mut page = Page { database: self, first, lines: bytemuck::cast_mut(out) };
        for slot in slots.start as u64..slots.end as u64 {
            if let Some(row) = rows.row(slot) {
                let at = first + slot * table.bytes();
                self.image_of_row(&mut page, at, table, row);
            }
        }
        written
    }

    fn image_of_row(&self, page: &mut Page<'_>, at: Addr, table: Table, row: u64) {
        let random = &mut random(mix(mix(self.seed ^ mix(table as u64)) ^ row));
        match table {
            Table::District => self.put_district(page, at, row, random),
            Table::Warehouse => self.put_warehouse(page, at, row, random),
            Table::Stock => self.put_stock(page, at, row, random),
            Table::Customer => self.put_customer(page, at, row, random),
            Table::Item => self.put_item(page, at, row, random),
            Table::Order => self.put_order(page, at, row),
            Table::NewOrders => self.put_words(page, at, row, Database::new_order_at_first),
            Table::LastOrders => self.put_words(page, at, row, Database::last_order_at_first),
            Table::History => self.put_history(page, at, row, random),
        }
    }

    fn customers(&self) -> u64 {
        u64::from(self.scale().customers)
    }

    fn put_district(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let district = District {
            next_o_id: self.customers() + 1,
            oldest_undelivered: self.scale().delivered_at_first() + 1,
            ytd_cents: self.customers() as i64 * i64::from(FIRST_PAYMENT_CENTS),
            payments: self.customers(),
            retired_history_cents: 0,
            retired_delivered_cents: 0,
        };
        let (w_id, d_id) = district_ids(row);
        page.put_latched(at, district);
        page.put(at + LINE_BYTES as u64, &random.office(w_id, d_id.into()));
    }

    fn put_warehouse(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let districts = i64::from(DISTRICTS) * self.customers() as i64;
        let ytd_cents = districts * i64::from(FIRST_PAYMENT_CENTS);
        page.put_latched(at, Warehouse { ytd_cents, spare: [0; 5] });
        page.put(at + LINE_BYTES as u64, &random.office(row as u32 + 1, 0));
    }

    fn put_stock(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let items = u64::from(self.scale().items);
        let stock = Stock {
            ytd: 0,
            quantity: random.from(10, 100) as u32,
            order_cnt: 0,
            remote_cnt: 0,
            i_id: (row % items) as u32 + 1,
            w_id: (row / items) as u32 + 1,
            spare: [0; 5],
        };
        page.put_latched(at, stock);
        page.put(at + LINE_BYTES as u64, &StockData { data: random.goods(), spare: [0; 6] });
        for pair in 0..u64::from(DISTRICTS) / 2 {
            let dist = [random.letters(), random.letters()];
            page.put(at + (2 + pair) * LINE_BYTES as u64, &StockDistricts { dist, spare: 0 });
        }
    }

    fn put_customer(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let (w_id, d_id) = district_ids(row / self.customers());
        let c_id = (row % self.customers()) as u32 + 1;
        let last = last_name(self.names.name(c_id));
        let (customer, info) = random.customer((w_id, d_id), c_id, last);
        page.put(at, &customer);
        page.put(at + LINE_BYTES as u64, &info);
        let data = CustomerData { data: random.letters(), spare: [0; 4] };
        page.put(at + 3 * LINE_BYTES as u64, &data);
    }

    fn put_item(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let item = Item {
            i_id: row as u32 + 1,
            im_id: random.from(1, 10_000) as u32,
            price_cents: random.from(100, 10_000) as u32,
            name: random.letters(),
            data: random.goods(),
            spare: [0; 26],
        };
        page.put(at, &item);
    }

    /// A slot of a ring: an initial order, or none.
    fn put_order(&self, page: &mut Page<'_>, at: Addr, row: u64) {
        let (w_id, d_id) = district_ids(row / self.layout.size.ring);
        let order = self.order_at_first(w_id, d_id, row % self.layout.size.ring);
        page.put(at, &order);
        for number in 1..=LINES_MAX as u8 {
            let line = match number <= order.ol_cnt {
                true => self.line_at_first(&order, number),
                false => OrderLine::zeroed(),
            };
            page.put(at + u64::from(number) * LINE_BYTES as u64, &line);
        }
    }

    /// Returns initial order `o_id` of a district; zeros if there is no such order. Each customer
    /// of a district has one initial order.
    fn order_at_first(&self, w_id: u32, d_id: u8, o_id: u64) -> Order {
        if !(1..=self.customers()).contains(&o_id) {
            return Order::zeroed();
        }
        let random = &mut self.random_of_order(w_id, d_id, o_id);
        let delivered = o_id <= self.scale().delivered_at_first();
        Order {
            o_id,
            delivered_cents: 0,
            c_id: self.buyers(w_id, d_id).apply(o_id - 1) as u32 + 1,
            w_id,
            entry_d: LOADED,
            d_id,
            carrier_id: if delivered { random.from(1, 10) as u8 } else { 0 },
            ol_cnt: random.from(5, LINES_MAX as u64) as u8,
            all_local: 1,
            spare: [0; 3],
        }
    }

    fn line_at_first(&self, order: &Order, number: u8) -> OrderLine {
        let seed = self.random_of_order(order.w_id, order.d_id, order.o_id).next();
        let random = &mut random(mix(seed ^ u64::from(number)));
        let delivered = order.carrier_id != 0;
        OrderLine {
            o_id: order.o_id,
            i_id: random.from(1, self.scale().items.into()) as u32,
            supply_w_id: order.w_id,
            w_id: order.w_id,
            delivery_d: if delivered { LOADED } else { 0 },
            amount_cents: if delivered { 0 } else { random.from(1, 999_999) as u32 },
            d_id: order.d_id,
            number,
            quantity: 5,
            spare: 0,
            dist_info: random.letters(),
        }
    }

    fn random_of_order(&self, w_id: u32, d_id: u8, o_id: u64) -> Random {
        random(mix(mix(self.seed ^ u64::from(w_id) << 8 ^ u64::from(d_id)) ^ o_id))
    }

    /// The permutation from a district's initial orders to their customers, from 0.
    fn buyers(&self, w_id: u32, d_id: u8) -> Permutation {
        let seed = mix(self.seed.rotate_left(16) ^ u64::from(w_id) << 8 ^ u64::from(d_id));
        Permutation::new(self.customers(), seed)
    }

    /// A line of eight words with an order's number each: word `index` of the table has
    /// `o_id(index)`.
    fn put_words(
        &self,
        page: &mut Page<'_>,
        at: Addr,
        row: u64,
        o_id: impl Fn(&Database, u64) -> u64,
    ) {
        page.lines[(at - page.first) as usize / LINE_BYTES] = std::array::from_fn(|i| {
            self.checksums.number_word(at + i as u64 * 8, o_id(self, row * 8 + i as u64))
        });
    }

    fn new_order_at_first(&self, slot: u64) -> u64 {
        let o_id = slot % self.layout.size.ring;
        let undelivered = self.scale().delivered_at_first() + 1..=self.customers();
        if undelivered.contains(&o_id) { o_id } else { 0 }
    }

    fn last_order_at_first(&self, customer: u64) -> u64 {
        let (w_id, d_id) = district_ids(customer / self.customers());
        self.buyers(w_id, d_id).invert(customer % self.customers()) + 1
    }

    fn put_history(&self, page: &mut Page<'_>, at: Addr, row: u64, random: &mut Random) {
        let (w_id, d_id) = district_ids(row / self.customers());
        let sequence = row % self.customers();
        let history = History {
            sequence,
            c_id: sequence as u32 + 1,
            c_w_id: w_id,
            w_id,
            date: LOADED,
            amount_cents: FIRST_PAYMENT_CENTS,
            c_d_id: d_id,
            d_id,
            spare: [0; 2],
            data: random.letters(),
        };
        page.put(at, &history);
    }
}

fn random(seed: u64) -> Random {
    Random::new(seed, Texts::LettersAndDigits)
}
