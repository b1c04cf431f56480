//! The rows of the tables: TPC-C's columns (rev. 5.11, clause 1.3), packed for records of lines.
//!
//! | table | standard | here, with version, key and checksums |
//! |---|---|---|
//! | WAREHOUSE | 89 B | 3 lines |
//! | DISTRICT | 95 B | 3 lines |
//! | CUSTOMER | 655 B | 12 lines |
//! | STOCK | 306 B | 6 lines |
//! | ITEM | 82 B | 2 lines |
//! | ORDER, NEW-ORDER, ORDER-LINE | 24, 8, 54 B | 1 line each |
//!
//! A row does not repeat its key. An order line's delivery date is in its order.

use bytemuck::{Pod, Zeroable};

use crate::tpcc::input::Date;
use crate::tpcc::rows::{Customer, CustomerInfo, Office};

/// A WAREHOUSE row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct WarehouseRow {
    /// W_YTD.
    pub ytd_cents: i64,
    /// The columns that never change.
    pub office: Office,
}

/// A DISTRICT row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct DistrictRow {
    /// D_NEXT_O_ID.
    pub next_o_id: u64,
    /// D_YTD.
    pub ytd_cents: i64,
    /// The columns that never change.
    pub office: Office,
}

/// A CUSTOMER row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CustomerRow {
    /// The columns that transactions use.
    pub account: Customer,
    /// The columns that never change.
    pub info: CustomerInfo,
    /// C_DATA, of 300 to 500 letters in the standard.
    pub data: [u8; 488],
}

/// A STOCK row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct StockRow {
    /// S_YTD: quantity sold.
    pub ytd: u64,
    /// S_QUANTITY.
    pub quantity: u32,
    /// S_ORDER_CNT, modulo 2³².
    pub order_cnt: u32,
    /// S_REMOTE_CNT, modulo 2³².
    pub remote_cnt: u32,
    /// S_DIST_01 to S_DIST_10.
    pub dist: [[u8; 24]; 10],
    /// S_DATA.
    pub data: [u8; 50],
    /// Unused.
    pub spare: [u8; 10],
}

/// An ITEM row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub(crate) struct ItemRow {
    /// I_IM_ID.
    pub im_id: u32,
    /// I_PRICE, 100 to 10,000 cents.
    pub price_cents: u32,
    /// I_NAME.
    pub name: [u8; 24],
    /// I_DATA.
    pub data: [u8; 50],
    /// Unused.
    pub spare: [u8; 14],
}

/// An ORDER row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub(crate) struct OrderRow {
    /// O_C_ID.
    pub c_id: u32,
    /// O_ENTRY_D.
    pub entry_d: Date,
    /// OL_DELIVERY_D of all its lines; 0 before it is delivered.
    pub delivery_d: Date,
    /// O_CARRIER_ID; 0 before it is delivered.
    pub carrier_id: u8,
    /// O_OL_CNT, 5 to 15.
    pub ol_cnt: u8,
    /// O_ALL_LOCAL: 1 if the home warehouse supplies all of it.
    pub all_local: u8,
    /// Unused.
    pub spare: u8,
}

/// An ORDER-LINE row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(8))]
pub(crate) struct OrderLineRow {
    /// OL_I_ID.
    pub i_id: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: u32,
    /// OL_AMOUNT.
    pub amount_cents: u32,
    /// OL_QUANTITY.
    pub quantity: u32,
    /// OL_DIST_INFO.
    pub dist_info: [u8; 24],
}

/// A NEW-ORDER row, or an entry of the index from customers to their orders. It repeats the order's
/// number, which is in the key too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Pointer {
    /// O_ID.
    pub o_id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::silo::Row;

    #[test]
    fn rows_take_the_lines_they_are_said_to() {
        let large = [WarehouseRow::LINES, DistrictRow::LINES, CustomerRow::LINES];
        assert_eq!(large, [3, 3, 12]);
        assert_eq!([StockRow::LINES, ItemRow::LINES], [6, 2]);
        assert_eq!([OrderRow::LINES, OrderLineRow::LINES, Pointer::LINES], [1; 3]);
    }
}
