//! The examples in the help of each verb.

use clap::Command;

/// A command line, and what it does.
type Example = (&'static str, &'static str);

/// The examples of each verb, by its path below `ebbtide`.
const ALL: [(&str, &[Example]); 22] = [
    (
        "bench",
        &[
            ("ebbtide bench", "Measure AstriFlash's seven programs, in some minutes"),
            (
                "ebbtide bench hash-table --dataset 1GiB --rounds 3",
                "Measure one program on less data",
            ),
            (
                "ebbtide bench tatp --durability every:1s",
                "Also measure a store that survives crashes",
            ),
            ("ebbtide bench --save before", "Save the result as before.bench.json"),
            (
                "ebbtide bench --against before --report out",
                "Compare with it, and write a page of charts",
            ),
        ],
    ),
    (
        "doctor",
        &[
            ("ebbtide doctor", "Check the permissions and the disk of this machine"),
            (
                "ebbtide doctor --data /mnt/ssd --write machine.toml",
                "Measure the cost of a miss there",
            ),
        ],
    ),
    (
        "sim",
        &[
            ("ebbtide sim --scale 1/64", "Simulate AstriFlash at 1/64 of its size, in seconds"),
            (
                "ebbtide sim --design flatflash --workload tpcc --scale 1/64",
                "Simulate another design",
            ),
            ("ebbtide sim --set dram_cache.ways=16 --scale 1/64", "Change a parameter"),
            (
                "ebbtide sim --arrivals poisson:0.7 --seeds 5 --report out",
                "Write a page of response times",
            ),
            ("ebbtide sim --trace app.ebt --set dataset.size=4GiB", "Replay a trace"),
        ],
    ),
    (
        "compare",
        &[
            ("ebbtide compare hash-table --report out", "Compare every design, and write a page"),
            (
                "ebbtide compare tpcc --design astriflash --design mine.toml",
                "Compare a design of your own",
            ),
            (
                "ebbtide compare --trace app.ebt --dram-price 3.5",
                "Compare on a trace, at your price of DRAM",
            ),
        ],
    ),
    (
        "designs",
        &[
            ("ebbtide designs", "List the designs"),
            ("ebbtide designs astriflash", "Describe one, with the source of every parameter"),
        ],
    ),
    (
        "sweep",
        &[
            ("ebbtide sweep", "Simulate three designs at several miss intervals"),
            (
                "ebbtide sweep mine.toml --figures paper",
                "Simulate your own sweep, with figures for a paper",
            ),
            (
                "ebbtide sweep mine.toml --shard 1/4",
                "Simulate the first of four parts on this machine",
            ),
        ],
    ),
    (
        "sweep merge",
        &[(
            "ebbtide sweep merge mine.results/shard-1-of-2 mine.results/shard-2-of-2",
            "Join two parts in mine.results",
        )],
    ),
    (
        "size",
        &[
            ("ebbtide size --workload tpcc --slo 2ms", "Size DRAM for a p99 response of 2 ms"),
            (
                "ebbtide size --trace app.ebt --job 50us --cores 4",
                "Size a traced program on four cores",
            ),
            (
                "ebbtide size --min-lifetime 5 --report out",
                "Require five years of SSD, and write a page",
            ),
        ],
    ),
    (
        "reproduce",
        &[
            ("ebbtide reproduce --list", "List every claim of the papers"),
            ("ebbtide reproduce astriflash --quick", "Test one paper's claims, in minutes"),
            ("ebbtide reproduce --claim AS3 AS4", "Test two claims"),
        ],
    ),
    (
        "serve",
        &[
            ("ebbtide serve --capacity 4GiB --dram 256MiB", "Serve a store on 127.0.0.1:6379"),
            (
                "ebbtide serve --durability always --cores 2",
                "Acknowledge a change once it survives a crash",
            ),
            ("ebbtide serve --config serve.toml", "Take the options from a file"),
        ],
    ),
    (
        "load",
        &[
            (
                "ebbtide load --keys 1000000 --writes 0.5 --check-all",
                "Load the server, and check every key",
            ),
            ("ebbtide load --rate 20000 --seconds 60", "Measure response times at a fixed rate"),
            ("ebbtide load --against redis", "Compare Ebbtide's server with a stock Redis"),
            (
                "ebbtide load --against redis --type hash --value 20",
                "The same with hashes of ten fields",
            ),
        ],
    ),
    (
        "import",
        &[(
            "ebbtide import dump.rdb --server 127.0.0.1:6379",
            "Send the keys of a file to a server",
        )],
    ),
    ("export", &[("ebbtide export dump.rdb", "Write the keys of the local server to a file")]),
    (
        "trace",
        &[
            ("ebbtide trace -o app.ebt -- ./app --threads 4", "Trace a program"),
            (
                "ebbtide trace -o app.ebt --skip 1000000 --limit 5000000 -- ./app",
                "Trace a part of it",
            ),
            ("ebbtide trace -o app.ebt --llc 32MiB,16 -- ./app", "Trace behind a larger cache"),
        ],
    ),
    (
        "trace convert",
        &[
            ("ebbtide trace convert app.ebt app.csv.zst", "Write CSV, compressed"),
            (
                "ebbtide trace convert view.txt app.ebt --from drmemtrace",
                "Read the view of drmemtrace",
            ),
            (
                "ebbtide trace convert app.ebt mapped.ebt --map fragmented:16",
                "Add physical addresses",
            ),
        ],
    ),
    (
        "trace info",
        &[("ebbtide trace info app.ebt", "Print the accesses, the footprint and locality")],
    ),
    ("store info", &[("ebbtide store info ebbtide-store", "Print the contents of a data file")]),
    ("store check", &[("ebbtide store check ebbtide-store", "Verify every checksum")]),
    ("store copy", &[("ebbtide store copy /backup/monday", "Copy the store of the local server")]),
    ("store grow", &[("ebbtide store grow ebbtide-store 8GiB", "Make room for more keys")]),
    (
        "man",
        &[
            ("ebbtide man", "Print the manual page"),
            ("ebbtide man pages", "Write the page of every verb into a folder"),
        ],
    ),
    (
        "completions",
        &[
            (
                "ebbtide completions bash",
                "Print the completions of bash, for /usr/share/bash-completion/completions/ebbtide",
            ),
            (
                "ebbtide completions zsh",
                "Print the completions of zsh, for a file _ebbtide in a folder of $fpath",
            ),
            (
                "ebbtide completions fish",
                "Print the completions of fish, for ~/.config/fish/completions/ebbtide.fish",
            ),
        ],
    ),
];

