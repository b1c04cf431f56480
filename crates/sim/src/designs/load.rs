//! [`resolve`]: makes a [`Config`] from a design's name or a TOML file, and keys set over it.

use std::path::Path;
use std::sync::LazyLock;

use ebbtide_core::{brief, find_by_name};
use toml::{Table, Value};

use super::{ALL, Design, find};
use crate::config::{Config, ConfigError};

/// Named layers of keys, for `preset = "NAME"`.
const PRESETS: [(&str, &str); 1] = [("atc23", include_str!("../../configs/presets/atc23.toml"))];

/// The names of the presets.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// Keys set over a design: `("dram_cache.ways", "8")`. The key `preset` lays all keys of a preset
/// over the design.
pub type Overrides<'a> = &'a [(&'a str, &'a str)];

/// The configuration of `given`, a design's name or a file, with `overrides`.
///
/// A file may name a design to start from: `base = "astriflash"`. Without one it must have all
/// keys. A file may also name a preset, which is laid over the base.
///
/// # Errors
/// [`ConfigError`] for unknown names and keys, malformed text, and impossible values.
pub fn resolve(given: &str, overrides: Overrides<'_>) -> Result<Config, ConfigError> {
    resolved(given, layered(given, &text_of(given)?)?, overrides)
}

/// The configuration of `design`, which need not be in [`ALL`], with `overrides`.
///
/// # Errors
/// As [`resolve`].
pub(crate) fn resolve_design(
    design: &Design,
    overrides: Overrides<'_>,
) -> Result<Config, ConfigError> {
    resolved(design.name, layered(design.name, design.config)?, overrides)
}

fn resolved(
    given: &str,
    mut table: Table,
    overrides: Overrides<'_>,
) -> Result<Config, ConfigError> {
    let own_share = read(given, table.clone()).ok().map(|own| own.memory_share());
    for (key, value) in overrides {
        match *key {
            "preset" => lay_preset(&mut table, value)?,
            key => set(&mut table, key, value)?,
        }
    }
    let mut config = read(given, table)?;
    let share = own_share.unwrap_or_else(|| config.memory_share()).clamp(f64::MIN_POSITIVE, 1.0);
    config.workload.lru_share.get_or_insert(share);
    config.check()?;
    Ok(config)
}

/// The configuration that `table` of `given` describes.
fn read(given: &str, table: Table) -> Result<Config, ConfigError> {
    serde_path_to_error::deserialize(table).map_err(|error| {
        malformed(given, format!("{}: {}", error.path(), in_words(&one_line(error.inner()))))
    })
}

/// The text of `given`, a design's name or a file.
pub(super) fn text_of(given: &str) -> Result<String, ConfigError> {
    let is_file = given.ends_with(".toml") || given.contains('/');
    if !is_file {
        return Ok(find(given)?.config.to_string());
    }
    std::fs::read_to_string(Path::new(given)).map_err(|error| malformed(given, error.to_string()))
}

/// Replaces Rust's types in a message of the deserialiser with the TOML types.
fn in_words(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else {
        return message.to_string();
    };
    let found = found.trim_start_matches("invalid type: ").trim_start_matches("invalid value: ");
    let number = found.strip_prefix("floating point `").and_then(|text| text.strip_suffix('`'));
    let number = number.and_then(|text| text.parse().ok());
    let found = number.map_or(found.to_string(), |number| format!("number {}", brief(number)));
    let expected = match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number of at least 0",
        "i64" | "i32" => "a whole number",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        other if other.starts_with("struct ") => "a table of keys",
        other => other,
    };
    format!("{found}, expected {expected}")
}

fn malformed(file: &str, reason: String) -> ConfigError {
    ConfigError::Malformed { file: file.to_string(), reason }
}

/// The error of `file`, whose `text` is not TOML, with its line.
pub(super) fn malformed_toml(file: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
    malformed(file, format!("line {line}: {}", error.message()))
}

/// Parses `text` of `given`, and lays it over its base.
fn layered(given: &str, text: &str) -> Result<Table, ConfigError> {
    let mut table: Table = text.parse().map_err(|error| malformed_toml(given, text, &error))?;
    let mut merged = match table.remove("base") {
        None => return Ok(table),
        Some(Value::String(base)) => {
            let base = find(&base)?;
            layered(base.name, base.config)?
        }
        Some(other) => {
            return Err(malformed(given, format!("base: expected a design, found {other}")));
        }
    };
    match table.remove("preset") {
        None => {}
        Some(Value::String(name)) => lay_preset(&mut merged, &name)?,
        Some(other) => {
            return Err(malformed(given, format!("preset: expected a name, found {other}")));
        }
    }
    merge(given, "", &mut merged, table, &KEYS)?;
    Ok(merged)
}

/// The text of the preset called `name`.
pub(super) fn preset_text(name: &str) -> Result<&'static str, ConfigError> {
    Ok(find_by_name("preset", name, &PRESETS)?)
}

/// Lays the preset called `name` over `table`.
fn lay_preset(table: &mut Table, name: &str) -> Result<(), ConfigError> {
    let preset: Table = preset_text(name)?.parse().expect("shipped presets are TOML");
    if let Some(section) = preset.keys().find(|section| !table.contains_key(*section)) {
        let reason = format!("preset {name}: the design has no [{section}] to lay it over");
        return Err(malformed("preset", reason));
    }
    merge(name, "", table, preset, &KEYS)
}

/// Keys that no shipped design sets.
const OPTIONAL: &str = "parts = { core_side = \"\", memory_side = \"\" }\nworkload = { work_us = 0, lru_share = 0 }\nswitch = { ripe_after_us = 0 }";

