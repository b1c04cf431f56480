//! `ebbtide store`.

mod copy;
mod grow;

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use ebbtide_core::durability::Inspection;
use ebbtide_core::{Addr, PageId};
use ebbtide_engine::device::path;
use ebbtide_engine::store::{Access, Header, Store, StoreError};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::emit;
use crate::progress;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print the contents of a data file
    Info(File),
    /// Read all of a persistent store, verify every checksum, and name the damaged parts
    Check(File),
    /// Ask a running server for a consistent copy of its store in a new file, and wait for it
    Copy(copy::Arguments),
    /// Copy a persistent store that is not in use to a larger file, which takes its place
    Grow(grow::Arguments),
}

#[derive(Args)]
struct File {
    /// The data file or drive
    file: PathBuf,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Printed facts of a store.
#[derive(Serialize)]
struct Found {
    pages: u64,
    spare_pages: u64,
    tag: String,
    clean: bool,
    persist: Option<FoundPersist>,
}

/// Printed facts of a persist part.
#[derive(Serialize)]
struct FoundPersist {
    id: String,
    boot: u32,
    generation: u64,
    log_blocks: u64,
    log_blocks_used: u64,
    transactions: u64,
    pages_in_slots: u64,
    pages_to_redo: u64,
    damaged_map_blocks: u64,
    /// The first addresses of damaged pages.
    damaged: Vec<u64>,
    /// The first addresses of pages that were given up as damaged before.
    poisoned: Vec<u64>,
    /// Blocks of the persist part that the device cannot read.
    unreadable: Vec<u64>,
    pages_were_read: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (file, read_pages) = match &arguments.what {
        What::Info(file) => (file, false),
        What::Check(file) => (file, true),
        What::Copy(arguments) => return copy::run(arguments),
        What::Grow(arguments) => return grow::run(arguments),
    };
    let failed = |error: StoreError| Failure::of(error.is_input(), error);
    let (header, inspection) = progress::watched(|watch| {
        // The generic device of an NVMe namespace stands for the block device, as it does in
        // `serve`.
        let (drive, _) = path::resolve(&file.file, None);
        let store = Store::open(&drive, 0, Access::SharedReadOnly).map_err(failed)?;
        let inspection = store.inspect(read_pages, watch).map_err(failed)?;
        Ok::<_, Failure>((store.header(), inspection))
    })??;
    let sound = inspection.as_ref().is_none_or(Inspection::is_sound);
    emit(&found(&header, inspection), file.json)?;
    if sound { Ok(()) } else { Err(Failure::run(format!("{}: damaged", file.file.display()))) }
}

fn found(header: &Header, inspection: Option<Inspection>) -> Found {
    let starts = |pages: Vec<PageId>| pages.into_iter().map(|page| page.start().0).collect();
    Found {
        pages: header.pages,
        spare_pages: header.spare_pages,
        tag: header.tag.clone(),
        clean: header.clean,
        persist: inspection.map(|inspection| FoundPersist {
            id: format!("{:016x}", header.id),
            boot: inspection.superblock.boot,
            generation: inspection.superblock.generation,
            log_blocks: header.log_blocks,
            log_blocks_used: inspection.log_blocks,
            transactions: inspection.transactions,
            pages_in_slots: inspection.pages_in_slots,
            pages_to_redo: inspection.pages_to_redo,
            damaged_map_blocks: inspection.damaged_map_blocks,
            damaged: starts(inspection.damaged),
            poisoned: starts(inspection.poisoned),
            unreadable: inspection.unreadable.iter().map(|block| block.0).collect(),
            pages_were_read: inspection.pages_were_read,
        }),
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |pages: u64| pages.div_ceil(256);
        writeln!(f, "image              {}", self.tag)?;
        writeln!(f, "pages              {} ({} MiB)", self.pages, mib(self.pages))?;
        writeln!(f, "spare pages        {}", self.spare_pages)?;
        let Some(persist) = &self.persist else {
            let state = if self.clean { "clean" } else { "changed: it has to be created again" };
            return writeln!(f, "extend memory      {state}");
        };
        let FoundPersist { log_blocks, log_blocks_used, .. } = persist;
        writeln!(f, "persistent store   {}", persist.id)?;
        writeln!(f, "opened             {} times", persist.boot)?;
        writeln!(f, "superblock         generation {}", persist.generation)?;
        writeln!(f, "log                {log_blocks_used} of {log_blocks} blocks in use")?;
        writeln!(f, "transactions there {}", persist.transactions)?;
        writeln!(f, "pages to recover   {}", persist.pages_to_redo)?;
        writeln!(f, "pages written      {}", persist.pages_in_slots)?;
        for (what, starts) in [("damaged", &persist.damaged), ("poisoned", &persist.poisoned)] {
            for &start in starts {
                writeln!(
                    f,
                    "{what}            persist page {} at {:?}",
                    Addr(start).page().0,
                    Addr(start)
                )?;
            }
        }
        for block in &persist.unreadable {
            writeln!(f, "unreadable         block {block} of the persist part")?;
        }
        if persist.damaged_map_blocks > 0 {
            writeln!(f, "page map           {} blocks damaged", persist.damaged_map_blocks)?;
        }
        if persist.pages_were_read && persist.damaged.is_empty() && persist.poisoned.is_empty() {
            writeln!(f, "checksums          all right")?;
        }
        Ok(())
    }
}
