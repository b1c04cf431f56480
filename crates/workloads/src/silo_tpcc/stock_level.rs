//! Stock-Level (TPC-C rev. 5.11, clause 2.8): the number of recently sold items that are low in
//! stock.

use ebbtide_core::FullMemory;

use super::database::{Database, expect};
use super::keys;
use crate::Corrupt;
use crate::keys::share;
use crate::silo::Isolation;
use crate::tpcc::input::StockLevel;

/// The number of orders that it reads.
const RECENT_ORDERS: u64 = 20;

impl Database {
    /// Runs a Stock-Level as job `job` and computes `work` instructions between its accesses.
    /// Returns how many of the items in the district's last 20 orders are below the threshold.
    ///
    /// It reads up to 500 rows, some of which other jobs change continuously. Clause 3.4.1 requires
    /// only that it reads committed rows, so it runs at that isolation level.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn stock_level<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        input: &StockLevel,
        work: u64,
    ) -> Result<usize, Corrupt> {
        let &StockLevel { w_id, d_id, threshold } = input;
        let done = self.silo.run(memory, job, Isolation::ReadCommitted, |transaction| {
            let key = keys::district(w_id, d_id);
            let next = expect(transaction, &self.districts.table, key)?.row.next_o_id;
            let first = keys::line(w_id, d_id, next.saturating_sub(RECENT_ORDERS), 0);
            let all = first..=keys::line(w_id, d_id, next - 1, keys::LINES_MAX);
            let limit = (RECENT_ORDERS * keys::LINES_MAX) as usize;
            let lines = transaction.scan(&self.order_lines.table, all, limit)?;

            let mut items: Vec<u32> = lines.iter().map(|line| line.row.i_id).collect();
            items.sort_unstable();
            items.dedup();
            let mut low = 0;
            if items.is_empty() {
                transaction.memory().work(work);
            }
            // The lines before lie beside each other and seldom miss; a stock often does.
            for (part, i_id) in (0..).zip(&items) {
                transaction.memory().work(share(work, part, items.len() as u64));
                let stock = expect(transaction, &self.stocks.table, keys::stock(w_id, *i_id))?;
                low += usize::from(stock.row.quantity < threshold);
            }
            Ok(low)
        })?;
        let done = done.ok_or_else(|| Corrupt("a Stock-Level was rolled back".to_string()))?;
        Ok(done.value)
    }
}
