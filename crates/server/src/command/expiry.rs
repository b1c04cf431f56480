//! Commands on times of expiry.

use ebbtide_core::FullMemory;

use super::arguments::{From, Unit, clamp, expiry};
use super::{Call, Failure, Outcome};

pub(super) fn expire<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Seconds, From::Now, "expire")
}

pub(super) fn pexpire<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Milliseconds, From::Now, "pexpire")
}

pub(super) fn expireat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Seconds, From::Epoch, "expireat")
}

pub(super) fn pexpireat<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    set(call, Unit::Milliseconds, From::Epoch, "pexpireat")
}

/// Conditions for a new expiry time of a key or a field.
#[derive(Default)]
pub(super) struct Conditions {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Conditions {
    /// Adds the condition of this name. Returns false if there is none.
    pub(super) fn add(&mut self, name: &[u8]) -> bool {
        let condition = match name.to_ascii_uppercase().as_slice() {
            b"NX" => &mut self.if_none,
            b"XX" => &mut self.if_some,
            b"GT" => &mut self.if_later,
            b"LT" => &mut self.if_earlier,
            _ => return false,
        };
        *condition = true;
        true
    }

    /// True if the expiry time `old` may become `new`. What has none lives forever.
    pub(super) fn allow(&self, old: Option<u64>, new: i64) -> bool {
        let refused = self.if_none && old.is_some()
            || self.if_some && old.is_none()
            || self.if_later && old.is_none_or(|old| new <= old as i64)
            || self.if_earlier && old.is_some_and(|old| new >= old as i64);
        !refused
    }
}

fn conditions<M: FullMemory>(call: &Call<'_, M>) -> Result<Conditions, Failure> {
    let mut found = Conditions::default();
    for option in &call.arguments[3..] {
        if !found.add(option) {
            let option = String::from_utf8_lossy(option);
            return Err(format!("ERR Unsupported option {option}").into());
        }
    }
    if found.if_none && (found.if_some || found.if_later || found.if_earlier) {
        return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
    }
    if found.if_later && found.if_earlier {
        return Err("ERR GT and LT options at the same time are not compatible".into());
    }
    Ok(found)
}

fn set<M: FullMemory>(call: &mut Call<'_, M>, unit: Unit, from: From, name: &str) -> Outcome {
    let conditions = conditions(call)?;
    let now_ms = call.state.now_ms.get();
    let at = expiry(call.arguments[2], unit, from, now_ms, name)?;
    let key = call.key(1);
    let Some(entry) = call.find(&key, &mut Vec::new()) else {
        call.reply.integer(0);
        return Ok(());
    };
    if !conditions.allow(entry.expires_at_ms, at) {
        call.reply.integer(0);
        return Ok(());
    }
    if at <= call.expired_ms() as i64 {
        call.remove(&key)?;
    } else {
        call.set_expiry(&key, Some(clamp(at)))?;
    }
    call.reply.integer(1);
    Ok(())
}

pub(super) fn persist<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let expires = call.find(&key, &mut Vec::new()).is_some_and(|e| e.expires_at_ms.is_some());
    if expires {
        call.set_expiry(&key, None)?;
    }
    call.reply.integer(expires.into());
    Ok(())
}

pub(super) fn ttl<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    // Rounded as in Redis.
    tell(call, |at, now| (at - now + 500) / 1000)
}

pub(super) fn pttl<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, now| at - now)
}

pub(super) fn expiretime<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, _| (at + 500) / 1000)
}

pub(super) fn pexpiretime<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    tell(call, |at, _| at)
}

fn tell<M: FullMemory>(call: &mut Call<'_, M>, of: impl Fn(i64, i64) -> i64) -> Outcome {
    let key = call.key(1);
    let now_ms = call.state.now_ms.get() as i64;
    let time = match call.peek(&key, &mut Vec::new()) {
        None => -2,
        Some(entry) => entry.expires_at_ms.map_or(-1, |at| of(at as i64, now_ms)),
    };
    call.reply.integer(time);
    Ok(())
}
