//! [`Columns`]: a table stored by column. Any value may be missing.

use std::collections::HashMap;

use serde_json::Value;

use crate::json_leaves::each_leaf;

/// A column of a table of results: a name, and one optional value per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name in the header.
    pub name: String,
    /// One value per row; `None` where it is missing.
    pub values: Vec<Option<Value>>,
}

/// The values of a column in the narrowest type that holds all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Every value is an integer that fits in an `i64`. Also a column without values.
    Whole(Vec<Option<i64>>),
    /// Every value is a number, and at least one is not such an integer.
    Real(Vec<Option<f64>>),
    /// Any other values, as JSON text. Strings are without quotes.
    Text(Vec<Option<String>>),
}

/// Builder of columns with the same number of rows, in the order of their first use.
#[derive(Default)]
pub struct Columns {
    rows: usize,
    all: Vec<Column>,
    by_name: HashMap<String, usize>,
}

impl Columns {
    /// Returns a builder without columns. Each column will have `rows` rows.
    pub fn of_rows(rows: usize) -> Columns {
        Columns { rows, ..Columns::default() }
    }

    /// Returns one row per record and one column per leaf of the records. A column's name is the
    /// leaf's path, as in [`each_leaf`].
    pub fn of_records(records: &[Value]) -> Vec<Column> {
        let mut columns = Columns::of_rows(records.len());
        for (row, record) in records.iter().enumerate() {
            each_leaf(record, "", &mut |name, value| columns.put(name, row, value));
        }
        columns.into_columns()
    }

    /// Returns the number of columns so far.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns true if the column `name` is one of the first `first` columns.
    pub fn is_among(&self, name: &str, first: usize) -> bool {
        self.by_name.get(name).is_some_and(|index| *index < first)
    }

    /// Sets the value of column `name` in row `row`, counted from 0. Adds the column if it is
    /// missing. A null clears the value.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn put(&mut self, name: &str, row: usize, value: &Value) {
        let (rows, all) = (self.rows, &mut self.all);
        let index = *self.by_name.entry(name.to_string()).or_insert_with(|| {
            all.push(Column { name: name.to_string(), values: vec![None; rows] });
            all.len() - 1
        });
        self.all[index].values[row] = Some(value.clone()).filter(|value| !value.is_null());
    }

    /// Returns the columns, in the order of their first use.
    pub fn into_columns(self) -> Vec<Column> {
        self.all
    }
}

impl Column {
    /// Returns the values in the narrowest type that holds all of them.
    pub fn typed(&self) -> Values {
        let all = |is: fn(&Value) -> bool| self.values.iter().flatten().all(is);
        let values = self.values.iter().map(Option::as_ref);
        if all(Value::is_i64) {
            Values::Whole(values.map(|value| value.and_then(Value::as_i64)).collect())
        } else if all(Value::is_number) {
            Values::Real(values.map(|value| value.and_then(Value::as_f64)).collect())
        } else {
            let texts = self.texts().zip(&self.values);
            Values::Text(texts.map(|(text, value)| value.is_some().then_some(text)).collect())
        }
    }

    /// Returns the values as text; an empty string where a value is missing.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(|value| match value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        })
    }
}
