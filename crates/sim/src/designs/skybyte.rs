//! SkyByte (HPCA'25): a CXL SSD with a log of written lines, promotion of hot pages, and switches
//! of threads that the device asks for.

use super::Design;
use super::cxl_flash::lines;
use crate::core_side::CoreSide;

pub(super) const BASE: Design = Design {
    name: "skybyte-base",
    about: "CXL SSD whose DRAM caches pages: SkyByte's baseline (HPCA'25)",
    config: include_str!("../../configs/skybyte-base.toml"),
    core_side: CoreSide::told_switch,
    memory_side: lines,
};

pub(super) const P: Design = Design {
    name: "skybyte-p",
    about: "skybyte-base with promotion of hot pages to host DRAM",
    config: include_str!("../../configs/skybyte-p.toml"),
    ..BASE
};

pub(super) const W: Design = Design {
    name: "skybyte-w",
    about: "skybyte-base with a log of written lines in the device",
    config: include_str!("../../configs/skybyte-w.toml"),
    ..BASE
};

pub(super) const WP: Design = Design {
    name: "skybyte-wp",
    about: "skybyte-base with the log and promotion",
    config: include_str!("../../configs/skybyte-wp.toml"),
    ..BASE
};

pub(super) const C: Design = Design {
    name: "skybyte-c",
    about: "skybyte-base, which tells a core to switch threads when an access takes long",
    config: include_str!("../../configs/skybyte-c.toml"),
    ..BASE
};

pub(super) const CP: Design = Design {
    name: "skybyte-cp",
    about: "skybyte-base with switches and promotion",
    config: include_str!("../../configs/skybyte-cp.toml"),
    ..BASE
};

pub(super) const FULL: Design = Design {
    name: "skybyte-full",
    about: "SkyByte: log, promotion and switches (HPCA'25)",
    config: include_str!("../../configs/skybyte-full.toml"),
    ..BASE
};
