//! [`Columns`]: a table stored by column. Any value may be missing.

use std::collections::HashMap;

use serde_json::Value;

/// A column of results: a name, and one optional value per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name in the header.
    pub name: String,
    /// One value a row.
    pub values: Vec<Option<Value>>,
}

/// Columns of the same number of rows, in the order in which they were first named.
#[derive(Default)]
pub struct Columns {
    rows: usize,
    all: Vec<Column>,
    by_name: HashMap<String, usize>,
}

impl Columns {
    /// No columns yet, of `rows` rows.
    pub fn of_rows(rows: usize) -> Columns {
        Columns { rows, ..Columns::default() }
    }

    /// Number of columns.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether `name` is one of the first `first` columns.
    pub fn is_among(&self, name: &str, first: usize) -> bool {
        self.by_name.get(name).is_some_and(|index| *index < first)
    }

    /// Sets the value of column `name` in `row`; a null leaves it empty.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn put(&mut self, name: &str, row: usize, value: &Value) {
        let (rows, all) = (self.rows, &mut self.all);
        let index = *self.by_name.entry(name.to_string()).or_insert_with(|| {
            all.push(Column { name: name.to_string(), values: vec![None; rows] });
            all.len() - 1
        });
        self.all[index].values[row] = Some(value.clone()).filter(|value| !value.is_null());
    }

    /// The columns.
    pub fn into_columns(self) -> Vec<Column> {
        self.all
    }
}

impl Column {
    /// The values as text, empty where there is none.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(|value| match value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        })
    }
}
