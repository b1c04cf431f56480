//! Programs whose accesses are computed without memory: the accesses are those of their jobs.

use ebbtide_workloads::{Accesses, Kind, Scatter, Workload};

use crate::common::{Noting, plain, program};

#[test]
fn computed_accesses_are_those_of_the_jobs() {
    let mut computing = Vec::new();
    for kind in Kind::ALL {
        for (pages, scatter) in [(300, Scatter::Pages), (40, Scatter::Keys)] {
            let program = program(kind.name(), pages, scatter);
            let mut accesses = Accesses::default();
            if !program.accesses(0, &mut accesses) {
                assert_eq!(accesses.all(), [], "{kind}");
                continue;
            }
            computing.push(kind);
            let mut memory = plain(&program);
            let mut run = Noting { memory: &mut memory, noted: Vec::new() };
            // A third of the jobs are not run, so their stores are left out.
            for job in (0..600).filter(|job| job % 3 != 2) {
                accesses.clear();
                assert!(program.accesses(job, &mut accesses));
                run.noted.clear();
                program.run(job, &mut run).unwrap();
                assert_eq!(accesses.all(), run.noted, "job {job} of {kind}");
            }
        }
    }
    computing.dedup();
    assert!(computing.len() >= 9, "{computing:?}");
}
