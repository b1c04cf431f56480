//! The drawing of the crates in `docs/ARCHITECTURE.md` is made from their manifests.

use std::collections::BTreeSet;
use std::{env, fs};

use super::{LAYERS, Needs, needs, workspace};

const PAGE: &str = "docs/ARCHITECTURE.md";
const TOP: &str = "```mermaid\n";

/// Whether `from` needs `to` by way of another crate.
fn is_indirect(needs: &Needs, from: &str, to: &str) -> bool {
    let mut open: Vec<&String> = needs[from].iter().filter(|name| *name != to).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if name == to {
            return true;
        }
        if seen.insert(name) {
            open.extend(needs.get(name).into_iter().flatten());
        }
    }
    false
}

/// The drawing in Mermaid's language. An arrow leads from a crate to one that it needs, and is
/// left out where a chain of others says the same. Crates for developers are not drawn.
fn drawing(layers: &[&str], needs: &Needs) -> String {
    let drawn = |name: &str| !["testbed", "planted", "xtask"].contains(&name);
    let mut lines = vec!["flowchart BT".to_string()];
    for own in layers.iter().filter(|name| needs.contains_key(**name) && drawn(name)) {
        let direct = needs[*own].iter().filter(|to| drawn(to) && !is_indirect(needs, own, to));
        let direct: Vec<&str> = direct.map(String::as_str).collect();
        lines.push(match direct.is_empty() {
            true => format!("    {own}"),
            false => format!("    {own} --> {}", direct.join(" & ")),
        });
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_drawing_of_the_crates_is_made_of_their_manifests() {
    let page = fs::read_to_string(workspace().join(PAGE)).expect(PAGE);
    let (before, rest) = page.split_once(TOP).expect("a drawing");
    let (_, after) = rest.split_once("```").expect("the drawing's end");
    let made = format!("{before}{TOP}{}```{after}", drawing(&LAYERS, &needs()));
    if env::var_os("EBBTIDE_WRITE_DOCS").is_some() {
        fs::write(workspace().join(PAGE), made).expect(PAGE);
    } else {
        assert!(page == made, "run this test with EBBTIDE_WRITE_DOCS=1 to write {PAGE}");
    }
}

#[test]
fn an_arrow_that_others_imply_is_left_out() {
    let set = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let needs = Needs::from([
        ("core".to_string(), set(&[])),
        ("sim".to_string(), set(&["core"])),
        ("study".to_string(), set(&["core", "sim"])),
        ("cli".to_string(), set(&["study", "core", "xtask"])),
        ("xtask".to_string(), set(&[])),
    ]);
    let expected =
        "flowchart BT\n    core\n    sim --> core\n    study --> sim\n    cli --> study\n";
    assert_eq!(drawing(&["core", "sim", "study", "cli", "xtask"], &needs), expected);
}
