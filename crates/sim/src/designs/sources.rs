//! [`sources`]: the sources of a configuration's numbers, from the comments of its files.

use ebbtide_flash::Config as FlashConfig;
use toml::de::{DeTable, DeValue};

use super::find;
use super::load::{malformed_toml, preset_text, text_of};
use crate::config::ConfigError;

/// A parameter with its source.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Parameter {
    /// The key, with its sections: `dram_cache.ways`.
    pub key: String,
    /// The value, as TOML.
    pub value: String,
    /// The source, from the comment on the key's line. Empty if there is none.
    pub source: String,
}

/// The parameters and notes of a configuration's files.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Sources {
    /// The comment at the head of each file, from the base on.
    pub notes: Vec<String>,
    /// All parameters, in the order of the files.
    pub parameters: Vec<Parameter>,
}

/// The parameters of `given`, a design's name or a file as [`resolve`](super::resolve) takes it.
/// The source of each is from the file that sets it last. The parameters of the flash preset are
/// included.
///
/// # Errors
/// [`ConfigError`] for unknown names and files that are not TOML.
pub fn sources(given: &str) -> Result<Sources, ConfigError> {
    let mut sources = Sources::default();
    add_file(&mut sources, given)?;
    Ok(sources)
}

fn add_file(sources: &mut Sources, given: &str) -> Result<(), ConfigError> {
    let text = text_of(given)?;
    let table = DeTable::parse(&text).map_err(|error| malformed_toml(given, &text, &error))?;
    let table = table.get_ref();
    if let Some(DeValue::String(base)) = table.get("base").map(|base| base.get_ref()) {
        add_file(sources, find(base)?.name)?;
    }
    if let Some(DeValue::String(preset)) = table.get("preset").map(|preset| preset.get_ref()) {
        add_text(sources, preset, preset_text(preset)?)?;
    }
    add_text(sources, given, &text)
}

fn add_text(sources: &mut Sources, given: &str, text: &str) -> Result<(), ConfigError> {
    let table = DeTable::parse(text).map_err(|error| malformed_toml(given, text, &error))?;
    let table = table.get_ref();
    sources.notes.push(head(text));
    let flash = table.get("flash").and_then(|flash| flash.get_ref().as_table());
    if let Some(preset) = flash.and_then(|flash| flash.get("preset")?.get_ref().as_str()) {
        // Another device has other keys, so it starts from its own preset alone.
        sources.parameters.retain(|parameter| !parameter.key.starts_with("flash."));
        let text = FlashConfig::preset_text(preset)?;
        let keys = DeTable::parse(text).expect("presets are TOML, as their tests show");
        add_table(&mut sources.parameters, "flash.", keys.get_ref(), text);
    }
    add_table(&mut sources.parameters, "", table, text);
    sources.parameters.retain(|parameter| !["base", "preset"].contains(&parameter.key.as_str()));
    Ok(())
}

fn add_table(parameters: &mut Vec<Parameter>, section: &str, table: &DeTable<'_>, text: &str) {
    // A table is sorted by its keys. The file's own order is more useful.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let key = format!("{section}{}", key.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            add_table(parameters, &format!("{key}."), inner, text);
            continue;
        }
        let span = value.span();
        let rest = text[span.end..].lines().next().unwrap_or("");
        let source = rest.split_once('#').map_or("", |(_, comment)| comment.trim());
        let parameter =
            Parameter { key, value: text[span].to_string(), source: source.to_string() };
        match parameters.iter_mut().find(|known| known.key == parameter.key) {
            Some(known) => *known = parameter,
            None => parameters.push(parameter),
        }
    }
}

/// The comment at the head of a file, without its marks.
fn head(text: &str) -> String {
    let comment = text.lines().map_while(|line| line.strip_prefix('#')).map(str::trim);
    comment.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::{ALL, resolve};
    use super::*;

    /// The keys of `table` and of those in it.
    fn keys(section: &str, table: &toml::Table) -> BTreeSet<String> {
        let keys = table.iter().flat_map(|(key, value)| match value.as_table() {
            Some(inner) => keys(&format!("{section}{key}."), inner),
            None => BTreeSet::from([format!("{section}{key}")]),
        });
        keys.collect()
    }

    #[test]
    fn every_parameter_of_every_design_has_a_source() {
        for design in ALL {
            let found = sources(design.name).unwrap();
            assert!(found.notes.iter().all(|note| !note.is_empty()), "{}", design.name);
            let config = resolve(design.name, &[]).unwrap();
            let mut all = keys("", &toml::from_str(&toml::to_string(&config).unwrap()).unwrap());
            // It follows from sizes, and those have a source.
            all.remove("workload.lru_share");
            let named: BTreeSet<String> = found.parameters.iter().map(|p| p.key.clone()).collect();
            assert!(all.is_subset(&named), "{}: {:?}", design.name, all.difference(&named));
            for Parameter { key, source, .. } in &found.parameters {
                // Names of parts and of presets are not numbers.
                let name = key == "design" || key == "flash.kind" || key.starts_with("parts.");
                assert!(name || !source.is_empty(), "{}: {key}", design.name);
            }
        }
    }

    #[test]
    fn the_file_that_sets_a_parameter_last_gives_its_source() {
        let parameter = |design, key: &str| {
            let found = sources(design).unwrap().parameters;
            found.into_iter().find(|parameter| parameter.key == key).unwrap()
        };
        assert_eq!(parameter("astriflash", "dram_cache.ways").value, "4");
        let ways = parameter("os-swap", "dram_cache.ways");
        assert_eq!((ways.value.as_str(), ways.source.as_str()), ("0", "pages lie in any frame"));
        assert_eq!(parameter("os-swap", "dram_cache.size").value, "\"8GiB\"");
        assert_eq!(parameter("astriflash", "flash.read_us").source, "AstriFlash Table I (AS41)");
    }
}
