//! Converts the `[flash]` table into the parameters of the modelled device.

use ebbtide_core::{brief, find_by_name};
use ebbtide_flash::Config;
use toml::{Table, Value};

use super::ConfigError;

/// The parameters that `table` describes: those of a preset, with some of them replaced.
///
/// # Errors
/// [`ConfigError`] for an unknown preset or key, or an impossible value.
pub(super) fn flash_config(table: &Table) -> Result<Config, ConfigError> {
    let Some(Value::String(preset)) = table.get("preset") else {
        return Err(malformed_flash("preset: expected the name of a flash preset"));
    };
    let text = Config::preset_text(preset)?;
    let described = Config::from_toml(text).map_err(malformed_flash)?;
    let mut keys = Table::try_from(described).expect("presets are TOML, as their tests show");
    for (key, value) in table.iter().filter(|(key, _)| *key != "preset") {
        let known: Vec<(&str, ())> = keys.keys().map(|key| (key.as_str(), ())).collect();
        find_by_name("key of [flash]", key, &known)?;
        check_is_whole(key, &keys[key], value)?;
        keys.insert(key.clone(), value.clone());
    }
    Config::from_toml(&keys.to_string()).map_err(malformed_flash)
}

/// Checks that `value` of `key` is a whole number, if the preset has one there. TOML's own error
/// does not name the key.
fn check_is_whole(key: &str, preset: &Value, value: &Value) -> Result<(), ConfigError> {
    let is_whole = value.as_integer().is_some_and(|number| u32::try_from(number).is_ok());
    if is_whole || !preset.is_integer() {
        return Ok(());
    }
    let given = value.as_float().map_or_else(|| value.to_string(), brief);
    Err(malformed_flash(format!("{key} = {given}: expected a whole number up to {}", u32::MAX)))
}

/// The error of a `[flash]` table.
pub(crate) fn malformed_flash(reason: impl ToString) -> ConfigError {
    ConfigError::Malformed { file: "[flash]".to_string(), reason: reason.to_string() }
}
