//! Statements on a table in key order: what they leave of it.

mod common;

use common::{Plain, program};
use ebbtide_workloads::masstree::Masstree;
use ebbtide_workloads::{Program, Scatter, Workload};

/// The table of `program`, and the rows that its job `job` is about.
fn parts(program: &Program) -> (&Masstree, Box<dyn Fn(u64) -> Vec<u64> + '_>) {
    match program {
        Program::SqlSeqSelect(sql) => (sql.table(), Box::new(|job| sql.job(job).to_vec())),
        Program::SqlRandomSelect(sql) => (sql.table(), Box::new(|job| sql.job(job).to_vec())),
        Program::SqlSeqInsert(sql) => (sql.table(), Box::new(|job| sql.job(job).to_vec())),
        Program::SqlRandomInsert(sql) => (sql.table(), Box::new(|job| sql.job(job).to_vec())),
        Program::SqlUpdate(sql) => (sql.table(), Box::new(|job| sql.job(job).to_vec())),
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
        let (table, rows) = parts(&program);
        let mut memory = Plain::new(&program);
        let mut versions = vec![0; table.keys() as usize];
        for job in 0..200 {
            program.run(job, &mut memory).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            rows(job).into_iter().for_each(|row| versions[row as usize] += writes);
        }
        for (row, version) in (0..).zip(versions) {
            assert_eq!(table.get(&mut memory, row).unwrap().version, version, "{name}: {row}");
        }
    }
}

#[test]
fn statements_in_order_go_through_all_rows_and_start_again() {
    let program = program("sql-seq-insert", 40, Scatter::Pages);
    let (table, rows) = parts(&program);
    let stream: Vec<u64> = (0..table.keys()).flat_map(rows).collect();
    assert!((0..).zip(stream).all(|(position, row): (u64, u64)| row == position % table.keys()));
}

#[test]
fn a_select_finds_a_row_that_went_out_of_the_index() {
    for name in ["sql-seq-select", "sql-random-select"] {
        let program = program(name, 40, Scatter::Pages);
        let (table, rows) = parts(&program);
        let mut memory = Plain::new(&program);
        // Keys lie 16 apart.
        let key = (rows(3)[5] * 16).to_be_bytes();
        table.tree().remove(&mut memory, &key).unwrap();
        let wrong = program.run(3, &mut memory).unwrap_err().to_string();
        assert!(wrong.contains("leads to"), "{name}: {wrong}");
    }
}
