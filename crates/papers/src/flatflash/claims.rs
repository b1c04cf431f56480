//! The claims of FlatFlash (ASPLOS'19): FL1 to FL30.

use ebbtide_study::claims::Accept::{Between, Ends, Holds, Input, Order, Relative, Rounds};
use ebbtide_study::claims::Method::{Analytic, Simulation};
use ebbtide_study::claims::{Claims, Part, claim, input, part};

use super::experiments::Programs::{self, Databases, Graphs, Gups, Micro, Ycsb};
use super::{FlatFlash, formulas, verdicts};
use crate::record::{Record, claims, record};

/// Every claim: id, source and quantity, then its values, then its test.
pub(crate) const RECORDS: [Record<Programs, FlatFlash>; 30] = [
    record(
        claim("FL1", "abstract, §1", "memory-intensive programs over UnifiedMMap")
            .states("Memory-intensive programs run up to 2.3 times as fast as on UnifiedMMap.")
            .value("up to 2.3×", "×", Between(1.8, 2.8))
            .tested(&[Simulation], "GUPS, graphs"),
    )
    .judged(&[Gups, Graphs], verdicts::memory_highlight),
    record(
        claim("FL2", "abstract", "reduction of tail latency")
            .states("Tail latency falls by up to 2.8 times.")
            .value("up to 2.8×", "×", Between(2.0, 3.5))
            .tested(&[Simulation], "YCSB"),
    )
    .judged(&[Ycsb], verdicts::tail_highlight),
    record(
        claim("FL3", "abstract", "database throughput")
            .states("Databases reach up to 3.0 times the throughput.")
            .value("up to 3.0×", "×", Between(2.2, 3.8))
            .tested(&[Simulation], "transactions on a store like Shore"),
    )
    .judged(&[Databases], verdicts::database_highlight),
    record(
        claim("FL4", "abstract", "reduction of the cost of file-system metadata")
            .states("Metadata of file systems costs up to 18.9 times less.")
            .value("up to 18.9×", "×", Order(18.9, 18.9))
            .tested(&[Simulation], "FileBench model")
            .by_construction(CLOSED_FORM),
    )
    .judged(&[], verdicts::metadata_highlight),
    record(
        claim("FL5", "abstract", "performance for the money against DRAM-only")
            .states("Performance for the money is up to 3.8 times DRAM-only's.")
            .value("up to 3.8×", "×", Relative(3.8, 0.10))
            .tested(&[Simulation, Analytic], "the printed saving over our slow-down (FL29)"),
    )
    .judged(&[Gups, Graphs, Ycsb, Databases], verdicts::tables::worth_highlight),
    record(
        input("FL6", "§2", "prices of 2018: 512 GB of DRAM; 1 TB of SSD", "$8,950; ~$600")
            .states("Input: 512 GB of DRAM cost $8,950 and 1 TB of SSD about $600, in 2018."),
    ),
    record(
        input(
            "FL7",
            "Table 2",
            "MMIO read, write; promotion; PTE and TLB update; walk",
            "4.8, 0.6, 12.1, 1.4, 0.7 µs",
        )
        .states(
            "Input: MMIO read 4.8 µs, write 0.6 µs, promotion 12.1 µs, PTE and TLB update \
                 1.4 µs, walk 0.7 µs.",
        ),
    ),
    record(
        claim("FL8", "§3.3", "promotion look-aside buffer")
            .states("The promotion look-aside buffer has 64 entries of 24 B.")
            .value("64 entries × 24 B; 1 cycle", " B", Rounds(1536.0, 0))
            .tested(&[Analytic], "two tags of 8 B and a bit for each line of a page")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::look_aside_buffer),
    record(
        input("FL9", "§3.3", "write of a page to a Z-SSD", "16 µs")
            .states("Input: a Z-SSD writes a page in 16 µs."),
    ),
    record(
        claim("FL10", "§3.4", "access counters of a 2 GB SSD-Cache")
            .states("A 2 GB SSD-Cache needs 512K counters, 0.2% of its size.")
            .values(&[
                part("counters", "512K", "K", Rounds(512.0, 0)),
                part("overhead", "0.2%", "%", Rounds(0.2, 1)),
            ])
            .tested(&[Analytic], "arithmetic with counters of 8 B")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::counters),
    record(
        claim("FL11", "Algorithm 1", "constants of adaptive promotion")
            .states("The constants are 0.25, 0.75, a threshold of at most 7 and an epoch of 10K.")
            .values(&[
                part("lower ratio", "0.25", "", Rounds(0.25, 2)),
                part("higher ratio", "0.75", "", Rounds(0.75, 2)),
                part("greatest threshold", "7", "", Rounds(7.0, 0)),
                part("epoch", "10K", "", Rounds(10_000.0, 0)),
            ])
            .tested(&[Simulation], "the constants in use")
            .by_construction("They are inputs.")
            .note(
                "Taken literally, the listing stops all resets once an epoch has ended \
                 without an eviction.",
            ),
    )
    .judged(&[], verdicts::constants),
    record(
        claim("FL12", "Table 1", "gain over UnifiedMMap")
            .states(
                "Eight programs gain 1.3 to 2.8 times in performance and 1.0 to 1.9 times in \
                 lifetime over UnifiedMMap.",
            )
            .values(TABLE_1)
            .tested(&[Simulation], "each program; lifetime by flash pages written")
            .note("The YCSB gains match the p99 of FL22, not the means of FL23."),
    )
    .judged(&[Gups, Graphs, Ycsb, Databases], verdicts::tables::table_1),
    record(
        claim("FL13", "Table 1", "file systems, gain over UnifiedMMap")
            .states(
                "Five file-system workloads gain 2.6 to 18.9 times in performance and 1.4 to \
                 12.1 times in lifetime.",
            )
            .values(TABLE_1_FILES)
            .tested(&[Simulation], "three file-system models")
            .by_construction(CLOSED_FORM),
    )
    .judged(&[], verdicts::by_operation),
    record(
        claim("FL14", "§5.1, Fig. 8a", "sequential reads, latency over UnifiedMMap's")
            .states(
                "Sequential reads are slightly slower than on UnifiedMMap and much faster than \
                 on TraditionalStack.",
            )
            .values(&[
                part("ratio", "slightly worse", "×", Between(1.0, 1.15)),
                part("both", "far below TraditionalStack", "", Holds("sign")),
            ])
            .tested(&[Simulation], "2 M pages, 2 GB of DRAM, SSD of 32 GB to 1 TB, 64 B"),
    )
    .judged(&[Micro], verdicts::programs::sequential),
    record(
        claim("FL15", "Fig. 8b", "random reads, latency below")
            .states(
                "Random reads take 1.2 to 1.4 times less than on UnifiedMMap and 1.8 to 2.1 \
                 times less than on TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "1.2–1.4×", "×", Ends(1.2, 1.4, 0.15))
                    .by_construction(SUM_OF_TIMES),
                part("TraditionalStack", "1.8–2.1×", "×", Ends(1.8, 2.1, 0.15)),
            ])
            .tested(&[Simulation], "as FL14"),
    )
    .judged(&[Micro], verdicts::programs::random),
    record(
        claim("FL16", "Fig. 9a", "GUPS, gain over")
            .states(
                "GUPS gains 1.5 to 1.6 times over UnifiedMMap and 2.5 to 2.7 times over \
                 TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "1.5–1.6×", "×", Ends(1.5, 1.6, 0.20)),
                part("TraditionalStack", "2.5–2.7×", "×", Ends(2.5, 2.7, 0.20)),
            ])
            .tested(&[Simulation], "32 GB table, 2 GB of DRAM"),
    )
    .judged(&[Micro, Gups], verdicts::programs::gups),
    record(
        claim("FL17", "Fig. 9a", "GUPS, pages moved")
            .states("GUPS moves 1.3 to 1.5 times fewer pages than on either baseline.")
            .values(&[
                part("UnifiedMMap over FlatFlash", "1.3–1.5×", "×", Ends(1.3, 1.5, 0.20)),
                part("TraditionalStack over FlatFlash", "1.3–1.5×", "×", Ends(1.3, 1.5, 0.20)),
                part("UnifiedMMap below TraditionalStack", "slightly", "", Holds("sign"))
                    .by_construction(LESS_DRAM),
            ])
            .tested(&[Simulation], "as FL16"),
    )
    .judged(&[Micro, Gups], verdicts::programs::pages_of_gups),
    record(
        claim("FL18", "Fig. 9b", "GUPS, gain over the size of the SSD-Cache")
            .states("The gain of GUPS rises with the size of the SSD-Cache.")
            .value("rises", "", Holds("sign"))
            .tested(&[Simulation], "sweep at SSD:DRAM 512"),
    )
    .judged(&[Micro, Gups], verdicts::programs::caches_of_gups),
    record(
        claim("FL19", "Fig. 10", "PageRank, gain over")
            .states(
                "PageRank gains 1.1 to 1.6 times over UnifiedMMap and 1.2 to 3.3 times over \
                 TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "1.1–1.6×", "×", Ends(1.1, 1.6, 0.20)),
                part("TraditionalStack", "1.2–3.3×", "×", Ends(1.2, 3.3, 0.20)),
            ])
            .tested(&[Simulation], "graphs of Twitter's and Friendster's size"),
    )
    .judged(&[Graphs], verdicts::programs::page_rank),
    record(
        claim("FL20", "Fig. 10", "connected components, gain over")
            .states(
                "Connected components gain 1.1 to 2.3 times over UnifiedMMap and 1.3 to 4.8 \
                 times over TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "1.1–2.3×", "×", Ends(1.1, 2.3, 0.20)),
                part("TraditionalStack", "1.3–4.8×", "×", Ends(1.3, 4.8, 0.20)),
            ])
            .tested(&[Simulation], "as FL19"),
    )
    .judged(&[Graphs], verdicts::programs::components),
    record(
        claim("FL21", "Fig. 10", "graphs, gain over SSD:DRAM")
            .states("The gain of graph programs grows with the ratio of SSD to DRAM.")
            .value("grows", "", Holds("sign"))
            .tested(&[Simulation], "sweep"),
    )
    .judged(&[Graphs], verdicts::programs::larger_graphs),
    record(
        claim("FL22", "Fig. 11", "YCSB B and D, p99 below")
            .states(
                "The p99 of YCSB B and D falls by 2.0 to 2.8 times against UnifiedMMap and 1.8 \
                 to 2.7 times against TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "2.0–2.8×; mean 2.2×", "×", Between(1.6, 3.2)),
                part("TraditionalStack", "1.8–2.7×; mean 2.5×", "×", Between(1.6, 3.2)),
            ])
            .tested(&[Simulation], "16 clients, pairs of 64 B, 64 M operations, SSD:DRAM 256")
            .note(
                "The caption's ranges and the text's means put the two baselines in opposite \
                 order.",
            ),
    )
    .judged(&[Ycsb], verdicts::programs::tails),
    record(
        claim("FL23", "Fig. 12", "YCSB B and D, mean latency below")
            .states(
                "The mean latency of YCSB B and D falls by 1.1 to 1.4 times against UnifiedMMap \
                 and 1.2 to 3.2 times against TraditionalStack.",
            )
            .values(&[
                part("UnifiedMMap", "1.1–1.4×", "×", Ends(1.1, 1.4, 0.20)),
                part("TraditionalStack", "1.2–3.2×", "×", Ends(1.2, 3.2, 0.20)),
            ])
            .tested(&[Simulation], "as FL22")
            .note(
                "The paper calls YCSB-D Zipfian; the published YCSB-D prefers the latest records.",
            ),
    )
    .judged(&[Ycsb], verdicts::programs::mean_latencies),
    record(
        claim("FL24", "§5.4", "YCSB-B at 16×, pages moved: TraditionalStack over FlatFlash")
            .states("YCSB-B at 16 times the DRAM moves 2.7 M pages, TraditionalStack 3.9 M.")
            .value("3.9 M to 2.7 M (1.44×)", "×", Relative(1.44, 0.20))
            .tested(&[Simulation], "as FL22"),
    )
    .judged(&[Ycsb], verdicts::programs::pages_of_ycsb),
    record(
        claim("FL25", "Fig. 13", "file systems, gain")
            .states(
                "File systems gain 2.6 to 18.9 times (EXT4), 5.3 to 11.2 times (XFS), 3.2 to \
                 15.3 times (BtrFS).",
            )
            .values(&[
                part("EXT4", "2.6–18.9×", "×", Order(2.6, 18.9)),
                part("XFS", "5.3–11.2×", "×", Order(5.3, 11.2)),
                part("BtrFS", "3.2–15.3×", "×", Order(3.2, 15.3)),
            ])
            .tested(&[Simulation], "50 M operations")
            .by_construction(CLOSED_FORM),
    )
    .judged(&[], verdicts::by_file_system),
    record(
        input(
            "FL26",
            "§3.5",
            "bytes of a file creation (writes; reads); of its metadata; of a transaction's log",
            "16–116 KB; 24–40 KB; 8–256 B; 64–1,424 B",
        )
        .states(
            "Input: the bytes that a file creation writes and reads, of its metadata, and \
                 of a transaction's log.",
        ),
    ),
    record(
        claim("FL27", "Fig. 14", "databases, gain over")
            .states(
                "Databases gain 1.1 to 3.0 times over UnifiedMMap and 1.6 to 4.2 times over \
                 TraditionalStack, at 20 µs.",
            )
            .values(&[
                part("UnifiedMMap", "1.1–3.0×", "×", Ends(1.1, 3.0, 0.25)),
                part("TraditionalStack", "1.6–4.2×", "×", Ends(1.6, 4.2, 0.25)),
            ])
            .tested(&[Simulation], "20 µs device, 48 GB with 6 GB of buffer, 4 to 16 clients"),
    )
    .judged(&[Databases], verdicts::databases),
    record(
        claim("FL28", "Fig. 14d", "databases, 16 threads, faster devices, over UnifiedMMap")
            .states("On faster devices databases gain up to 5.3 times over UnifiedMMap.")
            .value("up to 5.3×", "×", Between(4.0, 6.5))
            .tested(&[Simulation], "latency sweep"),
    )
    .judged(&[Databases], verdicts::faster_devices),
    record(
        claim("FL29", "Table 3", "against DRAM-only")
            .states(
                "Programs run 1.2 to 11.0 times slower than on DRAM-only, and 1.3 to 3.8 times \
                 better for the money.",
            )
            .values(TABLE_3_PARTS)
            .tested(
                &[Simulation, Analytic],
                "slow-down by simulation; effectiveness is saving over slow-down",
            )
            .note("The saving of YCSB and the databases cannot be derived from what is printed."),
    )
    .judged(&[Gups, Graphs, Ycsb, Databases], verdicts::tables::table_3),
    record(
        claim("FL30", "§5.7", "cost of memory")
            .states("Memory costs 2.4 to 15.0 times less, at $30 and $2 a GB and $1,500.")
            .values(&[
                part("prices", "$30 and $2 a GB, +$1,500", "", Input),
                part("saving at SSD:DRAM 512", "14.6×", "×", Rounds(14.6, 1)),
                part("saving at SSD:DRAM 256", "15.0×", "×", Rounds(15.0, 1)),
                part("least performance for the money", "1.3×", "×", Rounds(1.3, 1)),
                part("most performance for the money", "3.8×", "×", Rounds(3.8, 1)),
            ])
            .tested(&[Analytic], "cost model with explicit sizes")
            .by_construction(SAME_FORMULA),
    )
    .by_formula(formulas::cost),
];

