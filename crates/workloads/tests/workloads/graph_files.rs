//! Graphs from files: the contents that are read, and the errors of other files.

use std::path::{Path, PathBuf};

use ebbtide_workloads::graph::{EdgeList, GraphError, read};
use proptest::prelude::*;

/// Reads `text` from a file of its own, called `name`.
fn read_text(name: &str, text: &[u8]) -> Result<EdgeList, GraphError> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    let graph = read(&path);
    std::fs::remove_file(&path).unwrap();
    graph
}

/// What is said of `text`, from the line number on.
fn refusal(name: &str, text: &str) -> String {
    let error = read_text(name, text.as_bytes()).unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    let after = error.split(name).nth(1).unwrap_or_else(|| panic!("no file name in {error}"));
    after.strip_prefix(':').unwrap().to_string()
}

#[test]
fn an_edge_list_is_read_as_snap_writes_it() {
    let text =
        b"# Directed graph\n# FromNodeId\tToNodeId\n0\t5\n5 7\r\n\n  7   0 \n% more\n7\t7 0.5 12";
    let graph = read_text("snap.txt", text).unwrap();
    // 0, 5 and 7 are numbered anew.
    assert_eq!(graph, EdgeList::new(3, vec![[0, 1], [1, 2], [2, 0], [2, 2]]));
}

#[test]
fn a_matrix_is_read_with_all_its_rows() {
    let general =
        b"%%MatrixMarket matrix coordinate pattern general\n% by hand\n4 4 3\n1 2\n\n2 1\n4 4\n";
    let graph = read_text("general.mtx", general).unwrap();
    assert_eq!(graph, EdgeList::new(4, vec![[0, 1], [1, 0], [3, 3]]));
    let symmetric = b"%%matrixmarket MATRIX Coordinate Real Symmetric\n3 3 2\n2 1 -1.5e3\n3 3 0";
    let graph = read_text("symmetric.mtx", symmetric).unwrap();
    assert_eq!(graph, EdgeList::new(3, vec![[1, 0], [0, 1], [2, 2]]));
    let integer = b"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 7\n";
    assert_eq!(read_text("integer.mtx", integer).unwrap(), EdgeList::new(2, vec![[0, 1]]));
    let empty = b"%%MatrixMarket matrix coordinate integer general\n2 2 0\n";
    assert_eq!(read_text("empty.mtx", empty).unwrap(), EdgeList::new(2, vec![]));
}

#[test]
fn a_line_that_is_no_edge_is_named() {
    let vertices = "expected two vertex numbers of 0 to 4294967294, found";
    for (text, line, found) in [
        ("0 1\nfoo\n", 2, "'foo'"),
        ("# one\n\n0\n", 3, "'0'"),
        ("0 x", 1, "'0 x'"),
        ("0 -1", 1, "'0 -1'"),
        ("0 4294967295", 1, "'0 4294967295'"),
        ("0 99999999999999999999999", 1, "'0 99999999999999999999999'"),
        ("0,1", 1, "'0,1'"),
        ("0 1.5", 1, "'0 1.5'"),
        ("1 2 three", 1, "'1 2 three'"),
        ("1 2\u{1f}\u{8b}", 1, r"'1 2\u{1f}\u{8b}'"),
    ] {
        assert_eq!(refusal("edges.txt", text), format!("{line}: {vertices} {found}"), "{text:?}");
    }
    let long = "7 ".repeat(100) + "x";
    let shown = format!("'{}…'", "7 ".repeat(20));
    assert_eq!(refusal("long.txt", &long), format!("1: {vertices} {shown}"));
    for (text, line) in [("", 1), ("# nothing\n", 2), ("\n\n\n", 4)] {
        let expected = format!("{line}: expected an edge, found the end of the file");
        assert_eq!(refusal("nothing.txt", text), expected);
    }
}

#[test]
fn a_file_that_is_not_text_is_refused_without_reading_on() {
    let endless = vec![0u8; 1 << 20];
    let error = read_text("zeros.bin", &endless).unwrap_err().to_string();
    assert!(error.contains("zeros.bin:1: expected a line of text, found"), "{error}");
    let error = read_text("gzip.txt.gz", &[0x1f, 0x8b, 8, 0, 0xff, b'\n']).unwrap_err();
    assert!(error.to_string().contains("gzip.txt.gz:1: expected two vertex numbers"), "{error}");
}