/// The keys of all shipped designs, and the optional keys.
static KEYS: LazyLock<Table> = LazyLock::new(|| {
    let mut all: Table = OPTIONAL.parse().expect("TOML");
    for design in ALL {
        let keys: Table = design.config.parse().expect("shipped designs are TOML");
        unite(&mut all, keys);
    }
    all
});

fn unite(all: &mut Table, keys: Table) {
    for (key, value) in keys {
        match (all.get_mut(&key), value) {
            (Some(Value::Table(all)), Value::Table(keys)) => unite(all, keys),
            (Some(_), _) => {}
            (None, value) => {
                all.insert(key, value);
            }
        }
    }
}

/// Lays `over` on `base`, if its keys are among `keys`.
fn merge(
    file: &str,
    section: &str,
    base: &mut Table,
    over: Table,
    keys: &Table,
) -> Result<(), ConfigError> {
    for (key, value) in over {
        if !keys.contains_key(&key) && section != "flash." {
            let known: Vec<(&str, ())> = keys.keys().map(|key| (key.as_str(), ())).collect();
            let mut error = find_by_name("key", &key, &known).expect_err("it was not found");
            error.given = format!("{section}{key}");
            return Err(ConfigError::UnknownKey { file: file.to_string(), error });
        }
        if value.is_table() {
            base.entry(&key).or_insert_with(|| Table::new().into());
        }
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => {
                // Another device has other keys, so it starts from its own preset alone.
                if key == "flash" && over.contains_key("preset") {
                    base.clear();
                }
                let none = Table::new();
                let keys = keys.get(&key).and_then(Value::as_table).unwrap_or(&none);
                merge(file, &format!("{section}{key}."), base, over, keys)?;
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Sets the key `path` to `text`: as a TOML value if it is one, and as a string otherwise.
fn set(table: &mut Table, path: &str, text: &str) -> Result<(), ConfigError> {
    let value = format!("value = {text}").parse::<Table>().ok();
    let value = value
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_string()));
    let mut over = Table::new();
    let (sections, key) =
        path.rsplit_once('.').map_or(("", path), |(sections, key)| (sections, key));
    over.insert(key.to_string(), value);
    for section in sections.rsplit('.').filter(|section| !section.is_empty()) {
        over = Table::from_iter([(section.to_string(), Value::Table(over))]);
    }
    merge("--set", "", table, over, &KEYS)
}

fn one_line(error: &toml::de::Error) -> String {
    error.message().lines().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use ebbtide_core::prefetch::Preset;

    use super::super::compose;
    use super::*;

    fn refused(given: &str, overrides: Overrides<'_>) -> String {
        let error = resolve(given, overrides).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn every_design_resolves_and_survives_a_round_trip() {
        for design in ALL {
            let config = resolve(design.name, &[]).unwrap();
            let text = toml::to_string(&config).unwrap();
            assert_eq!(toml::from_str::<Config>(&text).unwrap(), config, "{}", design.name);
        }
    }

    #[test]
    fn a_single_key_can_be_set() {
        let config = resolve("astriflash", &[("dram_cache.ways", "8"), ("l1.size", "32KiB")]);
        let config = config.unwrap();
        assert_eq!((config.dram_cache.ways, config.l1.size.0), (8, 32 << 10));
    }

    #[test]
    fn unknown_keys_designs_and_types_are_one_line_that_says_what_was_expected() {
        let error = refused("astriflash", &[("dram_cache.way", "8")]);
        assert!(error.contains("dram_cache.way") && error.contains("'ways'"), "{error}");
        assert!(refused("astroflash", &[]).contains("did you mean 'astriflash'?"));
        let error = refused("astriflash", &[("dram_cache.ways", "many")]);
        assert!(error.contains("dram_cache.ways"), "{error}");
        let error = refused("astriflash", &[("dram_cache.size", "512GiB")]);
        assert!(error.contains("less than dataset.size"), "{error}");
        assert!(refused("astriflash", &[("cores.count", "0")]).contains("1 to 1024"));
    }

    #[test]
    fn a_machine_can_take_a_side_from_another_design() {
        let given = [("parts.core_side", "flash-sync")];
        let config = resolve("astriflash", &given).unwrap();
        assert_eq!(compose(&config).unwrap().core_side, crate::CoreSide::Block);
        let config = resolve("astriflash", &[("parts.memory_side", "flashsync")]).unwrap();
        let error = compose(&config).err().unwrap().to_string();
        assert!(error.contains("did you mean 'flash-sync'?"), "{error}");
        assert!(refused("astriflash", &[("parts.side", "x")]).contains("parts.side"));
    }

    #[test]
    fn a_preset_lies_over_the_design_and_under_single_keys() {
        let config = resolve("cxl-flash", &[("preset", "atc23"), ("prefetch.in_flight", "7")]);
        let config = config.unwrap();
        let (device, prefetch) = (config.device.unwrap(), config.prefetch.unwrap());
        assert!(device.prefetches_first && device.dram_ns == 46);
        assert_eq!((prefetch.preset, prefetch.in_flight), (Preset::Atc23, 7));
        assert!(refused("cxl-flash", &[("preset", "atc32")]).contains("did you mean 'atc23'?"));
        assert!(refused("astriflash", &[("preset", "atc23")]).contains("no [device]"));
    }

    #[test]
    fn a_file_with_a_base_holds_only_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mine.toml");
        std::fs::write(&path, "base = \"astriflash\"\n[switch]\nthreads = 64\n").unwrap();
        let config = resolve(path.to_str().unwrap(), &[]).unwrap();
        assert_eq!(config.switch.threads, 64);
        std::fs::write(&path, "base = \"astriflash\"\n[switch]\nthreads = = 64\n").unwrap();
        let error = refused(path.to_str().unwrap(), &[]);
        assert!(error.contains("mine.toml: line 3"), "{error}");
    }
}
