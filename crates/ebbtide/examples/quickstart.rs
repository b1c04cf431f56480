//! Counts visits in a store that is made, or opened again with all that it had.

use ebbtide::{Error, Store};

fn main() -> Result<(), Error> {
    let store = Store::builder("users.ebb").size("64MiB").dram("16MiB").open()?;
    let (names, visits) = (store.map("names")?, store.ordered_map("visits")?);
    names.insert("user:1", "Ada")?;
    let count = visits.update("2026-07-01", |old| Some(vec![old.map_or(0, |old| old[0]) + 1]))?;
    let name = names.get("user:1")?.unwrap_or_default();
    println!("{} came {} times", String::from_utf8_lossy(&name), count.unwrap_or_default()[0]);
    for visit in visits.range("2026-07".."2026-08") {
        println!("{}", String::from_utf8_lossy(&visit?.0));
    }
    Ok(())
}
