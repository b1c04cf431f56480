//! [`Kind`]: the list of programs.

/// A program.
///
/// The number of a kind is part of its data's format, since checksums depend on it. A new program
/// goes to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`ArraySwap`](crate::ArraySwap).
    ArraySwap,
    /// [`HashTable`](crate::HashTable).
    HashTable,
    /// [`RedBlackTree`](crate::RedBlackTree).
    RedBlackTree,
    /// [`Tatp`](crate::Tatp).
    Tatp,
    /// [`Gups`](crate::Gups).
    Gups,
    /// [`PageRank`](crate::PageRank).
    PageRank,
    /// [`ConnectedComponents`](crate::ConnectedComponents).
    ConnectedComponents,
    /// [`TatpMix`](crate::TatpMix).
    TatpMix,
    /// [`YcsbA`](crate::ycsb::YcsbA).
    YcsbA,
    /// [`YcsbB`](crate::ycsb::YcsbB).
    YcsbB,
    /// [`YcsbC`](crate::ycsb::YcsbC).
    YcsbC,
    /// [`YcsbD`](crate::ycsb::YcsbD).
    YcsbD,
    /// [`YcsbF`](crate::ycsb::YcsbF).
    YcsbF,
    /// [`YcsbB64`](crate::ycsb::YcsbB64).
    YcsbB64,
    /// [`YcsbD64`](crate::ycsb::YcsbD64).
    YcsbD64,
    /// [`Tpcb`](crate::Tpcb).
    Tpcb,
    /// [`Tpcc`](crate::Tpcc).
    Tpcc,
    /// [`TpccMix`](crate::TpccMix).
    TpccMix,
    /// [`Masstree`](crate::masstree::Masstree).
    Masstree,
    /// [`SiloTpcc`](crate::silo_tpcc::SiloTpcc).
    Silo,
    /// [`YcsbE`](crate::ycsb::YcsbE).
    YcsbE,
    /// [`SeqRead`](crate::SeqRead).
    SeqRead,
    /// [`SeqWrite`](crate::SeqWrite).
    SeqWrite,
    /// [`RandomRead`](crate::RandomRead).
    RandomRead,
    /// [`RandomWrite`](crate::RandomWrite).
    RandomWrite,
    /// [`SqlSeqSelect`](crate::sql::SqlSeqSelect).
    SqlSeqSelect,
    /// [`SqlRandomSelect`](crate::sql::SqlRandomSelect).
    SqlRandomSelect,
    /// [`SqlSeqInsert`](crate::sql::SqlSeqInsert).
    SqlSeqInsert,
    /// [`SqlRandomInsert`](crate::sql::SqlRandomInsert).
    SqlRandomInsert,
    /// [`SqlUpdate`](crate::sql::SqlUpdate).
    SqlUpdate,
    /// [`GupsFromOne`](crate::GupsFromOne).
    GupsFromOne,
    /// [`PageRankShards`](crate::PageRankShards).
    PageRankShards,
    /// [`ConnectedComponentsShards`](crate::ConnectedComponentsShards).
    ConnectedComponentsShards,
}
