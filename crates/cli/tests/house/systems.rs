//! `docs/SYSTEMS.md` agrees with the code: it has every design and preset with its keys and their
//! values, and every claim. The tables of keys are made of the TOML files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::{env, fs};

use ebbtide_papers::claims;
use ebbtide_sim::designs::ALL;
use toml::Table;

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

/// The place in `page` of the text under `heading`, until the next heading.
fn section(page: &str, heading: &str) -> Range<usize> {
    let from = page.find(&format!("\n{heading}\n"));
    let from = from.unwrap_or_else(|| panic!("docs/SYSTEMS.md has no heading '{heading}'"));
    let from = from + heading.len() + 2;
    from..page[from..].find("\n#").map_or(page.len(), |end| from + end)
}

/// A key of a TOML file, with its value and the comment behind it.
#[derive(Clone, PartialEq)]
struct Key {
    key: String,
    value: String,
    source: String,
}

/// The keys of a TOML file in its order, without its name and its base.
fn keys_in(text: &str) -> Vec<Key> {
    let (mut keys, mut under) = (Vec::new(), String::new());
    for line in text.lines() {
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            under = format!("{name}.");
            continue;
        }
        let Some((setting, source)) = line.split_once(" # ") else { continue };
        let Some((key, value)) = setting.split_once('=') else { continue };
        let (key, value) = (format!("{under}{}", key.trim()), value.trim().trim_matches('"'));
        keys.push(Key { key, value: value.to_string(), source: source.trim().to_string() });
    }
    keys.retain(|key| !["base", "design", "kind"].contains(&key.key.as_str()));
    assert_eq!(keys.len(), count(&text.parse().expect("TOML")), "a key has no source: {text}");
    keys
}

/// The number of keys in `table`, without its name and its base.
fn count(table: &Table) -> usize {
    let own = table.iter().filter(|(key, _)| !["base", "design", "kind"].contains(&key.as_str()));
    own.map(|(_, value)| value.as_table().map_or(1, count)).sum()
}

/// `page` with the table under `heading` made of `keys`.
fn with_table(page: &str, heading: &str, keys: &[Key]) -> String {
    const HEADER: &str = "| key | value | source |\n|---|---|---|\n";
    let place = section(page, heading);
    let text = &page[place.clone()];
    let Some(from) = text.find(HEADER) else {
        assert!(keys.is_empty(), "no table under '{heading}'");
        return page.to_string();
    };
    let rows = text[from + HEADER.len()..].split_inclusive('\n');
    let old: usize = rows.take_while(|line| line.starts_with("| ")).map(str::len).sum();
    let row = |Key { key, value, source }: &Key| format!("| `{key}` | {value} | {source} |\n");
    let made: String = keys.iter().map(row).collect();
    let at = place.start + from + HEADER.len();
    format!("{}{made}{}", &page[..at], &page[at + old..])
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
fn the_tables_of_keys_are_made_of_their_files() {
    let page = page();
    let files = [
        files("crates/sim/configs"),
        files("crates/flash/presets"),
        files("crates/sim/configs/presets"),
    ];
    let [designs, flash, _] = &files;
    assert_eq!(designs.len(), ALL.len(), "a design a file");
    assert!(ALL.iter().all(|design| designs[design.name] == design.config));
    let mut made = page.clone();
    for (name, text) in designs {
        made = with_table(&made, &format!("### `{name}`"), &keys_in(text));
    }
    for (name, text) in files[1..].iter().flatten() {
        let heading = format!("### Preset `{name}`");
        let mut keys = keys_in(text);
        let section = &page[section(&page, &heading)];
        let over = section.split_once("Keys that differ from `").map(|(_, rest)| rest);
        if let Some((base, _)) = over.and_then(|rest| rest.split_once('`')) {
            let base = keys_in(&flash[base]);
            let same =
                |key: &Key| base.iter().any(|b| (&b.key, &b.value) == (&key.key, &key.value));
            keys.retain(|key| !same(key));
        }
        made = with_table(&made, &heading, &keys);
    }
    if env::var_os("EBBTIDE_WRITE_DOCS").is_some() {
        fs::write(workspace().join("docs/SYSTEMS.md"), &made).expect("a file");
        return;
    }
    assert!(page == made, "run this test with EBBTIDE_WRITE_DOCS=1 to write docs/SYSTEMS.md");
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
