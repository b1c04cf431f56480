//! Payment: a customer pays (TPC-C rev. 5.11, clause 2.5).

use ebbtide_core::{Addr, FullMemory};
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::database::Database;
use super::input::Payment;
use super::rows::{CustomerData, District, History, Warehouse};
use crate::Corrupt;
use crate::commit::commit;
use crate::keys::share;

/// The result of a Payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paid {
    /// The customer.
    pub c_id: u32,
    /// The customer's new balance.
    pub balance_cents: i64,
}

impl Database {
    /// Runs a Payment in one atomic step and computes `work` instructions between its accesses.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn payment<M: FullMemory>(
        &self,
        memory: &mut M,
        payment: &Payment,
        work: u64,
    ) -> Result<Paid, Corrupt> {
        let &Payment { w_id, d_id, c_w_id, c_d_id, who, .. } = payment;
        memory.work(share(work, 0, 3));
        let warehouse = self.layout.warehouse(w_id);
        let district = self.layout.district(w_id, d_id);
        let names = [warehouse, district].map(|at| self.read_office(memory, at));
        let [warehouse_name, district_name] = names.map(|office| office.map(|o| o.name));
        let mut data = [b' '; 24];
        data[..10].copy_from_slice(&warehouse_name?);
        data[14..].copy_from_slice(&district_name?);
        memory.work(share(work, 1, 3));
        let c_id = self.find(memory, (c_w_id, c_d_id), who)?;
        let _customer: u64 = memory.load(self.layout.customer(c_w_id, c_d_id, c_id));
        memory.work(share(work, 2, 3));
        let payments = self.district(memory, w_id, d_id)?.payments;
        let _history: u64 = memory.load(self.layout.history(w_id, d_id, payments));

        let mut latches: SmallVec<[Addr; 3]> =
            [self.layout.district(c_w_id, c_d_id), district, warehouse].into_iter().collect();
        latches.sort_unstable();
        latches.dedup();
        commit(memory, |memory| {
            latch::write_all(memory, &latches, |memory| self.pay(memory, payment, c_id, data))
        })
    }

    /// The transaction itself, with all latches held. `data` is H_DATA.
    fn pay<M: FullMemory>(
        &self,
        memory: &mut M,
        payment: &Payment,
        c_id: u32,
        data: [u8; 24],
    ) -> Result<Paid, Corrupt> {
        let &Payment { w_id, d_id, c_w_id, c_d_id, who, amount_cents, date } = payment;
        let warehouse_at = self.layout.warehouse(w_id);
        let mut warehouse: Warehouse = self.checksums.read_latched(memory, warehouse_at)?;
        let mut customer = self.read_customer(memory, (c_w_id, c_d_id), c_id, who)?;
        let data_at = self.customer_data_address(c_w_id, c_d_id, c_id);
        let customer_data = match customer.credit {
            [b'B', b'C'] => Some(self.checksums.read_row::<_, CustomerData>(memory, data_at)?),
            _ => None,
        };
        let (mut district, history_at) = self.retire_history(memory, w_id, d_id)?;

        let amount = i64::from(amount_cents);
        customer.pay(amount_cents);
        let sequence = district.payments;
        let history = History {
            sequence,
            c_id,
            c_w_id,
            w_id,
            date,
            amount_cents,
            c_d_id,
            d_id,
            spare: [0; 2],
            data,
        };
        warehouse.ytd_cents += amount;
        district.ytd_cents += amount;
        district.payments += 1;

        // All rows are read and valid. From here on there are only stores.
        self.checksums.write_row(memory, self.layout.customer(c_w_id, c_d_id, c_id), &customer);
        if let Some(mut row) = customer_data {
            customer.note(&mut row.data, payment);
            self.checksums.write_row(memory, data_at, &row);
        }
        self.checksums.write_row(memory, history_at, &history);
        self.checksums.write_latched(memory, warehouse_at, warehouse);
        self.checksums.write_latched(memory, self.layout.district(w_id, d_id), district);
        Ok(Paid { c_id, balance_cents: customer.balance_cents })
    }

    /// The district without its oldest HISTORY row, and the address of that row.
    fn retire_history<M: FullMemory>(
        &self,
        memory: &mut M,
        w_id: u32,
        d_id: u8,
    ) -> Result<(District, Addr), Corrupt> {
        let mut district: District =
            self.checksums.read_latched(memory, self.layout.district(w_id, d_id))?;
        let at = self.layout.history(w_id, d_id, district.payments);
        let oldest: History = self.checksums.read_row(memory, at)?;
        district.retired_history_cents += i64::from(oldest.amount_cents);
        Ok((district, at))
    }
}
