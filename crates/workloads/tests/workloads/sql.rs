//! Statements on a table in key order: what they leave of it.

use ebbtide_workloads::Masstree;
use ebbtide_workloads::{Program, Scatter, Workload};

use crate::common::{plain, program};

/// The table of `program`, and the rows that job `job` is about.
fn parts(program: &Program, job: u64) -> (&Masstree, [u64; 16]) {
    match program {
        Program::SqlSeqSelect(sql) => (sql.table(), sql.job(job)),
        Program::SqlRandomSelect(sql) => (sql.table(), sql.job(job)),
        Program::SqlSeqInsert(sql) => (sql.table(), sql.job(job)),
        Program::SqlRandomInsert(sql) => (sql.table(), sql.job(job)),
        Program::SqlUpdate(sql) => (sql.table(), sql.job(job)),
        other => panic!("{:?} is no statement", other.kind()),
    }
}

#[test]
fn every_row_is_there_afterwards_and_was_written_as_often_as_asked() {
    for (name, writes) in [
        ("sql-seq-select", 0),
        ("sql-random-select", 0),
        ("sql-seq-insert", 1),
        ("sql-random-insert", 1),
        ("sql-update", 1),
    ] {
        let program = program(name, 40, Scatter::Pages);
        let (table, _) = parts(&program, 0);
        let mut memory = plain(&program);
        let mut versions = vec![0; table.keys() as usize];
        for job in 0..200 {
            program.run(job, &mut memory).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            parts(&program, job).1.into_iter().for_each(|row| versions[row as usize] += writes);
        }
        for (row, version) in (0..).zip(versions) {
            assert_eq!(table.get(&mut memory, row).unwrap().version, version, "{name}: {row}");
        }
    }
}

#[test]
fn statements_in_order_go_through_all_rows_and_start_again() {
    let program = program("sql-seq-insert", 40, Scatter::Pages);
    let (table, _) = parts(&program, 0);
    let stream: Vec<u64> = (0..table.keys()).flat_map(|job| parts(&program, job).1).collect();
    assert!((0..).zip(stream).all(|(position, row): (u64, u64)| row == position % table.keys()));
}

#[test]
fn a_select_finds_a_row_that_went_out_of_the_index() {
    for name in ["sql-seq-select", "sql-random-select"] {
        let program = program(name, 40, Scatter::Pages);
        let (table, rows) = parts(&program, 3);
        let mut memory = plain(&program);
        // Keys lie 16 apart.
        let key = (rows[5] * 16).to_be_bytes();
        table.tree().remove(&mut memory, &key).unwrap();
        let wrong = program.run(3, &mut memory).unwrap_err().to_string();
        assert!(wrong.contains("leads to"), "{name}: {wrong}");
    }
}
