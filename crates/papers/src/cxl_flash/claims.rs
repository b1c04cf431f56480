//! The claims of the CXL-flash study (ATC'23): CX1 to CX30. Shares are of requests below 1 µs.

use ebbtide_study::claims::Accept::{
    AtLeast, AtMost, Between, Context, Holds, Near, Order, Relative, Rounds,
};
use ebbtide_study::claims::Method::{Analytic, Simulation};
use ebbtide_study::claims::{Claims, Part, claim, input, not_testable, part};

use super::CxlFlash;
use super::experiments::Runs::{self, Captured, Real, Synthetic, Traces};
use super::verdicts::{self, captured, counterparts, real, synthetic};
use crate::record::{Record, claims, record};

/// Every claim: id, source and quantity, then its values, then its test.
pub(crate) const RECORDS: [Record<Runs, CxlFlash>; 30] = [
    record(
        claim("CX1", "observation 1", "requests below 1 µs over five programs")
            .states("68% to 91% of the requests of five programs take less than 1 µs.")
            .values(&[
                part("least (Page Rank)", "68%", "%", Near(68.0, 5.0)),
                part("most", "91%", "%", Near(91.0, 5.0)),
                part("captured pagerank", "least", "", Holds("rank")).aside(),
            ])
            .tested(&[Simulation], "the best prefetcher of each program")
            .note("The bar of 91% is not legible. BERT reaches 86%, and 91% only with hints."),
    )
    .judged(&[Real, Captured], |claim, study| {
        [real::shares(claim, study), verdicts::aside(claim, study, counterparts::least_share)]
            .concat()
    }),
    record(
        claim("CX2", "observation 2", "shortest lifetime (Page Rank)")
            .states("The shortest lifetime, Page Rank's, is 3.1 years.")
            .values(&[
                part("years", "3.1 y", " y", Relative(3.1, 0.20)),
                part("captured pagerank", "shortest", "", Holds("rank")).aside(),
            ])
            .tested(&[Analytic], "lifetime by flash pages written")
            .note(YEARS),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::shortest_lifetime(claim, study),
            verdicts::aside(claim, study, counterparts::shortest_lifetime),
        ]
        .concat()
    }),
    record(
        claim("CX3", "observation 2", "lifetime with Radiosity")
            .states("Radiosity's lifetime is 403 years.")
            .values(&[
                part("years", "403 y (bars 402)", " y", Relative(403.0, 0.20)),
                part("captured povray", "longest", "", Holds("rank")).aside(),
            ])
            .tested(&[Analytic], "lifetime by flash pages written")
            .note(YEARS),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::longest_lifetime(claim, study),
            verdicts::aside(claim, study, counterparts::longest_lifetime),
        ]
        .concat()
    }),
    record(
        not_testable(
            "CX4",
            "Fig. 13c",
            "lifetime by program and prefetcher",
            "89, 61, 74, 40; 3, 2; 402, 403; 76, 77, 79, 81, 83, 88",
            "Bars legible in part, in an order that is not sure.",
        )
        .states(
            "Lifetime by program and prefetcher: bars that are legible in part. Not \
                 testable.",
        ),
    ),
    record(
        claim("CX5", "observation 3", "price of DRAM over NAND, and performance for the money")
            .states(
                "DRAM costs 17 to 100 times as much as NAND; performance for the money is 11 to \
                 91 times DRAM's.",
            )
            .values(&[
                part("least price ratio", "17×", "×", Rounds(17.0, 0)).by_construction(PRICES),
                part("greatest price ratio", "100×", "×", Rounds(100.0, 0)).by_construction(PRICES),
                part("least performance for the money", "11×", "×", Rounds(11.0, 0)),
                part("most performance for the money", "91×", "×", Rounds(91.0, 0)),
            ])
            .tested(
                &[Simulation, Analytic],
                "$5 against $0.05 to $0.30 a GB, and our shares of CX1",
            ),
    )
    .judged(&[Real, Captured], verdicts::prices),
    record(
        claim("CX6", "Fig. 5", "synthetic programs")
            .states(
                "Without a cache the mean latency is hundreds of µs at intervals of at most 2 \
                 µs; a cache shortens the first and lengthens the second.",
            )
            .values(&[
                part("mean latency without a cache", "hundreds of µs", " µs", Order(100.0, 600.0)),
                part("interval at flash without a cache", "≤2 µs", " µs", Order(0.0, 2.0)),
                part("a cache", "shortens the first, lengthens the second", "", Holds("sign")),
            ])
            .tested(&[Simulation], "32 × 32 SLC"),
    )
    .judged(&[Synthetic], synthetic::caches),
    record(
        claim("CX7", "§4.1", "mean latency with 8 GB of cache")
            .states("Even with 8 GB of cache, matrix multiply and min heap stay far above 46 ns.")
            .values(&[
                part("matrix multiply", "far above 46 ns", "", Holds("sign")),
                part("min heap", "far above 46 ns", "", Holds("sign")),
            ])
            .tested(&[Simulation], "as CX6"),
    )
    .judged(&[Synthetic], synthetic::far_above_dram),
    record(
        claim("CX8", "Fig. 6", "repeated reads among flash reads")
            .states("More than 90% of the flash reads of three programs repeat a read in flight.")
            .values(&[
                part("hash map", ">90%", "%", AtLeast(85.0)),
                part("matrix multiply", ">90%", "%", AtLeast(85.0)),
                part("min heap", ">90%", "%", AtLeast(85.0)),
            ])
            .tested(&[Simulation], "a cache of 8 GB alone")
            .note(
                "A draft of this plot divided page numbers by 4096. The authors do not say \
                 whether the published one does.",
            ),
    )
    .judged(&[Synthetic], synthetic::repeated_reads),
    record(
        claim("CX9", "Fig. 7", "miss status registers shorten tails")
            .states(
                "Miss status registers shorten the tails of these programs strongly, those of \
                 random and stride a little.",
            )
            .values(&[
                part("hash map, matrix multiply, min heap", "strongly", "", Holds("shape")),
                part("random, stride", "a little", "", Holds("shape")),
            ])
            .tested(&[Simulation], "distribution of latencies"),
    )
    .judged(&[Synthetic], synthetic::miss_registers),
    record(
        claim("CX10", "Fig. 8a", "matrix multiply, requests below 1 µs")
            .states("A next-line prefetcher raises matrix multiply's share from 64% to 76%.")
            .values(&[
                part("without a prefetcher", "64%", "%", Near(64.0, 6.0)),
                part("next line, degree 1, offset 16", "76%", "%", Near(76.0, 6.0)),
            ])
            .tested(&[Simulation], "cache of 8 GB"),
    )
    .judged(&[Synthetic], synthetic::one_line_ahead),
    record(
        claim("CX11", "Fig. 8b", "offset of the next-line prefetcher")
            .states(
                "Three programs are best at offset 16 and worse at 64; stride rises with the \
                 offset.",
            )
            .values(&[
                part(
                    "hash map, matrix multiply, min heap",
                    "best at 16, worse at 64",
                    "",
                    Holds("shape"),
                ),
                part("stride", "rises", "", Holds("shape")),
            ])
            .tested(&[Simulation], "degree 4, offsets 4, 16, 64"),
    )
    .judged(&[Synthetic], synthetic::offsets),
    record(
        claim("CX12", "Fig. 9a", "kinds of flash, with a cache")
            .states("With a cache ULL and SLC are alike, MLC and TLC clearly worse.")
            .values(&[
                part("ULL and SLC", "alike", "", Holds("sign")),
                part("MLC and TLC", "clearly worse", "", Holds("sign")),
            ])
            .tested(&[Simulation], "stride, caches of 0, 1, 2, 4 GB"),
    )
    .judged(&[Synthetic], synthetic::kinds_of_flash),
    record(
        claim("CX13", "Fig. 9b", "lifetime by kind of flash")
            .states(
                "ULL and SLC last more than 4 years with a cache, MLC and TLC less than one \
                 with 1 GB.",
            )
            .values(&[
                part("ULL and SLC with a cache", ">4 y", " y", AtLeast(3.0)),
                part("MLC and TLC with 1 GB", "<1 y", " y", AtMost(1.25)),
            ])
            .tested(&[Simulation, Analytic], "CX12's runs")
            .note("Bars cut off by the picture read 34.78, 6.54 and 11.47. Both bounds are ±25%."),
    )
    .judged(&[Synthetic], synthetic::wear_of_flash),
    record(
        claim("CX14", "Fig. 10", "parallelism against cache")
            .states(
                "With enough cache 8 × 4 chips suffice; random depends on the cache, stride on \
                 parallelism.",
            )
            .values(&[
                part("enough cache", "8 × 4 chips suffice", "", Holds("sign")),
                part("random", "more sensitive to the cache", "", Holds("sign")),
                part("stride", "more sensitive to parallelism", "", Holds("sign")),
            ])
            .tested(&[Simulation], "sweep of both"),
    )
    .judged(&[Synthetic], synthetic::chips_and_cache),
    record(
        claim("CX15", "Table 3", "requests below 1 µs, by virtual and physical addresses")
            .states(
                "The share falls from virtual to physical addresses, most in fragmented memory.",
            )
            .values(TABLE_3)
            .tested(&[Simulation], "8 × 8, 512 MiB, next line"),
    )
    .judged(&[Synthetic, Captured], |claim, study| {
        [synthetic::addresses(claim, study), verdicts::aside(claim, study, captured::addresses)]
            .concat()
    }),
    record(
        claim("CX16", "§3.2", "greatest error of virtual addresses (matrix multiply)")
            .states("The greatest error of virtual addresses is 50.3 percentage points.")
            .value("50.3 pp", " pp", Between(35.0, 60.0))
            .tested(&[Simulation], "CX15's runs"),
    )
    .judged(&[Synthetic], synthetic::greatest_error),
    record(
        claim("CX17", "Fig. 11", "replacement")
            .states("More ways are better, and CFLRU is the best policy for BERT, XZ and YCSB.")
            .values(&[
                part("more ways", "better", "", Holds("sign")),
                part("CFLRU for BERT, XZ, YCSB", "best", "", Holds("sign")),
                part("more ways, captured programs", "better", "", Holds("sign")).aside(),
                part("CFLRU for captured transformer", "best", "", Holds("sign")).aside(),
                part("CFLRU for captured xz", "best", "", Holds("sign")).aside(),
                part("CFLRU for captured redis", "best", "", Holds("sign")).aside(),
            ])
            .tested(&[Simulation], "1, 4, 16 ways"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::replacement(claim, study),
            verdicts::aside(claim, study, captured::ways),
            verdicts::aside(claim, study, counterparts::replacement),
        ]
        .concat()
    }),
    record(
        claim("CX18", "Fig. 11c", "Radiosity, requests below 1 µs")
            .states("Radiosity has a share of at least 83% under any policy, 85% under the best.")
            .values(&[
                part("any policy", "≥83%", "%", AtLeast(79.0)),
                part("best policy", "85%", "%", Near(85.0, 4.0)),
            ])
            .tested(&[Simulation], "as CX17"),
    )
    .judged(&[Real], real::any_policy),
    record(
        claim("CX19", "Fig. 11", "requests below 1 µs without prefetching, best policy")
            .states("Without prefetching the best policy gives BERT 84% and Page Rank 65%.")
            .values(&[
                part("BERT", "84%", "%", Near(84.0, 5.0)),
                part("Page Rank", "65%", "%", Near(65.0, 5.0)),
                part("captured transformer over pagerank", "more", "", Holds("rank")).aside(),
            ])
            .tested(&[Simulation], "as CX17"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::best_policy(claim, study),
            verdicts::aside(claim, study, counterparts::without_prefetching),
        ]
        .concat()
    }),
    record(
        claim("CX20", "Fig. 12", "flash pages written")
            .states("BERT writes 0.7 M flash pages, Radiosity 1.0 M.")
            .values(&[
                part("BERT", "0.7 M", " M", Relative(0.7, 0.30)),
                part("Radiosity", "1.0 M", " M", Relative(1.0, 0.30)),
            ])
            .tested(&[Simulation], "CFLRU, 16 ways"),
    )
    .judged(&[Real], real::pages_to_flash),
    record(
        claim("CX21", "observation 1", "prefetching")
            .states("Prefetching hurts BERT, XZ and YCSB and helps Page Rank and Radiosity.")
            .values(&[
                part("BERT", "hurts", "", Holds("sign")),
                part("XZ", "hurts", "", Holds("sign")),
                part("YCSB", "hurts", "", Holds("sign")),
                part("Page Rank", "helps", "", Holds("sign")),
                part("Radiosity", "helps", "", Holds("sign")),
                part("captured transformer", "hurts", "", Holds("sign")).aside(),
                part("captured xz", "hurts", "", Holds("sign")).aside(),
                part("captured redis", "hurts", "", Holds("sign")).aside(),
                part("captured pagerank", "helps", "", Holds("sign")).aside(),
                part("captured povray", "helps", "", Holds("sign")).aside(),
            ])
            .tested(&[Simulation], "none, next line, feedback-directed, best offset, Leap"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [real::prefetching(claim, study), verdicts::aside(claim, study, counterparts::prefetching)]
            .concat()
    }),
    record(
        claim("CX22", "observation 1", "best offset on Radiosity")
            .states(
                "Best-offset raises Radiosity's share by 36% and turns 25% of its hits under \
                 miss into hits.",
            )
            .values(&[
                part("requests below 1 µs", "+36%", "", Holds("sign")),
                part("hits under miss that become hits", "25%", "%", Between(15.0, 35.0)),
                part("captured povray, requests below 1 µs", "more", "", Holds("sign")).aside(),
                part("captured povray, hits under miss", "fewer", "", Holds("sign")).aside(),
            ])
            .tested(&[Simulation], "CX21's runs")
            .note("The paper contradicts itself: 36% more than the 83–85% of CX18 is above 100%."),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::best_offset_on_radiosity(claim, study),
            verdicts::aside(claim, study, counterparts::best_offset_on_povray),
        ]
        .concat()
    }),
    record(
        claim("CX23", "§5.2", "Page Rank, most requests below 1 µs with prefetching")
            .states("With prefetching Page Rank reaches at most 68%.")
            .value("68%", "%", Near(68.0, 5.0))
            .tested(&[Simulation], "CX21's runs"),
    )
    .judged(&[Real], real::most_of_page_rank),
    record(
        claim("CX24", "observation 4", "prefetchers")
            .states(
                "Leap's accuracy is 85% on Radiosity and 27% on BERT; best-offset's on XZ is \
                 48% at a coverage of 4%.",
            )
            .values(&[
                part("Leap on Radiosity, accuracy", "85%", "%", Near(85.0, 12.0)),
                part("Leap on BERT, accuracy", "27%", "%", Near(27.0, 12.0)),
                part("best offset on XZ, accuracy", "48%", "%", Near(48.0, 12.0)),
                part("best offset on XZ, coverage", "4%", "%", Near(4.0, 3.0)),
                part(
                    "Leap on captured povray over transformer, accuracy",
                    "more",
                    "",
                    Holds("rank"),
                )
                .aside(),
                part(
                    "best offset on captured xz, accuracy over coverage",
                    "more",
                    "",
                    Holds("rank"),
                )
                .aside(),
            ])
            .tested(&[Simulation], "CX21's runs")
            .note(
                "The authors' simulator divides late prefetches by those issued, lets \
         Leap's vote follow the newest step, and calls pollution what exceeds 0.25.",
            ),
    )
    .judged(&[Real, Captured], |claim, study| {
        [real::accuracy(claim, study), verdicts::aside(claim, study, counterparts::accuracy)]
            .concat()
    }),
    record(
        claim("CX25", "observation 5", "low accuracy goes with high pollution")
            .states("Low accuracy goes with high pollution.")
            .values(&[
                part("BERT, YCSB", "correlated", "", Holds("rank")),
                part("captured programs", "correlated", "", Holds("rank")).aside(),
                part("captured transformer, redis", "correlated", "", Holds("rank")).aside(),
            ])
            .tested(&[Simulation], "CX21's runs"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::correlation(claim, study),
            verdicts::aside(claim, study, captured::correlation),
            verdicts::aside(claim, study, counterparts::correlation),
        ]
        .concat()
    }),
    record(
        claim("CX26", "observation 6", "best offset, virtual against physical")
            .states(
                "From virtual to physical addresses best-offset's accuracy on Page Rank falls \
                 from 99% to 42%, its coverage on BERT from 76% to 26%.",
            )
            .values(&[
                part("Page Rank, accuracy, virtual", "99%", "%", Near(99.0, 12.0)),
                part("Page Rank, accuracy, physical", "42%", "%", Near(42.0, 12.0)),
                part("BERT, coverage, virtual", "76%", "%", Near(76.0, 12.0)),
                part("BERT, coverage, physical", "26%", "%", Near(26.0, 12.0)),
                part("captured programs, accuracy", "falls", "", Holds("sign")).aside(),
                part("captured programs, coverage", "falls", "", Holds("sign")).aside(),
                part("captured pagerank, accuracy", "falls", "", Holds("sign")).aside(),
                part("captured transformer, coverage", "falls", "", Holds("sign")).aside(),
            ])
            .tested(&[Simulation], "both traces"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::addresses(claim, study),
            verdicts::aside(claim, study, captured::best_offset),
            verdicts::aside(claim, study, counterparts::addresses),
        ]
        .concat()
    }),
    record(
        claim("CX27", "observation 7", "BERT with hints, requests below 1 µs")
            .states("Hints raise BERT from 86% to 91%.")
            .values(&[
                part("without hints", "86%", "%", Near(86.0, 3.0)),
                part("at a chance of 10%", "91%", "%", Near(91.0, 3.0)),
                part("plateau", "91%", "%", Near(91.0, 3.0)),
                part("captured programs", "gain", "", Holds("sign")).aside(),
                part("captured transformer", "gain", "", Holds("sign")).aside(),
            ])
            .tested(&[Simulation], "top 0 to 5% of the frames, chances of 0 to 10%"),
    )
    .judged(&[Real, Captured], |claim, study| {
        [
            real::hints(claim, study),
            verdicts::aside(claim, study, captured::hints),
            verdicts::aside(claim, study, counterparts::hints),
        ]
        .concat()
    }),
    record(
        claim("CX28", "Tables 2 and 5", "statistics of the traces")
            .states(
                "Interval, share of reads, accesses, footprint and localities of the ten \
                 traces.",
            )
            .values(TABLES_2_AND_5)
            .tested(&[Simulation], "check of the traces")
            .note("Random and stride take 8 and 4 GiB by the text, 4 and 8 GiB by Table 2."),
    )
    .judged(&[Traces, Real], real::traces),
    record(
        claim("CX29", "§1", "growth a year: models; memory")
            .states("Context: models grow 14.1 times a year, memory 1.3 times.")
            .value("14.1×; 1.3×", "", Context),
    ),
    record(
        input("CX30", "talk", "defaults", "64 MiB of DRAM, 46 ns, CFLRU, 8 × 8, ULL")
            .states("Input: 64 MiB of DRAM, 46 ns, CFLRU, 8 × 8 chips, ULL."),
    ),
];

