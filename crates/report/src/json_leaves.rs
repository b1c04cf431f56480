//! A result as a flat list of names and values.

use serde_json::Value;

/// Goes through everything in `value` that is no object, with its name: keys joined by dots.
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
