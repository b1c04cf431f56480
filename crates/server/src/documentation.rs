//! The page on commands, made from the table that dispatches them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::command::{Spec, TABLE, limits};

/// The table that `crates/server/frameworks/run` has printed.
const FRAMEWORKS: &str = include_str!("../frameworks/table.md");

/// Returns the text of `docs/COMMANDS.md`.
pub fn commands_page() -> String {
    let mut groups: BTreeMap<&str, Vec<&Spec>> = BTreeMap::new();
    for spec in TABLE {
        groups.entry(spec.group).or_default().push(spec);
    }
    let mut page = String::from(
        "# Commands of `ebbtide serve`\n\n\
         This page is generated from the table that dispatches commands. A test compares the two. Other\n\
         commands get the error of an unknown command. The number of arguments includes the command's name.\n\
         A negative number is a minimum: -3 means at least 3. The last column counts arguments without the\n\
         name.\n\n\
         A crash may leave a part of some changes, as their rows say. *Many* are more than 512, or more than a\n\
         [transaction](DURABILITY.md#limits) may change. Rows with a bound of 255 arguments have this bound too.\n",
    );
    for (group, specs) in groups {
        let _ =
            write!(page, "\n## {group}\n\n| command | arguments | what it does |\n|---|---|---|\n");
        for spec in specs {
            let name = spec.name.to_uppercase();
            let _ = writeln!(page, "| `{name}` | {} | {} |", spec.arity, spec.summary);
        }
    }
    page.push_str(
        "\n## Limits\n\nA command that exceeds a limit fails with an error, unless the table says otherwise.\n\n",
    );
    page.push_str("| what | at most |\n|---|---|\n");
    for (what, most) in limits() {
        let _ = writeln!(page, "| {what} | {most} |");
    }
    page.push_str(
        "\n## Frameworks\n\n`cargo xtask frameworks` installs each of these and runs a check with a server of\n\
         `--dram 64MiB --capacity 1GiB`.\n\n",
    );
    page.push_str(FRAMEWORKS);
    page
}