/// The claims without their judges.
pub(crate) const CLAIMS: Claims = Claims(&claims(&RECORDS));

/// The reason why a claim that arithmetic decides is no test of the model.
const SAME_FORMULA: &str = "Both sides are the same formula.";

/// The reason why the gain of random reads over UnifiedMMap is no test of the model.
const SUM_OF_TIMES: &str = "A cold line costs the sum of Table 2's times: they are inputs.";

/// The reason why TraditionalStack moves more pages than UnifiedMMap.
const LESS_DRAM: &str =
    "TraditionalStack keeps its tables in the same DRAM, and so has less of it.";

/// The reason why the file systems' claims are no test of the simulated machine.
const CLOSED_FORM: &str = "A closed form of what an operation writes and of the printed times.";

/// Table 1, programs: performance and lifetime relative to UnifiedMMap.
const TABLE_1: &[Part] = &[
    part("GUPS", "1.6×", "×", Relative(1.6, 0.25)),
    part("GUPS, lifetime", "1.3×", "×", Relative(1.3, 0.15)),
    part("PageRank", "1.3×", "×", Relative(1.3, 0.15)),
    part("PageRank, lifetime", "1.5×", "×", Relative(1.5, 0.25)),
    part("CC", "1.5×", "×", Relative(1.5, 0.25)),
    part("CC, lifetime", "1.9×", "×", Relative(1.9, 0.25)),
    part("YCSB-B", "2.1×", "×", Relative(2.1, 0.25)),
    part("YCSB-B, lifetime", "1.3×", "×", Relative(1.3, 0.15)),
    part("YCSB-D", "2.2×", "×", Relative(2.2, 0.25)),
    part("YCSB-D, lifetime", "1.3×", "×", Relative(1.3, 0.15)),
    part("TPCC", "1.9×", "×", Relative(1.9, 0.25)),
    part("TPCC, lifetime", "1.0×", "×", Relative(1.0, 0.25)),
    part("TPCB", "2.8×", "×", Relative(2.8, 0.25)),
    part("TPCB, lifetime", "1.0×", "×", Relative(1.0, 0.25)),
    part("TATP", "1.3×", "×", Relative(1.3, 0.15)),
    part("TATP, lifetime", "1.0×", "×", Relative(1.0, 0.25)),
];

