//! The rows of the nine tables: the columns of TPC-C rev. 5.11, clause 1.3.
//!
//! Rows are made of [`Memory`](ebbtide_core::Memory) values. The columns that transactions change
//! are apart from the columns that they only read. A part of 48 bytes leaves room for a latch and a
//! checksum in a line. A part with a multiple of 56 bytes leaves room for a checksum in each line.
//! So a change writes one line. Text columns have their full length. Money is in cents; taxes and
//! discounts are in ten-thousandths. A field called `spare` is not a column.
//!
//! | table | standard | here, with latches and checksums |
//! |---|---|---|
//! | WAREHOUSE | 89 B | 3 lines |
//! | DISTRICT | 95 B | 3 lines |
//! | CUSTOMER | 655 B | 12 lines |
//! | STOCK | 306 B | 7 lines |
//! | ITEM | 82 B | 2 lines |
//! | ORDER | 24 B | 1 line |
//! | ORDER-LINE | 54 B | 1 line |
//! | HISTORY | 46 B | 1 line |
//! | NEW-ORDER | 8 B | 1 word |

use bytemuck::{Pod, Zeroable};

use super::input::{Date, Payment};

/// The part of a WAREHOUSE row that Payment changes: 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Warehouse {
    /// W_YTD: all payments.
    pub ytd_cents: i64,
    /// Unused.
    pub spare: [u64; 5],
}

/// The constant part of a WAREHOUSE or DISTRICT row: 112 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Office {
    /// W_ID or D_W_ID.
    pub w_id: u32,
    /// D_ID; 0 for a warehouse.
    pub d_id: u32,
    /// W_TAX or D_TAX, 0 to 2,000.
    pub tax: u32,
    /// W_NAME or D_NAME.
    pub name: [u8; 10],
    /// W_STREET_1 or D_STREET_1.
    pub street_1: [u8; 20],
    /// W_STREET_2 or D_STREET_2.
    pub street_2: [u8; 20],
    /// W_CITY or D_CITY.
    pub city: [u8; 20],
    /// W_STATE or D_STATE.
    pub state: [u8; 2],
    /// W_ZIP or D_ZIP.
    pub zip: [u8; 9],
    /// Unused.
    pub spare: [u8; 19],
}

/// The part of a DISTRICT row that transactions change: 48 bytes.
///
/// In addition to the standard's columns, it has the starts of the rings of orders and history, and
/// the sums of the rows that have left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct District {
    /// D_NEXT_O_ID: the number of the next order.
    pub next_o_id: u64,
    /// The oldest order that is not delivered; `next_o_id` when all are.
    pub oldest_undelivered: u64,
    /// D_YTD: all payments.
    pub ytd_cents: i64,
    /// The number of HISTORY rows ever written.
    pub payments: u64,
    /// Sum of H_AMOUNT over the HISTORY rows that have left the ring.
    pub retired_history_cents: i64,
    /// Sum of OL_AMOUNT over the delivered orders that have left the ring.
    pub retired_delivered_cents: i64,
}

/// The part of a CUSTOMER row that New-Order reads and Payment and Delivery change: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Customer {
    /// C_BALANCE.
    pub balance_cents: i64,
    /// C_YTD_PAYMENT.
    pub ytd_payment_cents: i64,
    /// C_PAYMENT_CNT, modulo 2³².
    pub payment_cnt: u32,
    /// C_DELIVERY_CNT, modulo 2³².
    pub delivery_cnt: u32,
    /// C_ID.
    pub c_id: u32,
    /// C_W_ID.
    pub w_id: u32,
    /// C_DISCOUNT, 0 to 5,000.
    pub discount: u16,
    /// C_D_ID.
    pub d_id: u8,
    /// Unused.
    pub spare: u8,
    /// C_CREDIT: `GC` or, one in ten, `BC`.
    pub credit: [u8; 2],
    /// C_MIDDLE: `OE`.
    pub middle: [u8; 2],
    /// C_LAST.
    pub last: [u8; 16],
}

