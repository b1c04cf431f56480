//! `ebbtide store grow`: makes a store that is not in use larger.

use std::path::PathBuf;

use clap::Args;
use ebbtide_core::{Bytes, PAGE_BYTES};
use ebbtide_engine::Larger;
use ebbtide_engine::embedded::{self, Error};
use ebbtide_engine::store::{Access, Header, Store, StoreError};

use crate::exit::{Failure, print};
use crate::progress;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file of the store. Its folder needs room for the larger one too
    file: PathBuf,
    /// The new size of the room for keys and values; of the address space in a program's own store
    size: Bytes,
    /// DRAM to open a store of the library with
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    dram: Bytes,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, size, dram } = arguments;
    let failed = |error: StoreError| Failure::of(error.is_input(), error);
    let header = Store::open(file, 0, Access::SharedReadOnly).map_err(failed)?.header();
    let grown = progress::watched(|watch| {
        if embedded::is_of(&header) {
            let opened = embedded::Store::builder(file).dram(dram.0).open();
            opened.and_then(|store| store.grow_watched(size.0, watch))
        } else {
            Ok(Store::grow(file, larger(&header, *size), watch)?)
        }
    })?;
    grown.map_err(|error: Error| Failure::of(error.is_input(), error))?;
    print(&format!("{}: {size}\n", file.display()))
}

/// A larger store with the same share of spare places.
fn larger(header: &Header, size: Bytes) -> Larger {
    let pages = size.0 / PAGE_BYTES as u64;
    let spare =
        u128::from(header.spare_pages) * u128::from(pages) / u128::from(header.pages.max(1));
    Larger { pages, spare_pages: spare as u64, gap: None }
}
