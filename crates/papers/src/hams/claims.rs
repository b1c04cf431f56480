//! The claims of HAMS (ISCA'21), from its summary: HM1 to HM12.

use ebbtide_study::claims::Accept::{
    Below, Between, Holds, Input, Near, NotTestable, Relative, Rounds,
};
use ebbtide_study::claims::Method::{Analytic, Real, Simulation};
use ebbtide_study::claims::{Claims, claim, input, not_testable, part};

use super::experiments::Runs::{self, Curves, Programs, Variations};
use super::{Hams, formulas, verdicts};
use crate::record::{Record, claims, record};

/// Every claim: id, source and quantity, then its values, then its test.
pub(crate) const RECORDS: [Record<Runs, Hams>; 12] = [
    record(
        claim("HM1", "§I, §IV", "performance of lhams-E over mmap")
            .states("lhams-E is 97% faster than mmap, on the mean of all workloads.")
            .value("+97%", "%", Near(97.0, 15.0))
            .tested(&[Simulation], "mean over workloads")
            .note("The paper lists two platforms and does not print the size of \"NVDIMM\"."),
    )
    .judged(&[Programs, Variations], verdicts::gain_of_lhams),
    record(
        claim("HM2", "§I, §IV", "performance of thams-E over mmap")
            .states("thams-E is 119% faster than mmap.")
            .value("+119%", "%", Near(119.0, 15.0))
            .tested(&[Simulation], "mean over workloads"),
    )
    .judged(&[Programs, Variations], verdicts::gain_of_thams),
    record(
        not_testable(
            "HM3",
            "§I",
            "energy, lhams-E and thams-E",
            "−41% and −45%",
            "The energy of an operation is unpublished.",
        )
        .states(
            "lhams-E takes 41% less energy, thams-E 45% less. Not testable: the energy of \
                 an operation is unpublished.",
        ),
    )
    .judged(&[Programs], verdicts::energy),
    record(
        claim("HM4", "§II, Fig. 3a", "share of the time in mmap and the I/O stack")
            .states("69% of the time goes to mmap and the I/O stack.")
            .value("69%", "%", Between(60.0, 78.0))
            .tested(
                &[Real, Simulation],
                "mmap runs; a slower device than Z-NAND makes the share smaller",
            )
            .by_construction("The computing between misses was derived from this share."),
    )
    .judged(&[Programs, Variations], verdicts::software),
    record(
        claim("HM5", "§II", "software time of a fault")
            .states("The software of a fault takes 15 to 20 µs.")
            .value("15–20 µs", " µs", Input)
            .tested(&[Real], "perf"),
    ),
    record(
        claim("HM6", "§II", "software time of a fault over Z-NAND's 3 µs")
            .states("That is about six times Z-NAND's 3 µs.")
            .values(&[
                part("least", "~6× (from 5)", "×", Rounds(5.0, 1)),
                part("most", "~6× (to 6.7)", "×", Rounds(6.7, 1)),
            ])
            .tested(&[Analytic], "arithmetic")
            .by_construction("The quotient of two inputs."),
    )
    .by_formula(formulas::over_z_nand),
    record(
        input("HM7", "§III-B", "peak bandwidth of the baseline", "20 GB/s")
            .states("Input: the baseline's peak bandwidth is 20 GB/s."),
    ),
    record(
        claim("HM8", "§III-B", "lookup in the mapping table")
            .states("A lookup in the mapping table takes less than 20 ns.")
            .value("<20 ns", " ns", Below(20.0))
            .tested(&[Analytic], "tCL and a burst")
            .by_construction("The sum of two inputs."),
    )
    .by_formula(formulas::lookup),
    record(
        claim("HM9", "§IV, Fig. 4", "best of thams-E over lhams-E")
            .states("thams-E gains at most 16% over lhams-E.")
            .value("16%", "%", Near(16.0, 5.0))
            .tested(&[Simulation], "sequential reads"),
    )
    .judged(&[Programs, Curves], verdicts::best_over_lhams),
    record(
        claim("HM10", "Fig. 4", "best of thams-E over mmap")
            .states("thams-E gains at most 4.8 times over mmap.")
            .value("4.8×", "×", Relative(4.8, 0.20))
            .tested(&[Simulation], "sequential reads"),
    )
    .judged(&[Programs, Curves], verdicts::best_over_mmap),
    record(
        claim("HM11", "Fig. 4", "pages a second over pages touched")
            .states(
                "Pages a second from cold: mmap starts slow, lhams-E recovers sooner, thams-E \
                 is flat, Optane has no cold misses.",
            )
            .values(&[
                part("mmap", "starts slow", "", Holds("shape")),
                part("lhams-E", "recovers sooner", "", Holds("shape")),
                part("thams-E", "flat", "", Holds("shape")),
                part("optane-P", "no cold misses", "", Holds("shape"))
                    .by_construction("All data lie in that memory."),
            ])
            .tested(&[Simulation, Real], "sequential reads from cold; mmap also on a real machine"),
    )
    .judged(&[Programs, Curves], verdicts::figure4),
    record(
        claim("HM12", "notes of a third party", "mmap and its parts beside other memories")
            .states(
                "mmap is 48% slower than NVDIMM, flash takes 13% of the time, the SSD's DRAM \
                 17% of the energy, 4.5 times over Optane. The energy is not testable, and \
                 flash's share is by construction.",
            )
            .values(&[
                part("mmap under NVDIMM", "48% slower", "%", Near(48.0, 15.0)),
                part("flash's share of mmap's time", "13%", "%", Near(13.0, 5.0))
                    .by_construction("The computing between misses was derived from this share."),
                part(
                    "energy of the SSD's DRAM",
                    "−17%",
                    "",
                    NotTestable("The energy of an operation is unpublished."),
                ),
                part("best of thams-E over optane-P", "4.5×", "×", Relative(4.5, 0.20)),
            ])
            .tested(&[Simulation], "means over programs; sequential reads for Optane")
            .note(
                "The notes do not say which programs these are, nor which design is 4.5 times \
                 Optane's.",
            ),
    )
    .judged(&[Programs, Curves], verdicts::beside_others),
];

/// The claims without their judges.
pub(crate) const CLAIMS: Claims = Claims(&claims(&RECORDS));
