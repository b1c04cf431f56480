//! Stock-Level: the number of recently sold items that are low in stock (TPC-C rev. 5.11, clause
//! 2.8).

use ebbtide_core::FullMemory;
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::database::Database;
use super::input::{LINES_MAX, StockLevel};
use super::layout::RECENT_ORDERS;
use crate::Corrupt;
use crate::keys::share;

impl Database {
    /// Runs a Stock-Level and computes `work` instructions between its accesses. Returns how many
    /// of the items in the district's last 20 orders are low in its warehouse's stock.
    ///
    /// It reads committed orders and stock rows one by one. The standard does not require that they
    /// are of one moment (clause 2.8.2).
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn stock_level<M: FullMemory>(
        &self,
        memory: &mut M,
        level: &StockLevel,
        work: u64,
    ) -> Result<u32, Corrupt> {
        let &StockLevel { w_id, d_id, threshold } = level;
        let next_o_id = self.district(memory, w_id, d_id)?.next_o_id;
        let mut looked_at: Vec<u32> = Vec::new();
        let mut low = 0;
        for back in 0..RECENT_ORDERS {
            memory.work(share(work, back, RECENT_ORDERS));
            let o_id = next_o_id.saturating_sub(back + 1);
            let items = self.items_of(memory, (w_id, d_id), o_id)?;
            for i_id in items {
                if let Err(place) = looked_at.binary_search(&i_id) {
                    looked_at.insert(place, i_id);
                    low += u32::from(self.stock(memory, w_id, i_id)?.quantity < threshold);
                }
            }
        }
        Ok(low)
    }

    /// The items of an order, read atomically; none if it has left the ring or does not exist.
    fn items_of<M: FullMemory>(
        &self,
        memory: &mut M,
        (w_id, d_id): (u32, u8),
        o_id: u64,
    ) -> Result<SmallVec<[u32; LINES_MAX]>, Corrupt> {
        let at = self.layout.district(w_id, d_id);
        latch::read(memory, at, |memory| {
            let mut items = SmallVec::new();
            if self.orders_of(&self.checksums.read_latched(memory, at)?).contains(&o_id) {
                let order = self.read_order(memory, (w_id, d_id), o_id)?;
                items.extend(self.read_lines(memory, &order)?.iter().map(|line| line.i_id));
            }
            Ok(items)
        })
    }
}
