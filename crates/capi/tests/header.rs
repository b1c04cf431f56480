//! `include/ebbtide.h` matches the library, and its CMake package has the library's version.

use std::path::Path;

/// Returns the header of the library as it must be.
///
/// The headings `# Safety` are left out, because in C every function is unsafe. cbindgen cannot
/// express that a callback does not throw.
fn header() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config =
        cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a configuration");
    let bindings = cbindgen::Builder::new().with_crate(folder).with_config(config).generate();
    let mut text = Vec::new();
    bindings.expect("C can say it").write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8").replace("// # Safety\n", "");
    text.split_inclusive(';').map(never_throws).collect()
}

/// Adds the mark that a callback does not throw, if a declaration is that of a callback.
fn never_throws(declaration: &str) -> String {
    match declaration.strip_suffix(");").filter(|start| start.contains("typedef int32_t (*")) {
        Some(start) => format!("{start}) EBBTIDE_NOEXCEPT;"),
        None => declaration.to_string(),
    }
}

#[test]
fn no_callback_may_throw() {
    let header = header();
    let mut callbacks =
        header.split_inclusive(';').filter(|declaration| declaration.contains("(*"));
    assert!(callbacks.all(|callback| callback.ends_with(" EBBTIDE_NOEXCEPT;")));
}

/// `EBBTIDE_WRITE_HEADER=1 cargo test -p ebbtide-capi --test header` writes it.
#[test]
fn the_header_is_that_of_the_library() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/ebbtide.h");
    let made = header();
    if std::env::var_os("EBBTIDE_WRITE_HEADER").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = made.lines().zip(found.lines()).position(|(made, found)| made != found);
    assert!(
        made == found,
        "{} differs, first in line {:?}",
        path.display(),
        differs.map(|n| n + 1)
    );
}

#[test]
fn the_cmake_package_has_the_version_of_the_library() {
    let package = include_str!("../cmake/EbbtideConfigVersion.cmake");
    let version = env!("CARGO_PKG_VERSION");
    let interface =
        concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"), ".");
    assert!(package.contains(&format!("set(PACKAGE_VERSION {version})")), "{version}");
    assert!(package.contains(&format!("\"{interface}\"")), "{interface}");
}
