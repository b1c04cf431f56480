//! The structure of the workspace. A crate depends only on crates above it, and a crate's modules
//! do not import each other in a circle. Unsafe code has its places. Nothing refers to a document
//! outside of the project. The pages agree with the code. The text is plain.

mod drawing;
mod language;
mod links;
mod modules;
mod references;
mod systems;
mod unsafe_code;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use modules::Modules;
use serde_json::Value;

/// The crates, by folder. Each may depend only on those before it. A name whose crate does not
/// exist yet keeps its place. Crates for tests come last, so that nothing is built on them.
const LAYERS: [&str; 19] = [
    "core",
    "fiber",
    "structures",
    "trace",
    "workloads",
    "flash",
    "sim",
    "engine",
    "server",
    "report",
    "measure",
    "study",
    "papers",
    "ebbtide",
    "capi",
    "cli",
    "testbed",
    "planted",
    "xtask",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the texts of the project with one of `endings`, as paths below its root.
fn text_files(endings: &[&str]) -> Vec<String> {
    fn add(folder: &Path, endings: &[&str], files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    add(&path, endings, files);
                }
            } else if endings.iter().any(|ending| path.extension().is_some_and(|e| e == *ending)) {
                files.push(path);
            }
        }
    }
    let (root, mut files) = (workspace(), Vec::new());
    add(&root, endings, &mut files);
    let below = |path: PathBuf| path.strip_prefix(&root).expect("below").display().to_string();
    files.into_iter().map(below).collect()
}

/// What cargo prints, asked in the workspace.
fn cargo(arguments: &[&str]) -> Vec<u8> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_string());
    let output =
        Command::new(cargo).args(arguments).current_dir(workspace()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A crate's folder under `crates` and the folders of the workspace's crates that it needs.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// Returns the needs of every crate of the workspace, without those of its tests.
fn needs() -> Needs {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Value = serde_json::from_slice(&metadata).expect("JSON");
    let folder = |path: &Value| {
        let path = Path::new(path.as_str().expect("a path"));
        path.file_name().expect("a name").to_string_lossy().into_owned()
    };
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let crates = list(&metadata["packages"]);
    let crates = crates.iter().map(|package| {
        let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
        let own = manifest.parent().and_then(Path::file_name).expect("a folder");
        let needed = list(&package["dependencies"]);
        let needed = needed
            .iter()
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string());
        let needed = needed.map(|dependency| folder(&dependency["path"])).collect();
        (own.to_string_lossy().into_owned(), needed)
    });
    crates.collect()
}

/// Returns the dependencies that cross the layers, one line each.
fn crossed(layers: &[&str], needs: &Needs) -> Vec<String> {
    let place = |name: &str| layers.iter().position(|layer| *layer == name);
    let mut crossed = Vec::new();
    for (own, needed) in needs {
        let Some(own_place) = place(own) else {
            crossed.push(format!("crates/{own} has no place in LAYERS"));
            continue;
        };
        let above = |name: &String| place(name).is_some_and(|place| place < own_place);
        let below = needed.iter().filter(|name| !above(name));
        crossed.extend(below.map(|name| format!("{own} depends on {name}, which is not above it")));
    }
    crossed
}

#[test]
fn a_crate_depends_only_on_crates_above_it() {
    let needs = needs();
    assert!(needs.len() >= 10, "{needs:?}");
    assert!(needs["sim"].contains("core"), "{needs:?}");
    let crossed = crossed(&LAYERS, &needs);
    assert!(crossed.is_empty(), "{}", crossed.join("\n"));
}

#[test]
fn a_crossed_layer_is_found() {
    let of = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    let needs = |crates: &[(&str, &[&str])]| -> Needs {
        crates.iter().map(|(name, needed)| (name.to_string(), of(needed))).collect()
    };
    let layers = ["core", "sim", "engine"];
    let right = needs(&[("core", &[]), ("sim", &["core"]), ("engine", &["core", "sim"])]);
    assert_eq!(crossed(&layers, &right), Vec::<String>::new());
    let wrong = needs(&[("sim", &["engine"]), ("core", &["core"]), ("tools", &[])]);
    assert_eq!(
        crossed(&layers, &wrong),
        [
            "core depends on core, which is not above it",
            "sim depends on engine, which is not above it",
            "crates/tools has no place in LAYERS",
        ]
    );
}

/// The uses among modules of one parent, by the modules' paths. A use of a deeper module counts for
/// the two modules below their common parent. A parent and its inner modules may use each other.
/// Each use has one example, by the paths of the modules that meet there.
type Uses = BTreeMap<(String, String), String>;

