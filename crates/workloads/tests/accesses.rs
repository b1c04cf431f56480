//! Programs whose accesses are computed without memory: the accesses are those of their jobs.

mod common;

use common::{plain, program};
use ebbtide_core::{Addr, Memory, Value};
use ebbtide_testbed::Plain;
use ebbtide_workloads::{Accesses, Kind, Scatter, Touched, Workload};

/// A memory of one job that notes its accesses.
struct Noting {
    memory: Plain,
    noted: Vec<Touched>,
}

impl Memory for Noting {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.noted.push(Touched { at, write: false });
        self.memory.load(at)
    }

    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.noted.push(Touched { at, write: true });
        self.memory.store(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.noted.push(Touched { at, write: true });
        self.memory.compare_exchange(at, current, new)
    }

    fn work(&mut self, instructions: u64) {
        self.memory.work(instructions);
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        self.memory.wait(at, seen);
    }

    fn wake(&mut self, at: Addr) {
        self.memory.wake(at);
    }
}

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
            let mut run = Noting { memory: plain(&program), noted: Vec::new() };
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
