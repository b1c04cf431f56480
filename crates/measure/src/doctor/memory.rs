//! Abilities of the machine's memory: limits and huge pages.

use std::fs;

use crate::cgroup::{CgroupVersion, MemoryCgroup};

use super::diagnosis::Diagnosis;
use super::disk::chosen;

pub(super) fn findings() -> Vec<Diagnosis> {
    vec![memory_cgroup(), huge_pages()]
}

/// Size of a group that is made and removed as a trial. No process joins it.
const TRIAL_BYTES: u64 = 64 << 20;

fn memory_cgroup() -> Diagnosis {
    const NAME: &str = "memory cgroup";
    match MemoryCgroup::create(TRIAL_BYTES) {
        Ok(group) => {
            let version = match group.version() {
                CgroupVersion::V1 => "v1",
                CgroupVersion::V2 => "v2",
            };
            Diagnosis::good(NAME, format!("permitted ({version})"))
        }
        Err(error) => Diagnosis::missing(NAME, error.to_string())
            .costs("OS paging cannot be compared under the same memory"),
    }
}

fn huge_pages() -> Diagnosis {
    const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
    let enabled = fs::read_to_string(format!("{FOLDER}/enabled"));
    let defrag = fs::read_to_string(format!("{FOLDER}/defrag")).unwrap_or_default();
    match enabled {
        Ok(enabled) => judge_huge_pages(chosen(&enabled), chosen(&defrag)),
        Err(error) => {
            Diagnosis::limited("huge pages", format!("unknown: {FOLDER}/enabled: {error}"))
        }
    }
}

fn judge_huge_pages(enabled: &str, defrag: &str) -> Diagnosis {
    let defrag = if defrag.is_empty() { "unknown" } else { defrag };
    let found = format!("transparent huge pages: {enabled}; defrag: {defrag}");
    match enabled {
        "always" | "madvise" => Diagnosis::good("huge pages", found),
        _ => Diagnosis::limited("huge pages", found)
            .costs("TLB misses: about 1% of throughput on flash, up to 5% with a faster device")
            .fix("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn the_setting_in_force_is_the_bracketed_one() {
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen("none\n"), "none");
        assert_eq!(chosen(""), "");
    }

    #[test]
    fn huge_pages_switched_off_are_a_limit_with_a_fix() {
        assert_eq!(judge_huge_pages("madvise", "").status, Status::Good);
        let off = judge_huge_pages("never", "madvise");
        assert_eq!(off.status, Status::Limited);
        assert!(off.fix.expect("a fix").contains("madvise"));
    }
}
