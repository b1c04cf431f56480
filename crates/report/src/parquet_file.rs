//! Columns as a Parquet file: whole numbers as INT64, numbers as DOUBLE, all else as text.

use std::sync::Arc;

use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::Value;

use super::columns::Column;

/// The file's bytes: one row group, every column optional.
pub fn parquet_bytes(columns: &[Column]) -> Vec<u8> {
    write(columns).expect("a file in memory takes whatever fits its own schema")
}

fn write(columns: &[Column]) -> Result<Vec<u8>> {
    let fields = columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("sweep").with_fields(fields).build()?;
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default())?;
    let mut rows = file.next_row_group()?;
    for column in columns {
        let mut writer = rows.next_column()?.expect("the schema has as many columns");
        put(&mut writer, column)?;
        writer.close()?;
    }
    rows.close()?;
    file.into_inner()
}

/// What all values of a column are.
fn physical(column: &Column) -> Physical {
    let all = |is: fn(&Value) -> bool| column.values.iter().flatten().all(is);
    if all(Value::is_i64) {
        Physical::INT64
    } else if all(Value::is_number) {
        Physical::DOUBLE
    } else {
        Physical::BYTE_ARRAY
    }
}

fn field(column: &Column) -> Result<Arc<Type>> {
    let physical = physical(column);
    let builder = Type::primitive_type_builder(&column.name, physical);
    let builder = builder.with_repetition(Repetition::OPTIONAL);
    let text = physical == Physical::BYTE_ARRAY;
    let builder = if text { builder.with_converted_type(ConvertedType::UTF8) } else { builder };
    builder.build().map(Arc::new)
}

fn put(writer: &mut SerializedColumnWriter<'_>, column: &Column) -> Result<usize> {
    // 1 where there is a value.
    let there: Vec<i16> = column.values.iter().map(|value| i16::from(value.is_some())).collect();
    let values = column.values.iter().flatten();
    match physical(column) {
        Physical::INT64 => {
            let values: Vec<i64> = values.filter_map(Value::as_i64).collect();
            writer.typed::<Int64Type>().write_batch(&values, Some(&there), None)
        }
        Physical::DOUBLE => {
            let values: Vec<f64> = values.filter_map(Value::as_f64).collect();
            writer.typed::<DoubleType>().write_batch(&values, Some(&there), None)
        }
        _ => {
            let text = column.texts().zip(&there).filter(|(_, there)| **there == 1);
            let values: Vec<ByteArray> = text.map(|(text, _)| text.as_str().into()).collect();
            writer.typed::<ByteArrayType>().write_batch(&values, Some(&there), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

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
