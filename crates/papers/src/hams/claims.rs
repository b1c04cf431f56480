//! What HAMS (ISCA'21) claims, from its summary: HM1 to HM12.

use ebbtide_study::claims::Accept::{Below, Between, Holds, Input, Near, Relative, Rounds};
use ebbtide_study::claims::Method::{Analytic, Real, Simulation};
use ebbtide_study::claims::Values::Many;
use ebbtide_study::claims::{Claims, claim, input, not_testable, one, part};

/// Every claim: id, source, quantity, values, where it is tested, experiment.
pub const CLAIMS: Claims = Claims(&[
    claim(
        "HM1",
        "§I, §IV",
        "performance of lhams-E over mmap",
        one("+97%", "%", Near(97.0, 15.0)),
        &[Simulation],
        "mean over workloads",
    )
    .note("Contradiction F13: two platforms are listed, and the size of \"NVDIMM\" is not."),
    claim(
        "HM2",
        "§I, §IV",
        "performance of thams-E over mmap",
        one("+119%", "%", Near(119.0, 15.0)),
        &[Simulation],
        "mean over workloads",
    ),
    not_testable(
        "HM3",
        "§I",
        "energy, lhams-E and thams-E",
        "−41% and −45%",
        "The energy of an operation is unpublished.",
    ),
    claim(
        "HM4",
        "§II, Fig. 3a",
        "share of the time in mmap and the I/O stack",
        one("69%", "%", Between(60.0, 78.0)),
        &[Real, Simulation],
        "mmap runs; a slower device than Z-NAND makes the share smaller",
    ),
    claim("HM5", "§II", "software time of a fault", one("15–20 µs", " µs", Input), &[Real], "perf"),
    claim(
        "HM6",
        "§II",
        "software time of a fault over Z-NAND's 3 µs",
        Many(&[
            part("least", "~6× (from 5)", "×", Rounds(5.0, 1)),
            part("most", "~6× (to 6.7)", "×", Rounds(6.7, 1)),
        ]),
        &[Analytic],
        "arithmetic",
    ),
    input("HM7", "§III-B", "peak bandwidth of the baseline", "20 GB/s"),
    claim(
        "HM8",
        "§III-B",
        "lookup in the mapping table",
        one("<20 ns", " ns", Below(20.0)),
        &[Analytic],
        "tCL and a burst",
    ),
    claim(
        "HM9",
        "§IV, Fig. 4",
        "best of thams-E over lhams-E",
        one("16%", "%", Near(16.0, 5.0)),
        &[Simulation],
        "sequential reads",
    ),
    claim(
        "HM10",
        "Fig. 4",
        "best of thams-E over mmap",
        one("4.8×", "×", Relative(4.8, 0.20)),
        &[Simulation],
        "sequential reads",
    ),
    claim(
        "HM11",
        "Fig. 4",
        "pages a second over pages touched",
        Many(&[
            part("mmap", "starts slow", "", Holds("shape")),
            part("lhams-E", "recovers sooner", "", Holds("shape")),
            part("thams-E", "flat", "", Holds("shape")),
            part("optane-P", "no cold misses", "", Holds("shape")),
        ]),
        &[Simulation, Real],
        "sequential reads from cold; mmap also on a real machine",
    ),
    not_testable(
        "HM12",
        "notes of a third party",
        "mmap against NVDIMM; flash share; energy of SSD DRAM; over Optane",
        "48% slower; 13%; −17%; 4.5×",
        "Second-hand, and about hardware we do not have.",
    ),
]);
