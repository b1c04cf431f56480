//! [`Columns`]: a table stored by column. Any value may be missing.

use std::collections::HashMap;

use serde_json::Value;

use crate::json_leaves::each_leaf;

/// A column of results: a name, and one optional value per row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name in the header.
    pub name: String,
    /// One value a row.
    pub values: Vec<Option<Value>>,
}

/// The values of a column in the narrowest type that holds all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Whole numbers that fit 64 bits with a sign.
    Whole(Vec<Option<i64>>),
    /// Numbers.
    Real(Vec<Option<f64>>),
    /// Everything else, as JSON writes it; a text as it is.
    Text(Vec<Option<String>>),
}

/// Columns of the same number of rows, in the order of their first use.
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

    /// One row a record, one column a leaf of the records, named by its path.
    pub fn of_records(records: &[Value]) -> Vec<Column> {
        let mut columns = Columns::of_rows(records.len());
        for (row, record) in records.iter().enumerate() {
            each_leaf(record, "", &mut |name, value| columns.put(name, row, value));
        }
        columns.into_columns()
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
    /// The values in one type.
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

    /// The values as text, empty where there is none.
    pub fn texts(&self) -> impl Iterator<Item = String> + '_ {
        self.values.iter().map(|value| match value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        })
    }
}
