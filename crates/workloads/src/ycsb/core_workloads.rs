//! The core workloads A to D and F over the client's records, and FlatFlash's B and D over pairs.

use std::fmt::Debug;

use super::Ycsb;
use super::client::{Mix, Verb};
use super::record::{Pair, Record, Stock};
use super::requests::Distribution;

/// A core workload: its records and its operations.
pub trait CoreWorkload: Debug + Clone + Send + Sync {
    /// The records of its table.
    type Record: Record + Debug + Clone;
    /// The name in options and results.
    const NAME: &'static str;
    /// Description of the workload, in one line.
    const DESCRIPTION: &'static str;
    /// Work of one job, in one line.
    const MIX_TEXT: &'static str;
    /// Source of its definition.
    const SOURCE: &'static str;
    /// The operations.
    const MIX: Mix;
}

const CLIENT: &str = "YCSB (SoCC'10) and the core workloads of its public client";
const FLATFLASH: &str = "FlatFlash (ASPLOS'19) section 5.4; mixes of the public YCSB client";

/// Mostly reads, with `others_in_twenty` other operations in twenty.
const fn mix(other: Verb, others_in_twenty: u64, distribution: Distribution) -> Mix {
    Mix { mostly: Verb::Read, other, others_in_twenty, distribution }
}

macro_rules! core_workloads {
    ($(
        $(#[$doc:meta])* $workload:ident = $mark:ident($record:ty) $name:literal,
        $description:literal, $mix_text:literal, $source:ident,
        $other:ident, $others:literal, $distribution:ident;
    )+) => { $(
        $(#[$doc])*
        pub type $workload = Ycsb<$mark>;

        #[doc = concat!("Tells [`", stringify!($workload), "`] from the others.")]
        #[derive(Debug, Clone)]
        pub enum $mark {}

        impl CoreWorkload for $mark {
            type Record = $record;
            const NAME: &'static str = $name;
            const DESCRIPTION: &'static str = $description;
            const MIX_TEXT: &'static str = $mix_text;
            const SOURCE: &'static str = $source;
            const MIX: Mix = mix(Verb::$other, $others, Distribution::$distribution);
        }
    )+ };
}

core_workloads! {
    /// Core workload A: update heavy.
    YcsbA = A(Stock) "ycsb-a",
        "reads and updates records of 10 x 100 bytes alike often",
        "1 operation: 50% read a record, 50% write one of its fields", CLIENT,
        Update, 10, Zipfian;
    /// Core workload B: read mostly.
    YcsbB = B(Stock) "ycsb-b",
        "reads records of 10 x 100 bytes and updates a few",
        "1 operation: 95% read a record, 5% write one of its fields", CLIENT,
        Update, 1, Zipfian;
    /// Core workload C: read only.
    YcsbC = C(Stock) "ycsb-c",
        "reads records of 10 x 100 bytes",
        "1 operation: 100% read a record", CLIENT,
        Read, 0, Zipfian;
    /// Core workload D: read latest.
    YcsbD = D(Stock) "ycsb-d",
        "adds records of 10 x 100 bytes and reads the latest most",
        "1 operation: 95% read a record, 5% insert one for the oldest", CLIENT,
        Insert, 1, Latest;
    /// Core workload F: read-modify-write.
    YcsbF = F(Stock) "ycsb-f",
        "reads records of 10 x 100 bytes and modifies every second",
        "1 operation: 50% read a record, 50% read one and write a field of it", CLIENT,
        ReadModifyWrite, 10, Zipfian;
    /// FlatFlash's workload B: read mostly, over pairs of 64 bytes.
    YcsbB64 = B64(Pair) "ycsb-b-64",
        "reads key-value pairs of 64 bytes and updates a few",
        "1 operation: 95% read a pair, 5% write one", FLATFLASH,
        Update, 1, Zipfian;
    /// FlatFlash's workload D: reads and inserts over pairs of 64 bytes. Its reads are Zipfian,
    /// where the client's favour the latest.
    YcsbD64 = D64(Pair) "ycsb-d-64",
        "adds key-value pairs of 64 bytes and reads popular ones",
        "1 operation: 95% read a pair, 5% insert one for the oldest", FLATFLASH,
        Insert, 1, Zipfian;
}
