//! [`each_leaf`]: the values of a JSON document, with their paths.

use serde_json::Value;

/// Calls `visit` with every value in `value` that is not an object, and its path: keys joined by
/// dots.
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