impl Customer {
    /// Books a payment (clause 2.5.2).
    pub(crate) fn pay(&mut self, amount_cents: u32) {
        self.balance_cents -= i64::from(amount_cents);
        self.ytd_payment_cents += i64::from(amount_cents);
        self.payment_cnt = self.payment_cnt.wrapping_add(1);
    }

    /// Books the delivery of an order of `cents` (clause 2.7.4).
    pub(crate) fn deliver(&mut self, cents: i64) {
        self.balance_cents += cents;
        self.delivery_cnt = self.delivery_cnt.wrapping_add(1);
    }

    /// Returns the price for the customer of lines of `total_cents` with these taxes (clause
    /// 2.4.2).
    pub(crate) fn charged(&self, total_cents: i64, taxes: [u32; 2]) -> i64 {
        const WHOLE: i64 = 10_000;
        let discounted = total_cents * (WHOLE - i64::from(self.discount));
        let taxed = WHOLE + taxes.map(i64::from).iter().sum::<i64>();
        discounted * taxed / (WHOLE * WHOLE)
    }

    /// Notes a payment at the front of C_DATA, and drops text that no longer fits (clause 2.5.2).
    pub(crate) fn note(&self, data: &mut [u8], payment: &Payment) {
        let &Payment { w_id, d_id, c_w_id, c_d_id, amount_cents, .. } = payment;
        let note = format!("{} {c_d_id} {c_w_id} {d_id} {w_id} {amount_cents} ", self.c_id);
        let kept = data.len() - note.len();
        data.copy_within(..kept, note.len());
        data[..note.len()].copy_from_slice(note.as_bytes());
    }
}

/// S_QUANTITY after `ordered` are taken from `quantity`: when fewer than ten would stay, 91 come in
/// (clause 2.4.2.2).
pub(crate) fn left_in_stock(quantity: u32, ordered: u32) -> u32 {
    let restocked = if quantity < ordered + 10 { 91 } else { 0 };
    quantity + restocked - ordered
}

/// The constant part of a CUSTOMER row: 112 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CustomerInfo {
    /// C_FIRST.
    pub first: [u8; 16],
    /// C_STREET_1.
    pub street_1: [u8; 20],
    /// C_STREET_2.
    pub street_2: [u8; 20],
    /// C_CITY.
    pub city: [u8; 20],
    /// C_STATE.
    pub state: [u8; 2],
    /// C_ZIP.
    pub zip: [u8; 9],
    /// Unused.
    pub spare: u8,
    /// C_PHONE.
    pub phone: [u8; 16],
    /// C_SINCE.
    pub since: Date,
    /// C_CREDIT_LIM.
    pub credit_lim_cents: u32,
}

/// C_DATA, which Payment changes for customers of bad credit: 504 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CustomerData {
    /// C_DATA.
    pub data: [u8; 500],
    /// Unused.
    pub spare: [u8; 4],
}

/// The part of a STOCK row that New-Order changes: 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Stock {
    /// S_YTD: quantity sold.
    pub ytd: u64,
    /// S_QUANTITY.
    pub quantity: u32,
    /// S_ORDER_CNT, modulo 2³².
    pub order_cnt: u32,
    /// S_REMOTE_CNT, modulo 2³².
    pub remote_cnt: u32,
    /// S_I_ID.
    pub i_id: u32,
    /// S_W_ID.
    pub w_id: u32,
    /// Unused.
    pub spare: [u32; 5],
}

/// S_DATA: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct StockData {
    /// S_DATA; holds [`ORIGINAL`] in one row of ten.
    pub data: [u8; 50],
    /// Unused.
    pub spare: [u8; 6],
}

/// Two of S_DIST_01 to S_DIST_10: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct StockDistricts {
    /// S_DIST of an odd district and of the next.
    pub dist: [[u8; 24]; 2],
    /// Unused.
    pub spare: u64,
}

/// An ITEM row: 112 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Item {
    /// I_ID.
    pub i_id: u32,
    /// I_IM_ID.
    pub im_id: u32,
    /// I_PRICE, 100 to 10,000 cents.
    pub price_cents: u32,
    /// I_NAME.
    pub name: [u8; 24],
    /// I_DATA; holds [`ORIGINAL`] in one row of ten.
    pub data: [u8; 50],
    /// Unused.
    pub spare: [u8; 26],
}

