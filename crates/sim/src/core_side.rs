//! [`CoreSide`]: the reaction of a design's core to a miss.

use ebbtide_core::Span;
use ebbtide_core::schedule::{Discipline, Wakeup};

use crate::config::{self, Config, ConfigError};

/// The reaction of a core to a miss.
#[derive(Debug, Clone, PartialEq)]
pub enum CoreSide {
    /// The core waits for the page: Flash-Sync, and memories that never miss.
    Block,
    /// The core flushes its pipeline and switches to another thread.
    Switch(Switching),
}

/// How a core switches.
#[derive(Debug, Clone, PartialEq)]
pub struct Switching {
    /// Threads a core.
    pub threads: usize,
    /// The scheduler that chooses the next thread.
    pub discipline: Discipline,
    /// Whether pending threads are looked at after a finished job, and not only at a miss.
    pub looks_after_jobs: bool,
    /// How the scheduler learns that a page arrived.
    pub arrivals: Wakeup,
    /// Refill of the pipeline after the miss was reported.
    pub flush: Span,
    /// A switch away from a thread that missed.
    pub switch_out: Span,
    /// A switch to a pending thread, on top of the switch out.
    pub switch_in: Span,
    /// Whether a resumed thread that misses again blocks its core: AstriFlash's forward-progress
    /// bit.
    pub forward_progress: bool,
    /// Whether stores go past an absent page, through the store buffer, as on a core that waits.
    pub stores_go_past: bool,
}

impl CoreSide {
    /// AstriFlash's user-level switches (HPCA'23 §IV-C, §IV-D).
    ///
    /// # Errors
    /// When the flash device is impossible.
    pub fn user_switch(config: &Config) -> Result<CoreSide, ConfigError> {
        let switch = &config.switch;
        let cost = Span::from_ns(switch.cost_ns);
        Ok(CoreSide::Switch(Switching {
            threads: switch.threads,
            discipline: switch.scheduler,
            looks_after_jobs: switch.looks_after_jobs,
            arrivals: match switch.arrivals {
                config::Wakeup::Notified => Wakeup::Notified,
                config::Wakeup::Guessed => {
                    let device = config.flash_device()?;
                    let us = switch.ripe_after_us.unwrap_or_else(|| device.idle_read_us());
                    Wakeup::Guessed { ripe_after: Span::from_ps((us * 1e6) as u64) }
                }
            },
            flush: config.cores.cycles(config.cores.flush_cycles),
            switch_out: cost,
            switch_in: cost,
            forward_progress: true,
            stores_go_past: false,
        }))
    }

    /// Threads that the operating system switches when the device tells that an access takes long
    /// (SkyByte, HPCA'25). A core waits for other accesses. There is one switch a long access. If
    /// the device tells nothing, a miss blocks its core.
    ///
    /// # Errors
    /// As [`user_switch`](CoreSide::user_switch).
    pub fn told_switch(config: &Config) -> Result<CoreSide, ConfigError> {
        let told = config.device.as_ref().is_some_and(|device| device.switch_after_ns.is_some());
        Ok(match CoreSide::user_switch(config)? {
            CoreSide::Switch(switching) if told => CoreSide::Switch(Switching {
                switch_in: Span::ZERO,
                stores_go_past: true,
                ..switching
            }),
            _ => CoreSide::Block,
        })
    }

    /// The operating system's threads, woken by the interrupt of a completed read. There is one
    /// switch a miss, as in AstriFlash's figure (slide 15).
    pub fn os_switch(config: &Config) -> CoreSide {
        CoreSide::Switch(Switching {
            threads: config.os.threads,
            discipline: Discipline::Priority,
            looks_after_jobs: true,
            arrivals: Wakeup::Notified,
            flush: Span::ZERO,
            switch_out: Span::from_us(config.os.switch_us),
            switch_in: Span::ZERO,
            // The kernel holds the page for the access that is repeated.
            forward_progress: true,
            stores_go_past: false,
        })
    }

    /// The reaction of a core to a miss, in words.
    pub fn description(&self) -> String {
        let CoreSide::Switch(switching) = self else {
            return "a miss blocks its core".to_string();
        };
        let Switching { threads, discipline, arrivals, flush, switch_out, switch_in, .. } =
            switching;
        let ns = |span: &Span| span.as_ps() as f64 / 1e3;
        let learned = match arrivals {
            Wakeup::Notified => "told of arrivals".to_string(),
            Wakeup::Guessed { ripe_after } => {
                format!("arrivals guessed after {} us", ns(ripe_after) / 1e3)
            }
        };
        format!(
            "a miss switches to another of {threads} threads ({}), {learned}; {} ns \
             flush, {} ns out, {} ns in",
            discipline.name(),
            ns(flush),
            ns(switch_out),
            ns(switch_in),
        )
    }

    /// Threads a core needs.
    pub(crate) fn threads(&self) -> usize {
        match self {
            CoreSide::Block => 1,
            CoreSide::Switch(switching) => switching.threads,
        }
    }
}