/// The claims without their judges.
pub(crate) const CLAIMS: Claims = Claims(&claims(&RECORDS));

const YEARS: &str = "The paper's year has 2,080 working hours, and its write amplification is 1.";

/// The reason why the intervals of synthetic programs are no test of the model.
const SPACED: &str = "An input: the traces are recorded at these intervals.";

/// The reason why prices are no test of the model.
const PRICES: &str = "A quotient of printed prices.";

/// Table 3: shares by virtual addresses, and whether five runs by physical ones have lower shares.
const TABLE_3: &[Part] = &[
    part("hash map, virtual", "96.9%", "%", Near(96.9, 5.0)),
    part("hash map, physical below", "86.7, 88.3, 74.5, 63.8, 63.9%", "", Holds("sign")),
    part("matrix multiply, virtual", "98.2%", "%", Near(98.2, 5.0)),
    part("matrix multiply, physical below", "72.7, 57.4, 59.2, 48.1, 47.9%", "", Holds("sign")),
    part("min heap, virtual", "97.8%", "%", Near(97.8, 5.0)),
    part("min heap, physical below", "92.1, 96.0, 75.6, 69.1, 69.4%", "", Holds("sign")),
    part("random, virtual", "32.2%", "%", Near(32.2, 5.0)),
    part("random, physical below", "26.4, 27.1, 28.0, 22.4, 21.8%", "", Holds("sign")),
    part("stride, virtual", "64.7%", "%", Near(64.7, 5.0)),
    part("stride, physical below", "64.3, 59.4, 64.5, 51.9, 52.0%", "", Holds("sign")),
    part("runs 4 and 5 (fragmented)", "worst", "", Holds("rank")),
    part("captured programs, physical below", "below", "", Holds("sign")).aside(),
];

