//! Keys and values on flash that survive a crash: the program of the README.

use ebbtide_core::Bytes;
use ebbtide_engine::{Dictionary, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (size, dram) = (Bytes(1 << 30), 64 << 20);
    let store = Dictionary::open("users.ebb".as_ref(), None, size, &Options::new(dram))?;
    store.change(vec![(b"user:1".to_vec(), Some(b"Ada".to_vec()))])?;
    let name = store.get(b"user:1")?;
    println!("{}", String::from_utf8_lossy(&name.unwrap_or_default()));
    Ok(())
}