#[test]
fn a_line_of_a_matrix_that_is_wrong_is_named() {
    const HEADER: &str = "%%MatrixMarket matrix coordinate pattern general\n";
    let formats = "1: expected '%%MatrixMarket matrix coordinate', then pattern, integer or real, \
                   then general or symmetric, found";
    for header in [
        "%%MatrixMarket matrix array real general",
        "%%MatrixMarket matrix coordinate complex general",
        "%%MatrixMarket matrix coordinate real hermitian",
        "%%MatrixMarket matrix coordinate real",
        "%%MatrixMarket",
    ] {
        let found = refusal("header.mtx", &format!("{header}\n2 2 0\n"));
        let shown: String = header.chars().take(40).collect();
        assert!(found.starts_with(&format!("{formats} '{shown}")), "{found}");
    }
    let sizes = "expected the numbers of rows, of as many columns, and of entries, found";
    let entry = "expected a row and a column of 1 to 3, found";
    for (rest, expected) in [
        ("3 4 1\n1 1\n", format!("2: {sizes} '3 4 1'")),
        ("0 0 0\n", format!("2: {sizes} '0 0 0'")),
        ("3 3\n", format!("2: {sizes} '3 3'")),
        ("3 3 1 1\n", format!("2: {sizes} '3 3 1 1'")),
        ("a b c\n", format!("2: {sizes} 'a b c'")),
        (
            "% no more\n",
            "3: expected the numbers of rows, columns and entries, found the end of \
                         the file"
                .into(),
        ),
        (
            "5000000000 5000000000 1\n",
            "2: expected at most 4294967294 rows, found '5000000000 \
                                       5000000000 1'"
                .into(),
        ),
        ("3 3 1\n0 1\n", format!("3: {entry} '0 1'")),
        ("3 3 1\n1 4\n", format!("3: {entry} '1 4'")),
        ("3 3 1\n1\n", format!("3: {entry} '1'")),
        ("3 3 1\n1 2 0.5\n", format!("3: {entry} '1 2 0.5'")),
        ("3 3 2\n1 2\n", "4: expected 2 entries, found the end of the file after 1".into()),
        ("3 3 1\n1 2\n2 3\n", "4: expected the end of the file (entries: 1), found '2 3'".into()),
    ] {
        assert_eq!(refusal("matrix.mtx", &format!("{HEADER}{rest}")), expected);
    }
    let real = "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2\n";
    let expected = "3: expected a row and a column of 1 to 3, and a value, found '1 2'";
    assert_eq!(refusal("real.mtx", real), expected);
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let path = PathBuf::from("no/such/graph.txt");
    let error = read(&path).unwrap_err();
    assert!(matches!(error, GraphError::Io { .. }));
    assert!(error.to_string().starts_with("no/such/graph.txt: "), "{error}");
    let folder = read(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap_err();
    assert!(matches!(folder, GraphError::Io { .. }), "{folder}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read(
        edges in prop::collection::vec([0u32..40, 0u32..40], 1..60),
        separator in prop::sample::select(vec!["\t", " ", "  "]),
    ) {
        // Gaps between the numbers vanish, their order stays.
        let mut used: Vec<u32> = edges.concat();
        used.sort_unstable();
        used.dedup();
        let number = |vertex: u32| used.binary_search(&vertex).unwrap() as u32;
        let numbered: Vec<[u32; 2]> = edges.iter().map(|edge| edge.map(number)).collect();
        let lines: Vec<String> =
            edges.iter().map(|[from, to]| format!("{}{separator}{}", from * 1000, to * 1000)).collect();
        let graph = read_text("written.txt", lines.join("\n").as_bytes()).unwrap();
        prop_assert_eq!(&graph, &EdgeList::new(used.len() as u32, numbered));

        let entries: Vec<String> =
            edges.iter().map(|[from, to]| format!("{}{separator}{}", from + 1, to + 1)).collect();
        let header = format!(
            "%%MatrixMarket matrix coordinate pattern general\n40 40 {}\n", edges.len(),
        );
        let graph = read_text("written.mtx", (header + &entries.join("\n")).as_bytes()).unwrap();
        prop_assert_eq!(&graph, &EdgeList::new(40, edges));
    }
}
