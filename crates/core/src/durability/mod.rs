//! Durable memory: the results that a program sees of its transactions, and the protocol behind
//! them.
//!
//! * [`Lsn`]: the place of a transaction in the log, and with it the order of all of them.
//! * [`TransactionError`]: why a transaction did not take place, or cannot become durable.
//! * [`WriteSet`]: the stores of a transaction that no other job sees yet.
//! * [`Journal`]: the log, the page map and the slots of a persist part that is in use.
//! * [`recover`]: makes a journal from the store that a crash has left.
//! * [`copy_log`], [`copy_pages`]: a copy of a store that is in use.
//! * [`Policy`]: when a transaction is acknowledged.
//! * [`Geometry`], [`format()`]: where everything lies, and what a new store begins with.
//!
//! Only committed stores ever reach the cache, so there is nothing to undo. Recovery reads one log
//! forwards: it has the stores, and the slots that pages were written to. A page is never written
//! over its last copy. `docs/DURABILITY.md` states the guarantees, and `docs/STORE_FORMAT.md`
//! describes every byte.
//!
//! Sources: redo from a log with a horizon comes from ARIES (Mohan et al., TODS 1992). Shadow
//! copies of pages under a map are as old as System R (Gray et al., ACM Computing Surveys 1981).

mod base_map;
mod checkpoint;
mod copy;
mod disk;
mod error;
mod geometry;
mod growth;
mod held;
mod inspect;
mod journal;
mod log;
mod log_block;
mod lsn;
mod policy;
mod readable;
mod record;
mod recovery;
mod scan;
mod slot_set;
mod slots;
mod superblock;
mod unmapped;
mod work;
mod write_set;

pub use base_map::{BLANK_SLOT, Checksums, Mapped, POISONED_SLOT, PageMap, SLOTS_MAX, SlotTable};
pub use copy::{CopyPoint, InUse, copy_log, copy_pages};
pub use disk::{Disk, DiskError, Fault, RecoveryError};
pub use error::{Aborted, TransactionError};
pub use geometry::{Block, Geometry, LOG_BLOCKS_MIN, Page, SUPERBLOCKS};
pub use growth::{Gap, copy_larger};
pub use held::{Changed, HeldLatches, Noted, Rerun};
pub use inspect::{Inspection, inspect};
pub use journal::{Frozen, Io, Journal, Limits};
#[doc(hidden)]
pub use log_block::{flushed_mark, named_generation};
pub use lsn::Lsn;
#[doc(hidden)]
pub use policy::{NotPolicy, Policy};
pub use recovery::{Recovered, RecoveryOptions, recover};
pub use superblock::{Superblock, format, format_filled};
pub use work::RecoveryWork;
pub use write_set::{StoredWord, WriteSet};
