//! The claims of AstriFlash (HPCA'23): AS1 to AS47. Slides are those of its talk.

use ebbtide_study::claims::Accept::{
    Above, AtLeast, AtMost, Below, Between, Context, Holds, Near, Order, Relative, Rounds,
};
use ebbtide_study::claims::Method::{Analytic, Real, Simulation};
use ebbtide_study::claims::{Claims, claim, input, not_testable, part};

use super::experiments::Runs::{self, Collections, Curves, Drives, Intervals, Loads, Skews, Table};
use super::verdicts::{self, tails};
use super::{AstriFlash, formulas};
use crate::record::{Record, claims, record};

/// Every claim: id, source and quantity, then its values, then its test.
pub(crate) const RECORDS: [Record<Runs, AstriFlash>; 47] = [
    record(
        input("AS1", "§I, slide 3", "price of DRAM over that of flash, a GB", "50×")
            .states("Input: DRAM costs 50 times as much as flash for each GB."),
    ),
    record(
        input("AS2", "§I", "latency of flash over that of DRAM", "1000× (50 µs over 50 ns)")
            .states("Input: flash has 1000 times DRAM's latency, 50 µs against 50 ns."),
    ),
    record(
        claim("AS3", "abstract, §VI-A", "mean throughput relative to DRAM-only")
            .states(
                "AstriFlash reaches 95% of DRAM-only's throughput on the mean of seven \
                 workloads.",
            )
            .value("95%", "%", Near(95.0, 2.0))
            .tested(
                &[Simulation, Real],
                "7 workloads, saturated queue; on a real machine its order",
            ),
    )
    .judged(&[Table, Intervals, Drives], verdicts::throughput),
    record(
        claim("AS4", "abstract, §II-A", "memory cost reduction")
            .states("Memory costs 20 times less.")
            .value("20×", "×", Near(20.0, 0.5))
            .tested(&[Analytic], "cost model")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::saving),
    record(
        claim("AS5", "§III-B, slide 14", "thread switch")
            .states("A thread switch takes 100 ns, 50 times less than the operating system's.")
            .value("100 ns; 50× below the OS's, 5× below earlier ones", " ns", AtMost(120.0))
            .tested(&[Real], "microbenchmark by the cycle counter"),
    )
    .judged(&[], |claim, r| r.host.iter().map(|host| host.user_switch(claim)).collect()),
    record(
        claim("AS6", "§II-A, Fig. 1", "capacity at the knee of the miss curve")
            .states("The curve of misses over DRAM capacity has its knee at about 3%.")
            .value("~3%", "%", Between(2.0, 5.0))
            .tested(&[Analytic], "capacity sweep over traces like CloudSuite's"),
    )
    .judged(&[Curves], verdicts::knee),
    record(
        claim("AS7", "§II-A", "flash bandwidth at the knee, 64 cores")
            .states("At the knee, 64 cores need 60 GB/s of flash bandwidth.")
            .value("60 GB/s", " GB/s", Relative(60.0, 0.10))
            .tested(&[Analytic], "Eq. 1")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::bandwidth),
    record(
        input("AS8", "§II-A", "DRAM bandwidth a core; page; block", "0.5 GB/s; 4 KB; 64 B")
            .states("Input: 0.5 GB/s of DRAM bandwidth for each core, 4 KB pages, 64 B blocks."),
    ),
    record(
        input("AS9", "§II-A, slide 22", "PCIe Gen5 bandwidth", "up to 128 GB/s")
            .states("Input: PCIe Gen5 offers up to 128 GB/s."),
    ),
    record(
        claim("AS10", "§II-A, §V-A", "interval between DRAM misses of a core")
            .states("A core misses DRAM every 5 to 25 µs, typically every 10 µs.")
            .value("5–25 µs; typically ~10 µs", " µs", Between(5.0, 25.0))
            .tested(&[Simulation], "each workload")
            .note("Eq. 1 contradicts this: the 60 GB/s of AS7 are a page every 4.4 µs."),
    )
    .judged(&[Table], verdicts::miss_interval),
    record(
        claim("AS11", "slide 7", "accesses absorbed by 3% of the dataset")
            .states("3% of the dataset absorbs more than 95% of the accesses.")
            .value(">95%", "%", AtLeast(95.0))
            .tested(&[Real, Simulation], "sweep of the Zipf skew"),
    )
    .judged(&[Curves, Skews], verdicts::absorbed),
    record(
        claim("AS12", "slide 3", "OS paging")
            .states(
                "Paging by the operating system costs about 10 µs a miss and halves throughput.",
            )
            .values(&[
                part("overhead a miss", "~10 µs", " µs", Relative(10.0, 0.10)),
                part("throughput lost even where the set fits", "50%", "%", Relative(50.0, 0.10)),
            ])
            .tested(&[Simulation], "OS-Swap with 10 µs of execution a miss")
            .by_construction(
                "The 10 µs of OS-Swap's miss and the 10 µs between misses are inputs.",
            ),
    )
    .judged(&[Intervals], verdicts::paging),
    record(
        claim("AS13", "§II-C", "storage stack and driver")
            .states("Storage stack and driver take up to 10 µs.")
            .value("up to 10 µs", " µs", Between(5.0, 15.0))
            .tested(&[Real], "mmap faults under perf"),
    )
    .judged(&[], |claim, r| r.host.iter().map(|host| host.storage_stack(claim)).collect()),
    record(
        claim("AS14", "§II-C", "TLB shootdown")
            .states("A TLB shootdown takes more than 10 µs.")
            .value(">10 µs", " µs", Order(10.0, 10.0))
            .tested(&[Real], "munmap over a growing number of cores"),
    )
    .judged(&[], |claim, r| r.host.iter().map(|host| host.shootdowns(claim)).collect()),
    record(
        claim("AS15", "§II-C", "OS context switch")
            .states("A context switch of the operating system takes about 5 µs.")
            .value("~5 µs", " µs", Between(1.0, 7.0))
            .tested(&[Real], "perf"),
    )
    .judged(&[], |claim, r| r.host.iter().map(|host| host.os_switch(claim)).collect()),
    record(
        claim("AS16", "§II-C", "throughput lost without switching")
            .states("Without switching a core loses a factor of 5 to 10 in throughput.")
            .value("5–10×", "×", AtLeast(4.0))
            .tested(&[Simulation], "Flash-Sync with 5 to 12 µs of execution a miss")
            .by_construction("Flash's 50 us and the execution between misses are inputs."),
    )
    .judged(&[Intervals], verdicts::without_switching),
    record(
        input(
            "AS17",
            "slide 15",
            "flash access, memory management, switch: OS against AstriFlash",
            "2, 3, 5 µs against –, 50 ns, 100 ns",
        )
        .states(
            "Input: flash access, memory management and switch cost the operating system 2, \
                 3 and 5 µs, AstriFlash nothing, 50 ns and 100 ns.",
        ),
    ),
    record(
        claim("AS18", "§III-A, Fig. 3", "throughput left to Flash-Sync")
            .states("In the queueing model Flash-Sync keeps 16.7% of the throughput.")
            .value("16.7% (>80% lost)", "%", Near(16.7, 2.0))
            .tested(&[Analytic], "M/M/k")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::flash_sync),
    record(
        claim("AS19", "Fig. 3", "throughput lost by OS-Swap")
            .states("In the queueing model OS-Swap loses about 50%.")
            .value("~50%", "%", Near(50.0, 3.0))
            .tested(&[Analytic], "M/M/k")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::os_swap),
    record(
        claim(
            "AS20",
            "Fig. 3, slide 26",
            "p99 objective, in mean services, for a gap of at most ~20% to DRAM-only",
        )
        .states(
            "With a p99 objective of 40 mean service times the gap to DRAM-only is at most \
                 about 20%.",
        )
        .value("40×", "×", Between(28.0, 45.0))
        .tested(&[Analytic, Real], "M/M/k")
        .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::objective),
    record(
        input("AS21", "§III-B2", "paging's share on the memory and the core side", "~5 and ~5 µs")
            .states("Input: paging costs about 5 µs on the memory side and 5 µs on the core side."),
    ),
    record(
        claim("AS22", "§III-B2", "tags of a 32 GB cache")
            .states(
                "The tags of a 32 GB cache take about 4 GB for 64 B blocks and 64 MB for 4 KB \
                 pages.",
            )
            .values(&[
                part("64 B blocks", "~4 GB", " GB", Rounds(4.0, 1)),
                part("4 KB pages", "64 MB", " MB", Rounds(64.0, 0)),
            ])
            .tested(&[Analytic], "arithmetic with tags of 8 B")
            .by_construction(SAME_FORMULA)
            .note("A DRAM row of 16 KB holds four pages without tags, or fewer pages with them."),
    )
    .by_formula(formulas::tags),
    record(
        input("AS23", "§II-A", "dataset and its DRAM", "1 TB with 32 GB (3%)")
            .states("Input: 1 TB of data with 32 GB of DRAM."),
    ),
    record(
        claim("AS24", "§IV-C4", "state added to a core")
            .states("A core gets 2 KB of added state, 0.1% of its area.")
            .values(&[
                part("128 registers", "1 KB", " KB", Rounds(1.0, 1)),
                part("register maps", "1 KB", " KB", Rounds(1.0, 1)),
                part("together", "2 KB", " KB", Rounds(2.0, 1)),
                part("area at 2 MB/mm²", "0.001 mm²", " mm²", Rounds(0.001, 3)),
                part("share of a core of 1.3 mm²", "0.1%", "%", Rounds(0.1, 1)),
            ])
            .tested(&[Analytic], "arithmetic")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::added_state),
    record(
        input("AS25", "§IV-B2", "longest delay by garbage collection", "100 ms")
            .states("Input: garbage collection delays a request by up to 100 ms."),
    ),
    record(
        claim("AS26", "§IV-B", "concurrent misses over 16 cores")
            .states("Hundreds of misses are in flight over 16 cores.")
            .value("100s", "", Above(100.0))
            .tested(&[Simulation], "highest occupancy of the miss status rows"),
    )
    .judged(&[Intervals], verdicts::in_flight),
    record(
        claim("AS27", "§VI-A, Fig. 9", "AstriFlash-Ideal relative to DRAM-only")
            .states("AstriFlash-Ideal reaches 96% of DRAM-only, no less than AstriFlash.")
            .values(&[
                part("mean throughput", "96%", "%", Near(96.0, 2.0)),
                part("not below AstriFlash", "96% against 95%", "", Holds("sign")),
            ])
            .tested(&[Simulation], "as AS3, with free switches"),
    )
    .judged(&[Table, Intervals], verdicts::ideal),
    record(
        claim("AS28", "Fig. 9", "OS-Swap relative to DRAM-only")
            .states("OS-Swap reaches 58% of DRAM-only.")
            .value("58%", "%", Near(58.0, 5.0))
            .tested(&[Simulation, Real], "as AS3")
            .note("The paper's queueing model contradicts this: it says ~50% (AS19)."),
    )
    .judged(&[Table, Intervals], verdicts::os_swap),
    record(
        claim("AS29", "Fig. 9", "Flash-Sync relative to DRAM-only")
            .states("Flash-Sync reaches 27% of DRAM-only.")
            .value("27%", "%", Near(27.0, 5.0))
            .tested(&[Simulation, Real], "as AS3")
            .note("The paper's queueing model contradicts this: it says 16.7% (AS18)."),
    )
    .judged(&[Table, Intervals], verdicts::flash_sync),
    record(
        claim("AS30", "§VI-A", "workload that loses most")
            .states("TPCC is the workload that loses most.")
            .value("TPCC", "", Holds("rank"))
            .tested(&[Simulation], "as AS3"),
    )
    .judged(&[Table], verdicts::rank),
    record(
        not_testable(
            "AS31",
            "Fig. 9",
            "throughput by workload",
            "bars",
            "A picture without numbers.",
        )
        .states("Throughput by workload: bars of a picture that this project does not have."),
    ),
    record(
        claim("AS32", "Table II", "p99 service over Flash-Sync's, AstriFlash")
            .states(
                "AstriFlash's p99 service time is 1.01 to 1.04 times Flash-Sync's, by workload.",
            )
            .values(&[
                part("Masstree", "1.02×", "×", AtMost(1.10)),
                part("Silo", "1.01×", "×", AtMost(1.10)),
                part("Array Swap", "1.04×", "×", AtMost(1.10)),
                part("RBT", "1.03×", "×", AtMost(1.10)),
                part("Hash Table", "1.01×", "×", AtMost(1.10)),
                part("TATP", "1.01×", "×", AtMost(1.10)),
                part("TPCC", "1.01×", "×", AtMost(1.10)),
                part("geometric mean", "1.02×", "×", AtMost(1.10)),
            ])
            .tested(&[Simulation], "p99 of service times"),
    )
    .judged(&[Table], tails::astriflash),
    record(
        claim("AS33", "Table II", "p99 service over Flash-Sync's, noPS")
            .states(
                "noPS's p99 service time is 3.92 to 15.33 times Flash-Sync's, 6.82 times on the \
                 geometric mean.",
            )
            .values(&[
                part("Masstree", "4.61×", "×", Above(3.0)),
                part("Silo", "6.73×", "×", Above(3.0)),
                part("Array Swap", "12.03×", "×", Above(3.0)),
                part("RBT", "5.98×", "×", Above(3.0)),
                part("Hash Table", "3.92×", "×", Above(3.0)),
                part("TATP", "15.33×", "×", Above(3.0)),
                part("TPCC", "5.09×", "×", Above(3.0)),
                part("geometric mean", "6.82×", "×", Between(4.0, 10.0)),
            ])
            .tested(&[Simulation, Real], "p99 of service times, first in first out"),
    )
    .judged(&[Table], tails::no_ps),
    record(
        claim("AS34", "Table II", "p99 service over Flash-Sync's, noDP")
            .states("noDP's p99 service time is 1.76 times Flash-Sync's on the geometric mean.")
            .value("1.76× (geometric mean)", "×", Between(1.5, 2.2))
            .tested(&[Simulation], "page tables in cached space")
            .note(
                "The printed cells contradict this: the geometric mean of 2.43 1.57 1.84 2.03 \
                 1.26 2.01 2.96 is 1.95.",
            ),
    )
    .judged(&[Table], tails::no_dp),
    record(
        claim("AS35", "§VI-B", "p99 service lost by AstriFlash")
            .states("AstriFlash's p99 service time loses 2%.")
            .value("2%", "%", AtMost(10.0))
            .tested(&[Simulation], "as AS32")
            .note("The talk says 5%."),
    )
    .judged(&[Table], tails::lost),
    record(
        input("AS36", "§VI-C", "length of a TATP job", "~10 µs")
            .states("Input: a TATP job takes about 10 µs."),
    ),
    record(
        claim("AS37", "Fig. 10", "load given up for DRAM-only's p99 at 96% load")
            .states("AstriFlash at 93% load has the p99 that DRAM-only has at 96%.")
            .value("3 pp (93%)", " pp", Between(2.0, 6.0))
            .tested(&[Simulation, Real], "TATP with Poisson arrivals")
            .note("The talk says 5%."),
    )
    .judged(&[Loads], verdicts::load_given_up),
    record(
        claim("AS38", "Fig. 10", "p99 at low load")
            .states("At low load AstriFlash's p99 is above DRAM-only's.")
            .value("above DRAM-only's", "", Holds("sign"))
            .tested(&[Simulation], "as AS37")
            .by_construction("The 50 us of flash in a job of 10 us are inputs."),
    )
    .judged(&[Loads], verdicts::low_load),
    record(
        claim("AS39", "§VI-D", "requests blocked by garbage collection, 256 GB")
            .states("Garbage collection blocks 4% of the requests of a 256 GB device.")
            .value("4%", "%", Between(2.0, 6.0))
            .tested(
                &[Simulation, Real],
                "plane-blocking collection, with the writes that make the share",
            ),
    )
    .judged(&[Collections], verdicts::collections),
    record(
        claim("AS40", "§VI-D", "garbage collection with 1 TB")
            .states("On 1 TB it blocks less than a quarter of that, below 1%.")
            .values(&[
                part("reduction", ">4×", "×", Above(4.0)),
                part("requests blocked", "<1%", "%", Below(1.0)),
            ])
            .tested(&[Simulation], "as AS39 with four times the planes")
            .note("The paper simulates a device of 256 GB, where the 4% of AS39 apply."),
    )
    .judged(&[Collections], verdicts::collections_of_four_times_the_planes),
    record(
        input("AS41", "§V-A", "SSD read and write; page", "50 and 100 µs; 4 KB")
            .states("Input: the SSD reads in 50 µs and writes in 100 µs, in pages of 4 KB."),
    ),
    record(
        input(
            "AS42",
            "slide 25",
            "EC2 prices: 448 vCPU with 12 TB, with 6 TB; 224 with 6 TB",
            "109.20, 54.60, 46.40 $/h",
        )
        .states("Input: prices of three EC2 instances."),
    ),
    record(
        claim("AS43", "slide 12", "reach of a TLB: classic, Midgard")
            .states("Context: a classic TLB reaches 10 to 100 GB, Midgard hundreds of TB.")
            .value("10–100 GB, 100s TB", "", Context),
    ),
    record(
        claim("AS44", "§III-A", "gap to DRAM-only shrinks")
            .states(
                "The gap to DRAM-only shrinks as the latency objective loosens and as servers \
                 are added.",
            )
            .values(&[
                part("as the objective loosens", "shrinks", "", Holds("sign")),
                part("as servers are added", "shrinks", "", Holds("sign")),
            ])
            .tested(&[Analytic], "M/M/k"),
    )
    .by_formula(formulas::gaps),
    record(
        input("AS45", "slides 3, 6", "latency objectives of services", "ms; 100 ms")
            .states("Input: services have latency objectives of milliseconds up to 100 ms."),
    ),
    record(
        input("AS46", "§IV-D2", "length of a job", "10–100 µs")
            .states("Input: jobs take 10 to 100 µs."),
    ),
    record(
        claim("AS47", "§VI-C", "why the tail holds")
            .states("The tail holds because service times grow and queueing shrinks.")
            .value("service longer, queueing shorter", "", Holds("sign"))
            .tested(&[Simulation], "AS37's run, p99 split into queueing and service"),
    )
    .judged(&[Loads], verdicts::queueing),
];

/// The claims without their judges.
pub(crate) const CLAIMS: Claims = Claims(&claims(&RECORDS));

/// The reason why a claim that arithmetic decides is no test of the model.
const SAME_FORMULA: &str = "Both sides are the same formula.";
