//! The developers' commands: `cargo xtask COMMAND`.

mod ci;
mod faults;
mod lines;
mod python;
mod release;
mod soak;
mod steps;

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use steps::{cargo, command, run};

/// The developers' commands of Ebbtide.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks everything that must hold before a change lands
    Ci,
    /// Runs the tests that take long
    Soak,
    /// Plants faults in a copy of the simulator, and checks that a test finds each
    Faults,
    /// Measures this machine: `ebbtide bench` as a release build
    Bench(Passed),
    /// Writes the generated pages and the header, and builds the documentation
    Docs,
    /// Runs the engine on emulated NVMe drives in QEMU
    Drive {
        /// What to run there
        #[arg(value_enum, default_value = "contract")]
        what: Drive,
    },
    /// Runs the test suite of Redis against `ebbtide serve`
    RedisSuite(Passed),
    /// Runs Redis clients in several languages against `ebbtide serve`
    Clients(Passed),
    /// Runs frameworks that use Redis against `ebbtide serve`, and writes their table
    Frameworks(Passed),
    /// Takes pictures of report pages in a headless Chromium
    Look(Passed),
    /// Builds a wheel for all Linux systems since 2018 and a source archive of the Python package
    PythonPackages,
    /// Builds a tarball, a Debian package, a wheel and checksums from a clean tree
    Release,
    /// Counts the lines of production code of each crate: without tests, benches, examples,
    /// comments and blank lines.
    Lines(lines::Arguments),
}

/// Arguments that are passed on.
#[derive(Args)]
struct Passed {
    /// Arguments of the program that runs
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// What runs on emulated drives.
#[derive(Clone, Copy, ValueEnum)]
enum Drive {
    /// The contract of devices, in two minutes
    Contract,
    /// A server under load
    Serve,
    /// A machine that is killed while it serves
    Kill,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Ci => ci::ci(),
        Command::Soak => soak::all(),
        Command::Faults => faults::run_all(),
        Command::Bench(passed) => {
            let bench = "run --release --locked -p ebbtide-cli -- bench";
            run(cargo(bench).args(passed.arguments))
        }
        Command::Docs => docs(),
        Command::Drive { what } => run(&mut command(match what {
            Drive::Contract => ".ci/emulated-drive",
            Drive::Serve => ".ci/served-guest",
            Drive::Kill => ".ci/killed-guest",
        })),
        Command::RedisSuite(passed) => {
            run(&mut cargo("build --release --locked -p ebbtide-cli"))?;
            let program = workspace().join("target/release/ebbtide");
            run(command("crates/server/redis-tests/run").arg(program).args(passed.arguments))
        }
        Command::Clients(passed) => {
            run(&mut cargo("build --release --locked -p ebbtide-cli"))?;
            run(command("crates/server/clients/run").args(passed.arguments))
        }
        Command::Frameworks(passed) => frameworks(&passed.arguments),
        Command::Look(passed) => run(command(".ci/look").args(passed.arguments)),
        Command::PythonPackages => python::packages().map(drop),
        Command::Release => release::release(),
        Command::Lines(arguments) => lines::run(&arguments),
    }
}

/// Runs the frameworks of these names, or all. A run of all writes
/// `crates/server/frameworks/table.md`.
fn frameworks(names: &[String]) -> anyhow::Result<()> {
    run(&mut cargo("build --release --locked -p ebbtide-cli"))?;
    let program = workspace().join("target/release/ebbtide");
    let table = steps::output(command("crates/server/frameworks/run").arg(program).args(names))?;
    print!("{table}");
    if names.is_empty() {
        std::fs::write(workspace().join("crates/server/frameworks/table.md"), table)?;
    }
    Ok(())
}

/// Writes what is generated from the source, and builds the documentation of all crates.
fn docs() -> anyhow::Result<()> {
    run(cargo("test --locked -p ebbtide-server documentation").env("EBBTIDE_WRITE_DOCS", "1"))?;
    let house = "test --locked -p ebbtide-cli --test house -- the_tables_of the_drawing_of";
    run(cargo(house).env("EBBTIDE_WRITE_DOCS", "1"))?;
    run(cargo("test --locked -p ebbtide-capi --test header").env("EBBTIDE_WRITE_HEADER", "1"))?;
    run(command("python3").arg("python/tools/make_config.py"))?;
    run(cargo("doc --workspace --no-deps --locked").env("RUSTDOCFLAGS", "-D warnings"))
}

/// Returns the folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
