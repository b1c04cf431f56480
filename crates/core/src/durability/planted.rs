//! Mistakes that tests plant on purpose, to show that the tests find them.

/// A mistake in the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mistake {
    /// Transactions may take the part of the log that map records need.
    SpendsRoomOfMaps,
    /// A group of log blocks counts as durable once it is written, before the flush.
    AcknowledgesBeforeFlush,
    /// The slot that a page leaves is free at once.
    FreesSlotAtOnce,
    /// A page's stores count as mapped before the map record is on the device.
    ForgetsStoresAtMap,
    /// A map record claims that the copy has everything up to the record itself.
    CoversTooMuch,
    /// The superblock is written before the base map that it names is flushed.
    NamesBaseBeforeFlush,
    /// The log is reused from the horizon of a superblock that is not on the device yet.
    ReusesLogEarly,
    /// The horizon is the start of the base map, even if older stores are in no copy.
    HorizonTooLate,
    /// Log blocks of an older boot are accepted behind those of a newer one.
    AcceptsOldBoot,
    /// Log blocks of the ring's previous lap are accepted, so their records are applied twice.
    AppliesOldLap,
    /// A bad block counts as the end of the log, though it was on the device.
    TakesDamageForEnd,
    /// An older superblock is believed, though the log names a newer one.
    BelievesOldSuperblock,
    /// A store is closed without a superblock that records where the log ends.
    ForgetsLogEnd,
    /// Checksums of pages are not checked.
    IgnoresChecksums,
    /// A flush that failed is tried again.
    RetriesFlush,
    /// A transaction's record counts although a part of it is missing.
    AppliesHalfRecord,
    /// A map record that was not flushed is trusted without a check of the copy that it names.
    TrustsUnflushedMaps,
    /// Recovery writes pages over their last copy.
    RecoversInPlace,
    /// Slots that pages leave become free while the store is copied.
    ReleasesHeldSlots,
    /// Superblocks are written, and the log before them is reused, while the log is copied.
    ReusesLogOfCopy,
    /// The superblock of a copy is written before the pages are flushed.
    NamesCopyBeforeFlush,
}

/// The mistake that a journal makes on purpose. Without the feature `planted`, which only tests ask for,
/// this is empty and there is no mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Planted {
    #[cfg(feature = "planted")]
    mistake: Option<Mistake>,
}

impl Planted {
    /// No mistake.
    pub const NONE: Planted = Planted {
        #[cfg(feature = "planted")]
        mistake: None,
    };

    /// The mistake `mistake`.
    #[cfg(feature = "planted")]
    pub const fn one(mistake: Mistake) -> Planted {
        Planted { mistake: Some(mistake) }
    }

    /// Returns true if the mistake is `mistake`.
    #[cfg(feature = "planted")]
    pub fn is(self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// Returns false: without the feature there is no mistake.
    #[cfg(not(feature = "planted"))]
    #[inline(always)]
    pub const fn is(self, _mistake: Mistake) -> bool {
        false
    }
}
