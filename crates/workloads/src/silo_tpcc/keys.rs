//! Keys of rows, packed into 8 bytes so that they sort as their parts do.
//!
//! 20 bits of warehouse (64 TiB hold fewer than 2²⁰), 4 of district, 12 of customer, 28 of order, 4
//! of line.

/// Orders of a district are numbered below this.
pub(super) const ORDERS_MAX: u64 = 1 << 28;

/// The most lines an order has, and the last line's number.
pub(super) const LINES_MAX: u64 = 15;

/// A warehouse, or an item.
pub(super) fn one(id: u32) -> u64 {
    u64::from(id)
}

/// A district.
pub(super) fn district(w_id: u32, d_id: u8) -> u64 {
    u64::from(w_id) << 4 | u64::from(d_id)
}

/// A customer.
pub(super) fn customer(w_id: u32, d_id: u8, c_id: u32) -> u64 {
    district(w_id, d_id) << 12 | u64::from(c_id)
}

/// An order of a customer: the newest comes first.
pub(super) fn customer_order(w_id: u32, d_id: u8, c_id: u32, o_id: u64) -> u64 {
    customer(w_id, d_id, c_id) << 28 | (ORDERS_MAX - 1 - o_id)
}

/// A stock row.
pub(super) fn stock(w_id: u32, i_id: u32) -> u64 {
    u64::from(w_id) << 32 | u64::from(i_id)
}

/// An order, or a NEW-ORDER row.
pub(super) fn order(w_id: u32, d_id: u8, o_id: u64) -> u64 {
    district(w_id, d_id) << 28 | o_id
}

/// An order line; `number` is from 1.
pub(super) fn line(w_id: u32, d_id: u8, o_id: u64, number: u64) -> u64 {
    order(w_id, d_id, o_id) << 4 | number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_as_their_parts_do() {
        assert!(line(1, 1, 7, LINES_MAX) < line(1, 1, 8, 0));
        assert!(line(1, 1, ORDERS_MAX - 1, LINES_MAX) < line(1, 2, 0, 0));
        assert!(order(1, 10, ORDERS_MAX - 1) < order(2, 1, 0));
        assert!(customer_order(1, 1, 3000, 0) < customer_order(1, 2, 1, ORDERS_MAX - 1));
        assert!(customer_order(1, 1, 5, 9) < customer_order(1, 1, 5, 8));
        let last = customer_order((1 << 20) - 1, 10, 3000, 0);
        assert!(last < u64::MAX && last >> 60 == 15);
    }
}