fn uses(modules: &Modules) -> Uses {
    let mut uses = Uses::new();
    for (from, to) in modules.dependencies() {
        let (from_line, to_line) = (modules.lineage(from), modules.lineage(to));
        let parted = from_line.iter().zip(&to_line).find(|(from, to)| from != to);
        if let Some((above, below)) = parted {
            let pair = (modules.path(*above).to_string(), modules.path(*below).to_string());
            let example = format!("{} uses {}", modules.path(from), modules.path(to));
            uses.entry(pair).or_insert(example);
        }
    }
    uses
}

/// The shortest circle through the use of `to` by `from`: the modules in order, `from` first.
fn circle(uses: &Uses, from: &str, to: &str) -> Option<Vec<String>> {
    let mut came_from = BTreeMap::from([(to.to_string(), None::<String>)]);
    let mut next = vec![to.to_string()];
    while !next.is_empty() && !came_from.contains_key(from) {
        let mut found = Vec::new();
        for here in &next {
            for (_, there) in uses.keys().filter(|(user, _)| user == here) {
                if !came_from.contains_key(there) {
                    came_from.insert(there.clone(), Some(here.clone()));
                    found.push(there.clone());
                }
            }
        }
        next = found;
    }
    let mut way = vec![from.to_string()];
    while let Some(before) = came_from.get(&way[way.len() - 1])? {
        way.push(before.clone());
    }
    way.push(from.to_string());
    way.reverse();
    Some(way)
}

/// The shortest circle among `uses`, in words.
fn shortest_circle(uses: &Uses) -> Option<String> {
    let circles = uses.keys().filter_map(|(from, to)| circle(uses, from, to));
    let shortest = circles.min_by_key(Vec::len)?;
    let steps = shortest.windows(2).map(|step| {
        let [from, to] = step else { unreachable!("windows of two") };
        let example = &uses[&(from.clone(), to.clone())];
        format!("{from} -> {to} ({example})")
    });
    Some(steps.collect::<Vec<_>>().join(", "))
}

/// The root of every crate of the workspace, by the crate's folder.
fn roots() -> Vec<(String, PathBuf)> {
    let crates = needs().into_keys().map(|name| {
        let source = workspace().join("crates").join(&name).join("src");
        let library = source.join("lib.rs");
        let root = if library.exists() { library } else { source.join("main.rs") };
        (name, root)
    });
    crates.collect()
}

#[test]
fn modules_do_not_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for (name, root) in roots() {
        let circle = shortest_circle(&uses(&Modules::read(&root)));
        wrong.extend(circle.map(|circle| format!("{name}: {circle}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The uses among the modules of a crate made of `files`.
fn uses_of(files: &[(&str, &str)]) -> Uses {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }
    uses(&Modules::read(&folder.path().join("lib.rs")))
}

fn pairs(uses: &Uses) -> Vec<(&str, &str)> {
    uses.keys().map(|(from, to)| (from.as_str(), to.as_str())).collect()
}

#[test]
fn a_circle_is_found_and_named() {
    let uses = uses_of(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b/mod.rs", "mod deep; pub struct B;"),
        ("b/deep.rs", "fn f() -> bool { matches!(super::super::c::C, crate::c::C) }"),
        ("c.rs", "pub struct C; fn f(_: crate::a::A) {}"),
    ]);
    let found = "a -> b (a uses b), b -> c (b::deep uses c), c -> a (c uses a)";
    assert_eq!(shortest_circle(&uses).as_deref(), Some(found));
}

#[test]
fn imports_are_followed_to_the_module_that_defines_the_name() {
    let uses = uses_of(&[
        ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::*;"),
        ("a.rs", "pub struct A; use super::B; use std::fmt::{self, Write as _};"),
        ("b.rs", "pub struct B;"),
        ("c/mod.rs", "use crate::{A as Renamed, b::{self, B}}; pub use x::X; mod x; mod y;"),
        ("c/x.rs", "pub struct X; impl super::super::A {}"),
        ("c/y.rs", "use super::X;"),
    ]);
    assert_eq!(pairs(&uses), [("a", "b"), ("c", "a"), ("c", "b"), ("c::y", "c::x")]);
}

#[test]
fn a_parent_and_what_is_inside_it_may_use_each_other() {
    let uses = uses_of(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod inner; use inner::deepest::Deep; pub struct A;"),
        ("a/inner/mod.rs", "pub mod deepest; use super::A;"),
        ("a/inner/deepest.rs", "use crate::a::A; pub struct Deep;"),
        ("b.rs", "mod inside { use super::F; } struct F; use self::inside::*;"),
    ]);
    assert_eq!(pairs(&uses), []);
}

#[test]
fn what_only_tests_import_does_not_count() {
    let uses = uses_of(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "//! See crate::b::B.\n pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        (
            "b.rs",
            "#[cfg(test)] use crate::a::A; #[cfg(test)] #[path = \"t.rs\"] mod t; const S: &str = \"crate::a::A\";",
        ),
    ]);
    assert_eq!(pairs(&uses), []);
}
