//! New-Order: a customer orders 5 to 15 items (TPC-C rev. 5.11, clause 2.4).

use bytemuck::Zeroable;
use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES};
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::database::{Database, line_address};
use super::input::{LINES_MAX, NewOrder, Ordered, Who};
use super::rows::{
    District, Item, ORIGINAL, Order, OrderLine, Stock, StockData, StockDistricts, left_in_stock,
};
use crate::Corrupt;
use crate::commit::commit;
use crate::keys::share;

const LINE: u64 = LINE_BYTES as u64;

/// The result of a committed New-Order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// The order's number in its district.
    pub o_id: u64,
    /// The price with taxes, less the discount.
    pub total_cents: i64,
    /// The number of items that both ITEM and STOCK mark as branded.
    pub branded: u32,
}

/// The constant data for a line of the order.
#[derive(Debug, Clone, Copy)]
struct Goods {
    /// The address of the STOCK row.
    stock: Addr,
    price_cents: u32,
    dist_info: [u8; 24],
    branded: bool,
}

/// The data of an order that do not depend on rows under latches.
struct Prepared {
    goods: SmallVec<[Goods; LINES_MAX]>,
    /// W_TAX and D_TAX.
    taxes: [u32; 2],
}

impl Database {
    /// Runs a New-Order in one atomic step and computes `work` instructions between its accesses.
    /// Returns `None` if it was rolled back because an item does not exist. This is found before
    /// the first store, so nothing has changed.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn new_order<M: FullMemory>(
        &self,
        memory: &mut M,
        order: &NewOrder,
        work: u64,
    ) -> Result<Option<Placed>, Corrupt> {
        let Some(prepared) = self.prepare(memory, order, work)? else {
            return Ok(None);
        };
        let district = self.layout.district(order.w_id, order.d_id);
        let stocks = each_once(prepared.goods.iter().map(|goods| goods.stock));
        let latches: SmallVec<[Addr; LINES_MAX + 1]> =
            std::iter::once(district).chain(stocks.iter().copied()).collect();
        commit(memory, |memory| {
            latch::write_all(memory, &latches, |memory| {
                self.place(memory, order, &prepared, &stocks).map(Some)
            })
        })
    }

    /// Reads the constant rows and touches the others. `None` if an item does not exist.
    fn prepare<M: FullMemory>(
        &self,
        memory: &mut M,
        order: &NewOrder,
        work: u64,
    ) -> Result<Option<Prepared>, Corrupt> {
        let &NewOrder { w_id, d_id, c_id, ref lines, .. } = order;
        let parts = lines.len() as u64 + 2;
        self.announce(memory, order);
        memory.work(share(work, 0, parts));
        let warehouse = self.read_office(memory, self.layout.warehouse(w_id))?;
        let district = self.read_office(memory, self.layout.district(w_id, d_id))?;
        let next_o_id = self.district(memory, w_id, d_id)?.next_o_id;
        // The next order in the ring is the oldest, which leaves.
        for o_id in [next_o_id, next_o_id + 1] {
            let _order: u64 = memory.load(self.layout.order(w_id, d_id, o_id));
            let _new_order: u64 = memory.load(self.layout.new_order(w_id, d_id, o_id));
        }
        memory.work(share(work, 1, parts));
        let _customer: u64 = memory.load(self.layout.customer(w_id, d_id, c_id));
        let _last_order: u64 = memory.load(self.layout.last_order(w_id, d_id, c_id));
        let mut goods = SmallVec::new();
        for (part, &line) in (2..).zip(lines) {
            memory.work(share(work, part, parts));
            match self.read_goods(memory, d_id, line)? {
                Some(read) => goods.push(read),
                None => return Ok(None),
            }
        }
        Ok(Some(Prepared { goods, taxes: [warehouse.tax, district.tax] }))
    }

    /// Hints at the rows that this order will read.
    fn announce<M: FullMemory>(&self, memory: &mut M, order: &NewOrder) {
        let &NewOrder { w_id, d_id, c_id, ref lines, .. } = order;
        let own = [
            self.layout.district(w_id, d_id),
            self.layout.customer(w_id, d_id, c_id),
            self.layout.last_order(w_id, d_id, c_id),
        ];
        let sold = lines.iter().filter(|line| line.i_id <= self.scale().items);
        let goods = sold.flat_map(|line| {
            [self.layout.item(line.i_id), self.layout.stock(line.supply_w_id, line.i_id)]
        });
        own.into_iter().chain(goods).for_each(|at| memory.hint(Hint::WillNeed(at)));
    }

    /// The data for `line`; `None` if the item does not exist.
    fn read_goods<M: FullMemory>(
        &self,
        memory: &mut M,
        d_id: u8,
        line: Ordered,
    ) -> Result<Option<Goods>, Corrupt> {
        if line.i_id > self.scale().items {
            return Ok(None);
        }
        let item: Item = self.checksums.read_row(memory, self.layout.item(line.i_id))?;
        let stock = self.layout.stock(line.supply_w_id, line.i_id);
        let _latch: u64 = memory.load(stock);
        let data: StockData = self.checksums.read_row(memory, stock + LINE)?;
        let pair = u64::from(d_id - 1) / 2;
        let districts: StockDistricts =
            self.checksums.read_row(memory, stock + (2 + pair) * LINE)?;
        Ok(Some(Goods {
            stock,
            price_cents: item.price_cents,
            dist_info: districts.dist[usize::from(d_id - 1) % 2],
            branded: is_original(&item.data) && is_original(&data.data),
        }))
    }

    /// The transaction itself, with all latches held.
    fn place<M: FullMemory>(
        &self,
        memory: &mut M,
        order: &NewOrder,
        prepared: &Prepared,
        stocks: &[Addr],
    ) -> Result<Placed, Corrupt> {
        let &NewOrder { w_id, d_id, c_id, ref lines, .. } = order;
        let at = self.layout.district(w_id, d_id);
        let district: District = self.checksums.read_latched(memory, at)?;
        let customer = self.read_customer(memory, (w_id, d_id), c_id, Who::Id(c_id))?;
        let o_id = district.next_o_id;
        let (district, expired) = self.retire(memory, (w_id, d_id), district)?;
        let mut sold: SmallVec<[Stock; LINES_MAX]> = SmallVec::new();
        for &stock in stocks {
            sold.push(self.checksums.read_latched(memory, stock)?);
        }
        for (line, goods) in lines.iter().zip(&prepared.goods) {
            let index = stocks.binary_search(&goods.stock).expect("every line has its stock row");
            sell(&mut sold[index], line, w_id);
        }

        // All rows are read and valid. From here on there are only stores.
        for (&at, stock) in stocks.iter().zip(sold) {
            self.checksums.write_latched(memory, at, stock);
        }
        let total_cents = self.write_order(memory, order, o_id, &prepared.goods);
        self.checksums.write_number(memory, self.layout.new_order(w_id, d_id, o_id), o_id);
        self.checksums.write_number(memory, self.layout.last_order(w_id, d_id, c_id), o_id);
        self.checksums.write_latched(memory, at, District { next_o_id: o_id + 1, ..district });
        if let Some(expired) = expired {
            self.checksums.write_number(memory, self.layout.new_order(w_id, d_id, expired), 0);
        }
        Ok(Placed {
            o_id,
            total_cents: customer.charged(total_cents, prepared.taxes),
            branded: prepared.goods.iter().map(|goods| u32::from(goods.branded)).sum(),
        })
    }

    /// Removes the oldest order from the ring, if the next order needs its slot. Returns the
    /// district without it and, if it was not delivered, its number.
    fn retire<M: FullMemory>(
        &self,
        memory: &mut M,
        ids: (u32, u8),
        mut district: District,
    ) -> Result<(District, Option<u64>), Corrupt> {
        let leaving = match district.next_o_id.checked_sub(self.orders_kept()) {
            None | Some(0) => return Ok((district, None)),
            Some(leaving) => self.read_order(memory, ids, leaving)?,
        };
        district.retired_delivered_cents += leaving.delivered_cents;
        if district.oldest_undelivered > leaving.o_id {
            return Ok((district, None));
        }
        district.oldest_undelivered = leaving.o_id + 1;
        Ok((district, Some(leaving.o_id)))
    }

    /// Writes the ORDER and ORDER-LINE rows. Returns the sum of OL_AMOUNT.
    fn write_order<M: FullMemory>(
        &self,
        memory: &mut M,
        order: &NewOrder,
        o_id: u64,
        goods: &[Goods],
    ) -> i64 {
        let &NewOrder { w_id, d_id, c_id, ref lines, entry_d } = order;
        let row = Order {
            o_id,
            c_id,
            w_id,
            entry_d,
            d_id,
            ol_cnt: lines.len() as u8,
            all_local: u8::from(lines.iter().all(|line| line.supply_w_id == w_id)),
            ..Order::zeroed()
        };
        let slot = self.layout.order(w_id, d_id, o_id);
        let mut total_cents = 0;
        for (number, (line, goods)) in (1..).zip(lines.iter().zip(goods)) {
            let amount_cents = u32::from(line.quantity) * goods.price_cents;
            total_cents += i64::from(amount_cents);
            let line = OrderLine {
                o_id,
                i_id: line.i_id,
                supply_w_id: line.supply_w_id,
                w_id,
                delivery_d: 0,
                amount_cents,
                d_id,
                number,
                quantity: line.quantity,
                spare: 0,
                dist_info: goods.dist_info,
            };
            self.checksums.write_row(memory, line_address(slot, number), &line);
        }
        self.checksums.write_row(memory, slot, &row);
        total_cents
    }
}

/// `addresses`, sorted and without duplicates.
fn each_once(addresses: impl Iterator<Item = Addr>) -> SmallVec<[Addr; LINES_MAX]> {
    let mut addresses: SmallVec<[Addr; LINES_MAX]> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// Takes the goods of `line` from the stock.
fn sell(stock: &mut Stock, line: &Ordered, home_w_id: u32) {
    let quantity = u32::from(line.quantity);
    stock.quantity = left_in_stock(stock.quantity, quantity);
    stock.ytd += u64::from(quantity);
    stock.order_cnt = stock.order_cnt.wrapping_add(1);
    let remote = u32::from(line.supply_w_id != home_w_id);
    stock.remote_cnt = stock.remote_cnt.wrapping_add(remote);
}

fn is_original(data: &[u8; 50]) -> bool {
    data.windows(ORIGINAL.len()).any(|window| window == ORIGINAL)
}
