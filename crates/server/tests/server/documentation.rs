//! `docs/COMMANDS.md` agrees with the table of commands.

#[test]
fn the_page_on_commands_is_made_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/COMMANDS.md");
    let made = ebbtide_server::commands_page();
    if std::env::var_os("EBBTIDE_WRITE_DOCS").is_some() {
        std::fs::write(path, &made).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == made, "run this test with EBBTIDE_WRITE_DOCS=1 to write docs/COMMANDS.md");
}