/// Adds examples to the help of `verb` and of the verbs below it. `above` is the path of the verb
/// above, with a blank at its end if there is one.
pub(crate) fn add(verb: Command, above: &str) -> Command {
    let path = format!("{above}{}", verb.get_name());
    let own = ALL.iter().find(|(name, _)| *name == path);
    let verb = match own {
        Some((_, examples)) => verb.after_help(shown(examples)),
        None => verb,
    };
    let path = path + " ";
    verb.mut_subcommands(|below| add(below, &path))
}

/// The section of the help.
fn shown(examples: &[Example]) -> String {
    let lines = examples.iter().map(|(line, about)| format!("\n  {line}\n      {about}"));
    format!("Examples:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` with the path of each verb that runs, and the verb.
    fn each_verb(above: &Command, path: &str, visit: &mut dyn FnMut(&str, &Command)) {
        for verb in above.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            let path = format!("{path} {}", verb.get_name());
            if !verb.is_subcommand_required_set() {
                visit(&path, verb);
            }
            each_verb(verb, &path, visit);
        }
    }

    #[test]
    fn every_verb_has_examples_and_each_can_be_parsed() {
        let (mut verbs, mut lines) = (0, 0);
        each_verb(&crate::command(), "ebbtide", &mut |path, verb| {
            verbs += 1;
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<&str> =
                help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
            let examples = examples.into_iter().filter(|line| line.starts_with("ebbtide"));
            let before = lines;
            for line in examples {
                lines += 1;
                assert!(line.starts_with(path), "{line}: in the help of {path}");
                assert!(line.len() <= 96, "{line}: too long for a terminal");
                let parsed = crate::command().try_get_matches_from(line.split(' '));
                assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("an error"));
            }
            assert!(lines > before, "{path} has no example");
        });
        assert_eq!(verbs, ALL.len(), "a verb in the list that does not exist");
        assert_eq!(lines, ALL.iter().map(|(_, examples)| examples.len()).sum::<usize>());
    }
}
