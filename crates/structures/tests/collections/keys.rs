//! [`Keys`]: keys of entries that come and go, in several orders.

use std::collections::VecDeque;

use ebbtide_structures::hash::mix;

/// The order of the keys that come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    Rising,
    Falling,
    Random,
    /// Keys with shared first bytes, few in a row.
    Prefixed,
    /// Keys come in order, and any of the window goes.
    AnyGoes,
}

pub const ALL_KEYS: [Keys; 5] =
    [Keys::Rising, Keys::Falling, Keys::Random, Keys::Prefixed, Keys::AnyGoes];

impl Keys {
    pub fn key(self, number: u64) -> [u64; 2] {
        match self {
            Keys::Rising | Keys::AnyGoes => [number, 1],
            Keys::Falling => [u64::MAX - number, 1],
            Keys::Random => [mix(number), number],
            Keys::Prefixed => [mix(number / 20) % 1000, number],
        }
    }

    /// Calls `step(comes, goes)` with the numbers that come and go. At first `window` keys only
    /// come, and at last all remaining keys go.
    pub fn moves(self, window: u64, mut step: impl FnMut(Option<u64>, Option<u64>)) {
        let mut live = VecDeque::new();
        let goes = |live: &mut VecDeque<u64>| {
            let any = mix(live[0]) as usize % live.len();
            if self == Keys::AnyGoes { live.swap_remove_back(any) } else { live.pop_front() }
        };
        for number in 0..100 * window {
            let leaving = if number < window { None } else { goes(&mut live) };
            live.push_back(number);
            step(Some(number), leaving);
        }
        while !live.is_empty() {
            step(None, goes(&mut live));
        }
    }
}
