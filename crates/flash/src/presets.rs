//! The published devices. Their numbers are in `presets/`, each with its source.

/// Names and texts of the presets.
pub(crate) const PRESETS: &[(&str, &str)] = &[
    ("flat", include_str!("../presets/flat.toml")),
    ("ull", include_str!("../presets/ull.toml")),
    ("slc", include_str!("../presets/slc.toml")),
    ("mlc", include_str!("../presets/mlc.toml")),
    ("tlc", include_str!("../presets/tlc.toml")),
    ("astriflash-256g", include_str!("../presets/astriflash-256g.toml")),
    ("astriflash-1t", include_str!("../presets/astriflash-1t.toml")),
    ("tlc-pcie4", include_str!("../presets/tlc-pcie4.toml")),
    ("tlc-pcie5", include_str!("../presets/tlc-pcie5.toml")),
    ("hbf", include_str!("../presets/hbf.toml")),
];
