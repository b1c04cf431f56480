//! The published devices; their numbers lie in `configs/flash`, each with its source.

/// Names and texts of the presets.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("flat", include_str!("../../../configs/flash/flat.toml")),
    ("ull", include_str!("../../../configs/flash/ull.toml")),
    ("slc", include_str!("../../../configs/flash/slc.toml")),
    ("mlc", include_str!("../../../configs/flash/mlc.toml")),
    ("tlc", include_str!("../../../configs/flash/tlc.toml")),
    ("astriflash-256g", include_str!("../../../configs/flash/astriflash-256g.toml")),
    ("astriflash-1t", include_str!("../../../configs/flash/astriflash-1t.toml")),
];
