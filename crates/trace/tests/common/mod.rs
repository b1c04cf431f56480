//! Traces to test with.

use ebbtide_core::{Addr, PageId, Time};
use ebbtide_trace::{Access, Op};
use proptest::prelude::*;

/// Entries of every kind, with times and addresses near to and far from each other.
pub fn any_trace() -> impl Strategy<Value = Vec<Access>> {
    let address = prop_oneof![any::<u64>(), 0..1_u64 << 20];
    let span = prop_oneof![0..10_u64, 0..2_000_000_u64, (0..5_000_u64).prop_map(|ns| ns * 1000)];
    let bytes = prop_oneof![Just(64_u32), 1..=u32::MAX];
    let op = prop_oneof![Just(Op::Read), Just(Op::Write), Just(Op::Hint)];
    let frame =
        prop_oneof![Just(None), (0..1_u64 << 52).prop_map(Some), (0..40_u64).prop_map(Some),];
    let device = prop_oneof![Just(0_u32), any::<u32>()];
    let thread = prop_oneof![4 => Just(0_u32), 4 => 0..5_u32, 1 => any::<u32>()];
    let any_access = (span, address, bytes, op, frame, (device, thread));
    prop::collection::vec(any_access, 1..300).prop_map(|steps| {
        let mut now = 0;
        let place = |(span, address, bytes, op, frame, ids): (_, u64, u32, _, Option<u64>, _)| {
            let (device, thread) = ids;
            now += span;
            let address = Addr(address.min(u64::MAX - u64::from(bytes) + 1));
            Access {
                at: Time::from_ps(now),
                address,
                frame: frame.map(PageId),
                device,
                thread,
                bytes,
                op,
            }
        };
        steps.into_iter().map(place).collect()
    })
}
