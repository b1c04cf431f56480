//! A page that cannot be read ends one job alone: nothing it held stays held, nothing it had not
//! finished reading is changed.

use ebbtide_testbed::catch_fault;
use ebbtide_workloads::{Kind, Program, Scatter, Workload};

use crate::common::{plain, program};

#[test]
fn a_fault_before_the_first_store_changes_nothing_and_frees_the_latches() {
    for name in Kind::ALL.map(Kind::name) {
        let program = program(name, 100, Scatter::Pages);
        for job in 0..20 {
            // Accesses before the first record is stored: 2 touches, 2 steps for each latch, 2
            // loads.
            let latches = match &program {
                Program::ArraySwap(array) if array.job(job)[0] != array.job(job)[1] => 2,
                _ => 1,
            };
            let accesses = match &program {
                // Its first word is stored by its second access.
                Program::Gups(_) | Program::GupsFromOne(_) => 2,
                // A line is neither touched nor looked up first: it is latched and read.
                Program::SeqWrite(_) | Program::RandomWrite(_) => 4,
                _ => 4 + 2 * latches,
            };
            for faulty in 0..accesses {
                let mut memory = plain(&program);
                let fresh = memory.words.clone();
                memory.failing = faulty..faulty + 1;
                let _faulted_or_not = catch_fault(|| program.run(job, &mut memory));
                memory.failing = 0..0;
                let changed: Vec<usize> =
                    (0..fresh.len()).filter(|&word| fresh[word] != memory.words[word]).collect();
                let latches_only = changed.iter().all(|word| word % 8 == 0);
                assert!(latches_only, "{name}: fault at {faulty} changed {changed:?}");
                assert!(changed.iter().all(|&word| memory.words[word] & 1 == 0), "{name}: held");
                program.run(job, &mut memory).unwrap();
            }
        }
    }
}
