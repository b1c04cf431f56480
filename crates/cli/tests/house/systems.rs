//! `docs/SYSTEMS.md` agrees with the code: it has every design and preset with its keys and their
//! values, and every claim.

use std::collections::BTreeMap;
use std::fs;

use ebbtide_papers::claims;
use ebbtide_sim::designs::ALL;
use toml::{Table, Value};

use super::workspace;

fn page() -> String {
    fs::read_to_string(workspace().join("docs/SYSTEMS.md")).expect("docs/SYSTEMS.md")
}

/// Returns the cells of every row of the tables in `text`, without headers and rules.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let rows = rows.map(|row| row.split(" | ").map(str::trim).collect::<Vec<_>>());
    rows.filter(|cells| !["key", "id"].contains(&cells[0])).collect()
}

/// Returns the text under `heading` until the next heading.
fn section<'t>(page: &'t str, heading: &str) -> &'t str {
    let from = page.find(&format!("\n{heading}\n"));
    let from = from.unwrap_or_else(|| panic!("docs/SYSTEMS.md has no heading '{heading}'"));
    let body = &page[from + heading.len() + 2..];
    &body[..body.find("\n#").unwrap_or(body.len())]
}

/// Keys and values as a table of the page or a TOML file has them.
type Keys = BTreeMap<String, String>;

/// The first table of a section: key, value, source.
fn keys_of(section: &str) -> Keys {
    let rows = rows(section).into_iter().map(|cells| {
        let [key, value, source] = cells[..] else { panic!("{cells:?} are not three cells") };
        assert!(!source.is_empty(), "{key} has no source");
        (key.trim_matches('`').to_string(), value.to_string())
    });
    rows.collect()
}

fn add_keys(prefix: &str, table: &Table, keys: &mut Keys) {
    for (key, value) in table {
        let key = format!("{prefix}{key}");
        match value {
            Value::Table(table) => add_keys(&format!("{key}."), table, keys),
            Value::String(text) => _ = keys.insert(key, text.clone()),
            value => _ = keys.insert(key, value.to_string()),
        }
    }
}

/// Returns the keys of a TOML file, without its name and its base.
fn keys_in(text: &str) -> Keys {
    let mut keys = Keys::new();
    add_keys("", &text.parse().expect("TOML"), &mut keys);
    keys.retain(|key, _| !["base", "design", "kind"].contains(&key.as_str()));
    keys
}

/// The TOML files in a folder of the workspace, by name without the ending.
fn files(folder: &str) -> BTreeMap<String, String> {
    let entries = fs::read_dir(workspace().join(folder)).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let named = files.map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("a file"))
    });
    named.collect()
}

#[test]
fn every_design_is_described_with_the_keys_of_its_file() {
    let page = page();
    let files = files("crates/sim/configs");
    assert_eq!(files.len(), ALL.len(), "a design a file");
    for design in ALL {
        assert_eq!(files[design.name], design.config, "{}", design.name);
        let described = keys_of(section(&page, &format!("### `{}`", design.name)));
        let own = keys_in(design.config);
        assert_eq!(described, own, "{}", design.name);
    }
}

#[test]
fn every_preset_is_described_with_its_keys() {
    let page = page();
    let presets = [files("crates/flash/presets"), files("crates/sim/configs/presets")];
    assert!(presets.iter().all(|files| !files.is_empty()), "{presets:?}");
    for (name, text) in presets.iter().flatten() {
        let section = section(&page, &format!("### Preset `{name}`"));
        let mut own = keys_in(text);
        let over = section.split_once("Keys that differ from `").map(|(_, rest)| rest);
        if let Some((base, _)) = over.and_then(|rest| rest.split_once('`')) {
            let base = keys_in(&presets[0][base]);
            assert!(base.keys().eq(own.keys()), "{name}");
            own.retain(|key, value| base[key] != *value);
        }
        assert_eq!(keys_of(section), own, "{name}");
    }
}

#[test]
fn every_claim_has_a_line() {
    let page = page();
    let (_, part) = page.split_once("\n## The claims\n").expect("a part on claims");
    let (part, _) = part.split_once("\n## ").expect("a part after it");
    let described: Vec<&str> = rows(part).into_iter().map(|cells| cells[0]).collect();
    let claimed: Vec<&str> = claims::all().map(|claim| claim.id).collect();
    assert_eq!(described, claimed);
}