/// Tables 2 and 5: interval of accesses, and share of reads. For real programs also accesses,
/// footprint, and locality in space and time.
const TABLES_2_AND_5: &[Part] = &[
    part("hash map, interval", "329 ns", " ns", Relative(329.0, 0.05)).by_construction(SPACED),
    part("hash map, reads", "53%", "%", Relative(53.0, 0.05)),
    part("matrix multiply, interval", "38 ns", " ns", Relative(38.0, 0.05)).by_construction(SPACED),
    part("matrix multiply, reads", "55%", "%", Relative(55.0, 0.05)),
    part("min heap, interval", "72 ns", " ns", Relative(72.0, 0.05)).by_construction(SPACED),
    part("min heap, reads", "50%", "%", Relative(50.0, 0.05)),
    part("random, interval", "76 ns", " ns", Relative(76.0, 0.05)).by_construction(SPACED),
    part("random, reads", "50%", "%", Relative(50.0, 0.05)),
    part("stride, interval", "146 ns", " ns", Relative(146.0, 0.05)).by_construction(SPACED),
    part("stride, reads", "50%", "%", Relative(50.0, 0.05)),
    part("BERT, interval", "297 ns", " ns", Relative(297.0, 0.05)),
    part("BERT, accesses", "41 M", " M", Relative(41.0, 0.05)),
    part("BERT, reads", "73%", "%", Relative(73.0, 0.05)),
    part("BERT, footprint", "0.5 GiB", " GiB", Relative(0.5, 0.05)),
    part("BERT, spatial locality", "0.64", "", Relative(0.64, 0.05)),
    part("BERT, temporal locality", "0.66", "", Relative(0.66, 0.05)),
    part("Page Rank, interval", "51 ns", " ns", Relative(51.0, 0.05)),
    part("Page Rank, accesses", "435 M", " M", Relative(435.0, 0.05)),
    part("Page Rank, reads", "68%", "%", Relative(68.0, 0.05)),
    part("Page Rank, footprint", "3.7 GiB", " GiB", Relative(3.7, 0.05)),
    part("Page Rank, spatial locality", "0.40", "", Relative(0.40, 0.05)),
    part("Page Rank, temporal locality", "0.42", "", Relative(0.42, 0.05)),
    part("Radiosity, interval", "1863 ns", " ns", Relative(1863.0, 0.05)),
    part("Radiosity, accesses", "61 M", " M", Relative(61.0, 0.05)),
    part("Radiosity, reads", "84%", "%", Relative(84.0, 0.05)),
    part("Radiosity, footprint", "1.6 GiB", " GiB", Relative(1.6, 0.05)),
    part("Radiosity, spatial locality", "0.93", "", Relative(0.93, 0.05)),
    part("Radiosity, temporal locality", "0.87", "", Relative(0.87, 0.05)),
    part("XZ, interval", "237 ns", " ns", Relative(237.0, 0.05)),
    part("XZ, accesses", "71 M", " M", Relative(71.0, 0.05)),
    part("XZ, reads", "55%", "%", Relative(55.0, 0.05)),
    part("XZ, footprint", "0.9 GiB", " GiB", Relative(0.9, 0.05)),
    part("XZ, spatial locality", "0.31", "", Relative(0.31, 0.05)),
    part("XZ, temporal locality", "0.38", "", Relative(0.38, 0.05)),
    part("YCSB, interval", "1137 ns", " ns", Relative(1137.0, 0.05)),
    part("YCSB, accesses", "110 M", " M", Relative(110.0, 0.05)),
    part("YCSB, reads", "65%", "%", Relative(65.0, 0.05)),
    part("YCSB, footprint", "1.8 GiB", " GiB", Relative(1.8, 0.05)),
    part("YCSB, spatial locality", "0.56", "", Relative(0.56, 0.05)),
    part("YCSB, temporal locality", "0.55", "", Relative(0.55, 0.05)),
];
