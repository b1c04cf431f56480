//! Copies `durability` of `ebbtide-core` and applies the patches of `mistakes` to the copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use diffy::patch_set::{ParseOptions, PatchSet};

/// The copied files, by name.
type Sources = BTreeMap<String, String>;

fn main() {
    let (source, mistakes) = ("../core/src/durability", "mistakes");
    println!("cargo::rerun-if-changed={source}");
    println!("cargo::rerun-if-changed={mistakes}");
    let mut sources = read_all(source);
    let mut planted = BTreeSet::new();
    for (name, patch) in read_all(mistakes) {
        match plant(&sources, &patch) {
            Ok(changed) => {
                sources.extend(changed);
                planted.insert(name.trim_end_matches(".patch").to_string());
            }
            Err(reason) => println!("cargo::warning=mistakes/{name} does not apply: {reason}"),
        }
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let folder = Path::new(&out).join("durability");
    fs::create_dir_all(&folder).expect("the output folder is writable");
    for (name, text) in &sources {
        // The tests inside the files run in `ebbtide-core`.
        let text = without_inner(text, name).replace("#[cfg(test)]", "#[cfg(any())]");
        fs::write(folder.join(name), text).expect("the folder is writable");
    }
    let planted = format!("&{planted:?}").replace(['{', '}'], "").replacen('&', "&[", 1) + "]";
    fs::write(Path::new(&out).join("planted.in"), planted).expect("the folder is writable");
}

/// Returns the files of a folder, by name.
fn read_all(folder: &str) -> Sources {
    let files = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let files = files.map(|file| file.expect("the folder is readable").path());
    let texts = files.map(|path| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        (path.file_name().expect("a file").to_string_lossy().into_owned(), text)
    });
    texts.collect()
}

/// Returns the files that `patch` changes, with its changes.
fn plant(sources: &Sources, patch: &str) -> Result<Sources, String> {
    let mut changed = Sources::new();
    for file in PatchSet::parse(patch, ParseOptions::unidiff()) {
        let file = file.map_err(|error| error.to_string())?;
        let hunks = file.patch().as_text().ok_or("it is binary")?;
        let name = hunks.modified().unwrap_or_default().trim_start_matches("b/");
        let text = sources.get(name).ok_or_else(|| format!("there is no file {name}"))?;
        let text = diffy::apply(text, hunks).map_err(|error| format!("{name}: {error}"))?;
        changed.insert(name.to_string(), text);
    }
    if changed.is_empty() { Err("it has no hunk".to_string()) } else { Ok(changed) }
}

/// Removes the doc comment of the module that another file includes, because it may not have one.
fn without_inner(text: &str, name: &str) -> String {
    let is_root = name == "mod.rs";
    let lines = text.lines().filter(|line| !(is_root && line.starts_with("//!")));
    lines.flat_map(|line| [line, "\n"]).collect()
}
