//! From the `[flash]` table to the modelled device.

use ebbtide_core::{PAGE_BYTES, find_by_name};
use ebbtide_flash::{Config, Flash};
use toml::{Table, Value};

use ebbtide_core::Bytes;

use super::{ConfigError, require};

/// The device that `table` describes: a preset's parameters with some of them replaced. It must
/// hold `bytes` of data.
///
/// # Errors
/// [`ConfigError`] for a preset, key or value that cannot be, and for a device too small.
pub(crate) fn flash(table: &Table, bytes: u64) -> Result<Flash, ConfigError> {
    let config = flash_config(table)?;
    let flash = Flash::new(&config).map_err(malformed)?;
    if let Some(pages) = flash.logical_pages() {
        let capacity = Bytes(pages * PAGE_BYTES as u64);
        let expected = format!("no more than the flash device holds, {capacity}");
        require(bytes <= capacity.0, "dataset.size", Bytes(bytes), expected)?;
    }
    Ok(flash)
}

/// The parameters that `table` describes: a preset's with some of them replaced.
///
/// # Errors
/// [`ConfigError`] for a preset, key or value that cannot be.
pub(super) fn flash_config(table: &Table) -> Result<Config, ConfigError> {
    let Some(Value::String(preset)) = table.get("preset") else {
        return Err(malformed("preset: expected the name of a flash preset"));
    };
    let text = Config::preset_text(preset)?;
    let mut keys: Table = text.parse().expect("presets are TOML, as their tests show");
    for (key, value) in table.iter().filter(|(key, _)| *key != "preset") {
        let known: Vec<(&str, ())> = keys.keys().map(|key| (key.as_str(), ())).collect();
        find_by_name("key of [flash]", key, &known)?;
        keys.insert(key.clone(), value.clone());
    }
    Config::from_toml(&keys.to_string()).map_err(malformed)
}

fn malformed(reason: impl ToString) -> ConfigError {
    ConfigError::Malformed { file: "[flash]".to_string(), reason: reason.to_string() }
}
