//! Presets, and the errors of impossible configurations.

mod common;

use common::small;
use ebbtide_flash::{Config, ConfigError, Flash, SsdConfig};

fn ssd(preset: &str) -> SsdConfig {
    match Config::preset(preset).unwrap() {
        Config::Ssd(config) => *config,
        Config::Flat(_) => panic!("{preset} is flat"),
    }
}

#[test]
fn every_preset_can_be_built() {
    for name in Config::preset_names() {
        let config = Config::preset(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        Flash::new(&config).unwrap();
    }
}

#[test]
fn every_number_of_a_preset_has_a_source() {
    for name in Config::preset_names() {
        let text = Config::preset_text(name).unwrap();
        for line in text.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')) {
            let sourced = line.starts_with("kind") || line.contains("# ");
            assert!(sourced, "{name}: {line}");
        }
    }
}

#[test]
fn the_published_devices_have_their_published_size() {
    assert_eq!(ssd("astriflash-256g").raw_bytes(), 256 << 30);
    assert_eq!(ssd("astriflash-256g").raw_bytes() / 64, 4 << 30);
    for name in ["astriflash-1t", "ull", "slc", "mlc", "tlc"] {
        assert_eq!(ssd(name).raw_bytes(), 1 << 40, "{name}");
    }
    assert_eq!(ssd("hbf").raw_bytes(), 512 << 30);
    assert!((ssd("hbf").logical_pages() as f64 * 4096.0 / 512e9 - 1.0).abs() < 1e-3);
}

#[test]
fn an_unknown_preset_offers_the_nearest() {
    let error = Config::preset("astriflash-256").unwrap_err().to_string();
    assert!(error.contains("did you mean 'astriflash-256g'?"), "{error}");
}

#[test]
fn unknown_keys_and_wrong_types_are_one_line_that_says_what_and_where() {
    let refused = |from: &str, to: &str| {
        let text = Config::preset_text("ull").unwrap().replace(from, to);
        let error = Config::from_toml(&text).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    assert!(refused("channels =", "chanels =").contains("chanels"));
    assert!(refused("\"filled\"", "\"full\"").contains("full"));
    assert!(refused("\"ssd\"", "\"tape\"").contains("tape"));
    assert!(refused("kind = \"ssd\"", "kind =").contains("line 6"));
}

#[test]
fn values_that_cannot_be_name_the_key_the_value_and_what_can() {
    let refused = |config: SsdConfig| {
        let error = Flash::new(&Config::Ssd(Box::new(config))).unwrap_err();
        assert!(matches!(error, ConfigError::Value { .. }));
        error.to_string()
    };
    assert_eq!(refused(SsdConfig { channels: 0, ..small() }), "channels = 0: expected 1 to 1024");
    assert!(
        refused(SsdConfig { interleave_pages: 0, ..small() }).starts_with("interleave_pages = 0: ")
    );
    assert_eq!(
        refused(SsdConfig { drives: 2, interleave_pages: 1 << 20, ..small() }),
        "interleave_pages = 1048576: expected at most the pages of a drive, 304"
    );
    assert_eq!(
        refused(SsdConfig { page_bytes: 5000, ..small() }),
        "page_bytes = 5000: expected a multiple of 4096 up to 1048576"
    );
    assert_eq!(
        refused(SsdConfig { read_us: -1.0, ..small() }),
        "read_us = -1: expected 0 to 1000000"
    );
    assert!(refused(SsdConfig { read_us: f64::NAN, ..small() }).contains("read_us = NaN"));
    assert_eq!(
        refused(SsdConfig { over_provisioning_percent: 2.0, ..small() }),
        "over_provisioning_percent = 2: expected at least 28.91, so that collections always gain room"
    );
    assert_eq!(
        refused(SsdConfig { valid_percent: 70.0, ..small() }),
        "valid_percent = 70: expected at most 60, what over_provisioning_percent leaves"
    );
    assert_eq!(
        refused(SsdConfig { valid_percent: 60.0, invalid_percent: 30.0, ..small() }),
        "invalid_percent = 30: expected at most 21.25, so that three blocks of each plane are free"
    );
    assert_eq!(
        refused(SsdConfig { gc_hard_free_percent: 10.0, ..small() }),
        "gc_hard_free_percent = 10: expected at most gc_start_free_percent, 0"
    );
    let flat = Config::from_toml("kind = \"flat\"\nread_us = 1e30\nwrite_us = 1");
    assert!(flat.unwrap_err().to_string().starts_with("read_us = "));
}

#[test]
fn thresholds_that_eat_the_over_provisioning_are_warned_of() {
    let with = |name: &str, keys: &[(&str, &str)]| {
        let mut text = Config::preset_text(name).expect("a preset").to_string();
        for (key, value) in keys {
            let line = text.lines().find(|line| line.starts_with(key)).expect("a key").to_string();
            text = text.replace(&line, &format!("{key} = {value}"));
        }
        Config::from_toml(&text).expect("a possible device").warnings()
    };
    assert!(Config::preset_names().all(|name| with(name, &[]).is_empty()));
    let full = [("valid_percent", "85"), ("invalid_percent", "5")];
    let said = with("astriflash-256g", &full);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("gc_start_free_percent = 30") && said[0].contains("15%"), "{said:?}");
    let late = [full[0], full[1], ("gc_hard_free_percent", "2"), ("gc_start_free_percent", "5")];
    assert!(with("astriflash-256g", &late).is_empty());
}
