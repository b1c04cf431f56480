//! `docs/SYSTEMS.md` agrees with the code: it has every design and preset with its keys and their
//! values, and every claim. The tables are made of the TOML files and of the claims.

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

/// `page` with the table under `heading` made of `keys`. Without keys there is no table.
fn with_keys(page: &str, heading: &str, keys: &[Key]) -> String {
    const HEADER: &str = "| key | value | source |";
    if keys.is_empty() && !page[section(page, heading)].contains(HEADER) {
        return page.to_string();
    }
    let row = |Key { key, value, source }: &Key| format!("| `{key}` | {value} | {source} |\n");
    with_rows(page, heading, HEADER, &keys.iter().map(row).collect::<String>())
}

/// `page` with `rows` in the table of three columns under `heading` that begins with `header`.
fn with_rows(page: &str, heading: &str, header: &str, rows: &str) -> String {
    let place = section(page, heading);
    let text = &page[place.clone()];
    let top = format!("{header}\n|---|---|---|\n");
    let from = text.find(&top).unwrap_or_else(|| panic!("no table under '{heading}'"));
    let from = from + top.len();
    let old = text[from..].split_inclusive('\n').take_while(|line| line.starts_with("| "));
    let old: usize = old.map(str::len).sum();
    let at = place.start + from;
    format!("{}{rows}{}", &page[..at], &page[at + old..])
}

/// Checks that `page` is as it was `made`, or writes it so if the user wants that.
fn compare_or_write(page: &str, made: &str) {
    if env::var_os("EBBTIDE_WRITE_DOCS").is_some() {
        fs::write(workspace().join("docs/SYSTEMS.md"), made).expect("a file");
        return;
    }
    assert!(page == made, "run this test with EBBTIDE_WRITE_DOCS=1 to write docs/SYSTEMS.md");
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
        made = with_keys(&made, &format!("### `{name}`"), &keys_in(text));
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
        made = with_keys(&made, &heading, &keys);
    }
    compare_or_write(&page, &made);
}

#[test]
fn the_tables_of_claims_are_made_of_the_claims() {
    let page = page();
    let mut made = page.clone();
    for (heading, family) in [
        ("### AstriFlash: AS1 to AS47", "AS"),
        ("### FlatFlash: FL1 to FL30", "FL"),
        ("### HAMS: HM1 to HM12", "HM"),
        ("### CXL-flash: CX1 to CX30", "CX"),
    ] {
        let of_family = claims::all().filter(|claim| claim.id.starts_with(family));
        let rows: Vec<String> = of_family
            .map(|claim| format!("| {} | {} | {} |\n", claim.id, claim.source, claim.statement))
            .collect();
        let [first, .., last] = &rows[..] else { panic!("{family} has no claims") };
        for row in [first, last] {
            let id = row.trim_start_matches("| ").split(' ').next().expect("an id");
            assert!(heading.ends_with(id) || heading.contains(&format!(" {id} to")), "{heading}");
        }
        made = with_rows(&made, heading, "| id | where | what is claimed |", &rows.concat());
    }
    compare_or_write(&page, &made);
}

#[test]
fn every_claim_states_something() {
    for claim in claims::all() {
        assert!(claim.statement.ends_with('.'), "{}: '{}'", claim.id, claim.statement);
    }
}
