//! Columns as a Parquet file: whole numbers as INT64, numbers as DOUBLE, everything else as text.

use std::sync::Arc;

use super::columns::{Column, Values};
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

/// Returns the bytes of a Parquet file with one row group. Every column is optional.
///
/// # Panics
/// If the columns differ in their number of rows.
pub fn parquet_bytes(columns: &[Column]) -> Vec<u8> {
    write(columns).expect("a file in memory takes whatever fits its own schema")
}

fn write(columns: &[Column]) -> Result<Vec<u8>> {
    let typed: Vec<Values> = columns.iter().map(Column::typed).collect();
    let fields = columns.iter().zip(&typed).map(|(column, values)| field(&column.name, values));
    let fields = fields.collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("sweep").with_fields(fields).build()?;
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default())?;
    let mut rows = file.next_row_group()?;
    for values in typed {
        let mut writer = rows.next_column()?.expect("the schema has as many columns");
        put(&mut writer, values)?;
        writer.close()?;
    }
    rows.close()?;
    file.into_inner()
}

fn field(name: &str, values: &Values) -> Result<Arc<Type>> {
    let physical = match values {
        Values::Whole(_) => Physical::INT64,
        Values::Real(_) => Physical::DOUBLE,
        Values::Text(_) => Physical::BYTE_ARRAY,
    };
    let builder = Type::primitive_type_builder(name, physical);
    let builder = builder.with_repetition(Repetition::OPTIONAL);
    let text = physical == Physical::BYTE_ARRAY;
    let builder = if text { builder.with_converted_type(ConvertedType::UTF8) } else { builder };
    builder.build().map(Arc::new)
}

fn put(writer: &mut SerializedColumnWriter<'_>, values: Values) -> Result<usize> {
    match values {
        Values::Whole(values) => {
            let (there, values) = apart(values);
            writer.typed::<Int64Type>().write_batch(&values, Some(&there), None)
        }
        Values::Real(values) => {
            let (there, values) = apart(values);
            writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)
        }
        Values::Text(values) => {
            let (there, values) = apart(values);
            let values: Vec<ByteArray> = values.iter().map(|text| text.as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)
        }
    }
}

/// Returns 1 for every row with a value and 0 for the others, and the existing values.
fn apart<T>(values: Vec<Option<T>>) -> (Vec<i16>, Vec<T>) {
    let there = values.iter().map(|value| i16::from(value.is_some())).collect();
    (there, values.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_reader_finds_every_value_with_its_type() {
        let column = |name: &str, values: [Option<Value>; 3]| Column {
            name: name.to_string(),
            values: values.to_vec(),
        };
        let columns = [
            column("whole", [Some(1.into()), None, Some((-3).into())]),
            column("real", [Some(0.1.into()), Some(2.into()), None]),
            column("text", [Some("8GiB".into()), Some("".into()), None]),
            column("mixed", [Some(4.into()), Some("all".into()), Some(true.into())]),
            column("large", [Some(u64::MAX.into()), None, None]),
            column("none", [None, None, None]),
        ];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&parquet_bytes(&columns)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let rows: Vec<Vec<(String, Field)>> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().into_columns()).collect();
        let text = |text: &str| Field::Str(text.to_string());
        let expected = [
            [Field::Long(1), Field::Null, Field::Long(-3)],
            [Field::Double(0.1), Field::Double(2.0), Field::Null],
            [text("8GiB"), text(""), Field::Null],
            [text("4"), text("all"), text("true")],
            [Field::Double(u64::MAX as f64), Field::Null, Field::Null],
            [Field::Null, Field::Null, Field::Null],
        ];
        assert_eq!(rows.len(), 3);
        for (row, found) in rows.into_iter().enumerate() {
            for (column, (name, value)) in found.into_iter().enumerate() {
                assert_eq!(name, columns[column].name);
                assert_eq!(value, expected[column][row], "{name}, row {row}");
            }
        }
    }
}
