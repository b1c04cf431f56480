//! The initial contents of columns (TPC-C rev. 5.11, clause 4.3.3).

use ebbtide_structures::hash::mix;

use super::input::LOADED;
use super::rows::{Customer, CustomerInfo, ORIGINAL, Office};

/// H_AMOUNT of the one initial payment of every customer.
pub(crate) const FIRST_PAYMENT_CENTS: u32 = 1_000;

/// How text columns are filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Texts {
    /// Letters, eight for each random number; zip codes and telephone numbers of random digits.
    LettersAndDigits,
    /// Letters, sixteen for each random number, telephone numbers too; one zip code for all.
    Letters,
}

/// The random numbers and texts of one row.
#[derive(Debug)]
pub(crate) struct Random {
    state: u64,
    texts: Texts,
}

impl Random {
    /// The random numbers that `seed` selects.
    pub(crate) fn new(seed: u64, texts: Texts) -> Random {
        Random { state: seed, texts }
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(1);
        mix(self.state)
    }

    /// One of `low..=high`.
    pub(crate) fn from(&mut self, low: u64, high: u64) -> u64 {
        // 32 random bits are scaled.
        low + (((self.next() >> 32) * (high - low + 1)) >> 32)
    }

    /// Letters `a` to `p`, one for four random bits.
    pub(crate) fn letters<const N: usize>(&mut self) -> [u8; N] {
        let mut text = [0; N];
        match self.texts {
            Texts::LettersAndDigits => {
                for part in text.chunks_mut(8) {
                    let letters = (self.next() & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161;
                    part.copy_from_slice(&letters.to_le_bytes()[..part.len()]);
                }
            }
            Texts::Letters => {
                for part in text.chunks_mut(16) {
                    let mut bits = self.next();
                    for letter in part {
                        *letter = b'a' + (bits % 16) as u8;
                        bits /= 16;
                    }
                }
            }
        }
        text
    }

    fn digits<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| b'0' + self.from(0, 9) as u8)
    }

    /// S_DATA or I_DATA: one row in ten is of branded goods.
    pub(crate) fn goods(&mut self) -> [u8; 50] {
        let mut data = self.letters();
        if self.from(1, 10) == 1 {
            let at = self.from(0, (data.len() - ORIGINAL.len()) as u64) as usize;
            data[at..at + ORIGINAL.len()].copy_from_slice(&ORIGINAL);
        }
        data
    }

    /// Four digits and `11111`.
    fn zip(&mut self) -> [u8; 9] {
        let mut zip = *b"123411111";
        if self.texts == Texts::LettersAndDigits {
            zip[..4].copy_from_slice(&self.digits::<4>());
        }
        zip
    }

    fn phone(&mut self) -> [u8; 16] {
        match self.texts {
            Texts::LettersAndDigits => self.digits(),
            Texts::Letters => self.letters(),
        }
    }

    /// The constant columns of a WAREHOUSE row, with `d_id` 0, or of a DISTRICT row.
    pub(crate) fn office(&mut self, w_id: u32, d_id: u32) -> Office {
        Office {
            w_id,
            d_id,
            tax: self.from(0, 2_000) as u32,
            name: self.letters(),
            street_1: self.letters(),
            street_2: self.letters(),
            city: self.letters(),
            state: self.letters(),
            zip: self.zip(),
            spare: [0; 19],
        }
    }

    /// A CUSTOMER row without C_DATA: the columns that transactions change, and the constant ones.
    pub(crate) fn customer(
        &mut self,
        (w_id, d_id): (u32, u8),
        c_id: u32,
        last: [u8; 16],
    ) -> (Customer, CustomerInfo) {
        let customer = Customer {
            balance_cents: -i64::from(FIRST_PAYMENT_CENTS),
            ytd_payment_cents: i64::from(FIRST_PAYMENT_CENTS),
            payment_cnt: 1,
            delivery_cnt: 0,
            c_id,
            w_id,
            discount: self.from(0, 5_000) as u16,
            d_id,
            spare: 0,
            credit: if self.from(1, 10) == 1 { *b"BC" } else { *b"GC" },
            middle: *b"OE",
            last,
        };
        let info = CustomerInfo {
            first: self.letters(),
            street_1: self.letters(),
            street_2: self.letters(),
            city: self.letters(),
            state: self.letters(),
            zip: self.zip(),
            spare: 0,
            phone: self.phone(),
            since: LOADED,
            credit_lim_cents: 5_000_000,
        };
        (customer, info)
    }
}
