//! `cargo xtask release`: what a release consists of, from a clean tree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::steps::{cargo, command, output, run};
use crate::{python, workspace};

/// Builds a tarball of the program, a Debian package, the packages for Python and their checksums
/// in `target/release-files`.
///
/// # Errors
/// When the tree has changes, or a part cannot be built.
pub(crate) fn release() -> anyhow::Result<()> {
    let changed = output(command("git").args(["status", "--porcelain"]))?;
    ensure!(changed.is_empty(), "the tree has changes, expected a clean one:\n{changed}");
    let version = env!("CARGO_PKG_VERSION");
    let folder = workspace().join("target/release-files");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    tarball(&folder, &format!("ebbtide-{version}-x86_64-linux"))?;
    run(&mut command("packaging/deb"))?;
    let deb = folder.join(format!("ebbtide_{version}_amd64.deb"));
    fs::copy(workspace().join("target/packaging/ebbtide.deb"), deb)?;
    for package in python::packages()? {
        fs::copy(&package, folder.join(package.file_name().context("the package's name")?))?;
    }
    let mut names: Vec<PathBuf> = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.file_name().into()))
        .collect::<anyhow::Result<_>>()?;
    names.sort();
    let sums = output(command("sha256sum").args(&names).current_dir(&folder))?;
    fs::write(folder.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    Ok(())
}

/// Packs the program with its licences and its README.
fn tarball(folder: &Path, name: &str) -> anyhow::Result<()> {
    run(&mut cargo("build --release --locked -p ebbtide-cli"))?;
    let inside = folder.join(name);
    fs::create_dir_all(&inside)?;
    for file in
        ["target/release/ebbtide", "README.md", "LICENSE-MIT", "LICENSE-APACHE", "CHANGELOG.md"]
    {
        let from = workspace().join(file);
        fs::copy(&from, inside.join(from.file_name().context("a file's name")?))
            .with_context(|| file.to_string())?;
    }
    let mut tar = command("tar");
    tar.args(["--create", "--gzip", "--owner=0", "--group=0", "--file"]);
    run(tar.arg(folder.join(format!("{name}.tar.gz"))).arg("-C").arg(folder).arg(name))?;
    Ok(fs::remove_dir_all(inside)?)
}
