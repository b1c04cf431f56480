//! Mistakes that tests plant on purpose, to see that they would be found.

/// A mistake in the protocol. A journal makes none unless a test asks for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mistake {
    /// A group of log blocks counts as on the device when it is written, before the flush.
    AcknowledgesBeforeFlush,
    /// The slot that a page leaves is free at once.
    FreesSlotAtOnce,
    /// A page's stores count as mapped before the map record is on the device.
    ForgetsStoresAtMap,
    /// A map record says that the copy has everything up to the record itself.
    CoversTooMuch,
    /// The superblock is written before the base map that it names is flushed.
    NamesBaseBeforeFlush,
    /// The log is reused from the horizon of a superblock that is not on the device yet.
    ReusesLogEarly,
    /// The horizon is the start of the base map, whatever pages were stored to before.
    HorizonTooLate,
    /// Log blocks of an older boot are accepted behind those of a newer one.
    AcceptsOldBoot,
    /// A bad block is taken for the end of the log, though it was on the device.
    TakesDamageForEnd,
    /// Checksums of pages are not looked at.
    IgnoresChecksums,
    /// A flush that failed is tried again.
    RetriesFlush,
    /// A transaction's record counts although a part of it is missing.
    AppliesHalfRecord,
    /// A map record that was not flushed is believed without a look at the copy that it names.
    TrustsUnflushedMaps,
    /// Recovery writes pages over their last copy.
    RecoversInPlace,
}
