//! [`each_leaf`]: the values of a JSON document, with their paths.

use serde_json::Value;

/// Calls `visit` with the path and the value of every leaf of `value`. A leaf is a value that is
/// not an object, so an array is one leaf. A path is the keys joined by dots, after the prefix
/// `name` and a dot unless `name` is empty.
pub fn each_leaf(value: &Value, name: &str, visit: &mut dyn FnMut(&str, &Value)) {
    match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                each_leaf(value, &name, visit);
            }
        }
        value => visit(name, value),
    }
}
