//! The programs of the guide are the examples, so that they compile as they stand. `tests/c.rs`
//! runs those in C, and `check.sh` those in C++ too.

use std::path::Path;

/// The blocks of C and C++ in a document.
fn blocks(document: &str) -> Vec<String> {
    let (mut blocks, mut block) = (Vec::new(), None);
    for line in document.split_inclusive('\n') {
        match &mut block {
            None if matches!(line, "```c\n" | "```cpp\n") => block = Some(String::new()),
            None => {}
            Some(_) if line == "```\n" => blocks.extend(block.take()),
            Some(block) => block.push_str(line),
        }
    }
    blocks
}

#[test]
fn every_block_of_the_guide_is_an_example() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(folder.join("../../docs/C.md")).expect("the guide");
    let examples = folder.join("examples").read_dir().expect("the examples");
    let examples: Vec<String> = examples
        .filter_map(|example| std::fs::read_to_string(example.expect("a file").path()).ok())
        .collect();
    let blocks = blocks(&guide);
    assert!(blocks.len() >= 3, "{} blocks", blocks.len());
    for block in blocks {
        assert!(examples.contains(&block), "the guide has another program:\n{block}");
    }
}

#[test]
fn blocks_of_other_languages_are_left_out() {
    let document = "a\n```c\nint a;\n```\n```sh\ncc a.c\n```\n```cpp\n\nint b;\n```\n";
    assert_eq!(blocks(document), ["int a;\n", "\nint b;\n"]);
}