/// The text in I_DATA and S_DATA of branded goods.
pub(crate) const ORIGINAL: [u8; 8] = *b"ORIGINAL";

/// An ORDER row: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Order {
    /// O_ID; 0 when there is no order.
    pub o_id: u64,
    /// The sum of OL_AMOUNT of its lines once it is delivered, 0 before. The district keeps it when
    /// the order leaves the ring.
    pub delivered_cents: i64,
    /// O_C_ID.
    pub c_id: u32,
    /// O_W_ID.
    pub w_id: u32,
    /// O_ENTRY_D.
    pub entry_d: Date,
    /// O_D_ID.
    pub d_id: u8,
    /// O_CARRIER_ID; 0 before it is delivered.
    pub carrier_id: u8,
    /// O_OL_CNT, 5 to 15.
    pub ol_cnt: u8,
    /// O_ALL_LOCAL: 1 if the home warehouse supplies all of it.
    pub all_local: u8,
    /// Unused.
    pub spare: [u64; 3],
}

/// An ORDER-LINE row: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct OrderLine {
    /// OL_O_ID; 0 when there is no line.
    pub o_id: u64,
    /// OL_I_ID.
    pub i_id: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_w_id: u32,
    /// OL_W_ID.
    pub w_id: u32,
    /// OL_DELIVERY_D; 0 before it is delivered.
    pub delivery_d: Date,
    /// OL_AMOUNT.
    pub amount_cents: u32,
    /// OL_D_ID.
    pub d_id: u8,
    /// OL_NUMBER, from 1.
    pub number: u8,
    /// OL_QUANTITY.
    pub quantity: u8,
    /// Unused.
    pub spare: u8,
    /// OL_DIST_INFO.
    pub dist_info: [u8; 24],
}

/// A HISTORY row: 56 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct History {
    /// The number of payments of the district before it.
    pub sequence: u64,
    /// H_C_ID.
    pub c_id: u32,
    /// H_C_W_ID.
    pub c_w_id: u32,
    /// H_W_ID.
    pub w_id: u32,
    /// H_DATE.
    pub date: Date,
    /// H_AMOUNT.
    pub amount_cents: u32,
    /// H_C_D_ID.
    pub c_d_id: u8,
    /// H_D_ID.
    pub d_id: u8,
    /// Unused.
    pub spare: [u8; 2],
    /// H_DATA: the names of warehouse and district.
    pub data: [u8; 24],
}

/// The last name of number `number`, `0..1000`, with a syllable for each digit (clause 4.3.2.3).
pub fn last_name(number: u32) -> [u8; 16] {
    const SYLLABLES: [&[u8]; 10] =
        [b"BAR", b"OUGHT", b"ABLE", b"PRI", b"PRES", b"ESE", b"ANTI", b"CALLY", b"ATION", b"EING"];
    let mut name = [b' '; 16];
    let mut length = 0;
    for digit in [number / 100, number / 10, number] {
        let syllable = SYLLABLES[digit as usize % 10];
        name[length..length + syllable.len()].copy_from_slice(syllable);
        length += syllable.len();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_row_fills_its_lines() {
        let beside_a_latch = [size_of::<Warehouse>(), size_of::<District>(), size_of::<Stock>()];
        assert_eq!(beside_a_latch, [48; 3]);
        let lines = [
            size_of::<Office>(),
            size_of::<Customer>(),
            size_of::<CustomerInfo>(),
            size_of::<CustomerData>(),
            size_of::<StockData>(),
            size_of::<StockDistricts>(),
            size_of::<Item>(),
            size_of::<Order>(),
            size_of::<OrderLine>(),
            size_of::<History>(),
        ];
        assert_eq!(lines, [2, 1, 2, 9, 1, 1, 2, 1, 1, 1].map(|lines| lines * 56));
    }

    #[test]
    fn last_names_are_spelt_as_in_the_standard() {
        assert_eq!(&last_name(0), b"BARBARBAR       ");
        assert_eq!(&last_name(371), b"PRICALLYOUGHT   ");
        // The longest.
        assert_eq!(&last_name(777), b"CALLYCALLYCALLY ");
    }
}