/// Table 1, file systems.
const TABLE_1_FILES: &[Part] = &[
    part("CreateFile", "3.6–11.2×", "×", Ends(3.6, 11.2, 0.40)),
    part("CreateFile, lifetime", "2.2–8.4×", "×", Ends(2.2, 8.4, 0.40)),
    part("RenameFile", "2.6–6.7×", "×", Ends(2.6, 6.7, 0.40)),
    part("RenameFile, lifetime", "1.5–12.1×", "×", Ends(1.5, 12.1, 0.40)),
    part("CreateDirectory", "3.6–15.3×", "×", Ends(3.6, 15.3, 0.40)),
    part("CreateDirectory, lifetime", "1.4–9.8×", "×", Ends(1.4, 9.8, 0.40)),
    part("VarMail", "3.2–6.2×", "×", Ends(3.2, 6.2, 0.40)),
    part("VarMail, lifetime", "1.9–8.0×", "×", Ends(1.9, 8.0, 0.40)),
    part("WebServer", "5.3–18.9×", "×", Ends(5.3, 18.9, 0.40)),
    part("WebServer, lifetime", "1.5–3.1×", "×", Ends(1.5, 3.1, 0.40)),
];

/// Table 3: the simulated slow-down, and the effectiveness, which is saving divided by slow-down.
const TABLE_3_PARTS: &[Part] = &[
    part("GUPS, slow-down", "8.9×", "×", Relative(8.9, 0.25)),
    part("GUPS, effectiveness", "1.6×", "×", Rounds(1.6, 1)),
    part("PageRank, slow-down", "11.0×", "×", Relative(11.0, 0.25)),
    part("PageRank, effectiveness", "1.3×", "×", Rounds(1.3, 1)),
    part("CC, slow-down", "6.9×", "×", Relative(6.9, 0.25)),
    part("CC, effectiveness", "2.1×", "×", Rounds(2.1, 1)),
    part("YCSB-B, slow-down", "6.1×", "×", Relative(6.1, 0.25)),
    part("YCSB-B, effectiveness", "2.5×", "×", Rounds(2.5, 1)),
    part("YCSB-D, slow-down", "5.5×", "×", Relative(5.5, 0.25)),
    part("YCSB-D, effectiveness", "2.7×", "×", Rounds(2.7, 1)),
    part("TPCC, slow-down", "1.4×", "×", Relative(1.4, 0.25)),
    part("TPCC, effectiveness", "1.7×", "×", Rounds(1.7, 1)),
    part("TPCB, slow-down", "1.9×", "×", Relative(1.9, 0.25)),
    part("TPCB, effectiveness", "1.4×", "×", Rounds(1.4, 1)),
    part("TATP, slow-down", "1.2×", "×", Relative(1.2, 0.25)),
    part("TATP, effectiveness", "3.8×", "×", Rounds(3.8, 1)),
];
