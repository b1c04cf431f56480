//! `SLOWLOG` and `LATENCY`: slow commands.

use ebbtide_core::FullMemory;

use super::{Call, Outcome, SYNTAX, counted_names};
use crate::number::integer;
use crate::slow::Slow;

/// The event of spikes. All commands share one event.
const EVENT: &str = "command";

pub(super) fn slowlog<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = call.arguments.len();
    if call.is(1, "LEN") && count == 2 {
        let kept = call.state.shared.slow.log().len();
        call.reply.integer(kept as i64);
    } else if call.is(1, "RESET") && count == 2 {
        call.state.shared.slow.change(Slow::reset_log);
        call.reply.ok();
    } else if call.is(1, "GET") && count <= 3 {
        let given = if count == 3 { integer(call.arguments[2]) } else { Some(10) };
        let wanted = given.filter(|count| *count >= -1);
        let wanted = wanted.ok_or("ERR count should be greater than or equal to -1")?;
        let log = call.state.shared.slow.log();
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX).min(log.len());
        call.reply.array(wanted);
        for one in log.iter().take(wanted) {
            call.reply.array(6);
            call.reply.integer(one.id as i64);
            call.reply.integer(one.at_s as i64);
            call.reply.integer(one.took.as_micros() as i64);
            call.reply.array(one.arguments.len());
            one.arguments.iter().for_each(|argument| call.reply.bulk(argument));
            call.reply.bulk(b"");
            call.reply.bulk(&one.client);
        }
    } else if call.is(1, "HELP") && count == 2 {
        call.reply.help(&["SLOWLOG GET [count], LEN or RESET: commands that took long."]);
    } else {
        return Err(SYNTAX.into());
    }
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "an arm for each subcommand")]
pub(super) fn latency<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let names = &call.arguments[2..];
    if call.is(1, "LATEST") && names.is_empty() {
        let spikes = call.state.shared.slow.spikes();
        call.reply.array(spikes.len().min(1));
        if let Some((at_s, ms)) = spikes.first() {
            call.reply.array(4);
            call.reply.bulk(EVENT.as_bytes());
            call.reply.integer(*at_s as i64);
            call.reply.integer(*ms as i64);
            call.reply.integer(call.state.shared.slow.worst_ms() as i64);
        }
    } else if call.is(1, "HISTORY") && names.len() == 1 {
        let mut spikes = call.state.shared.slow.spikes();
        if !names[0].eq_ignore_ascii_case(EVENT.as_bytes()) {
            spikes.clear();
        }
        call.reply.array(spikes.len());
        for (at_s, ms) in spikes.iter().rev() {
            call.reply.array(2);
            call.reply.integer(*at_s as i64);
            call.reply.integer(*ms as i64);
        }
    } else if call.is(1, "RESET") {
        let is_ours = |name: &&[u8]| name.eq_ignore_ascii_case(EVENT.as_bytes());
        let all = names.is_empty() || names.iter().any(is_ours);
        let reset = all && call.state.shared.slow.reset_spikes();
        call.reply.integer(reset.into());
    } else if call.is(1, "HISTOGRAM") {
        let slow = &call.state.shared.slow;
        // The name of a command includes its subcommands.
        let is_asked = |name: &str| {
            let command = name.split_once('|').map_or(name, |(command, _)| command);
            let is = |asked: &&[u8]| {
                [name, command].iter().any(|of| asked.eq_ignore_ascii_case(of.as_bytes()))
            };
            names.is_empty() || names.iter().any(is)
        };
        let ran = counted_names().iter().enumerate().filter(|(_, name)| is_asked(name));
        let ran = ran.map(|(number, name)| (name, slow.times(number)));
        let ran: Vec<_> = ran.filter(|(_, times)| times.calls > 0).collect();
        call.reply.map(ran.len());
        for (name, times) in ran {
            call.reply.bulk(name.as_bytes());
            call.reply.map(2);
            call.reply.bulk(b"calls");
            call.reply.integer(times.calls as i64);
            call.reply.bulk(b"histogram_usec");
            let buckets: Vec<(u64, u64)> = times.cumulative().collect();
            call.reply.map(buckets.len());
            for (us, count) in buckets {
                call.reply.integer(us as i64);
                call.reply.integer(count as i64);
            }
        }
    } else if call.is(1, "HELP") && names.is_empty() {
        call.reply.help(
            &[
                "LATENCY HISTOGRAM [command ...]: how long commands took.",
                "LATENCY LATEST, HISTORY command or RESET: commands as long as latency-monitor-threshold.",
            ],
        );
    } else {
        let name = String::from_utf8_lossy(call.arguments[1]).to_lowercase();
        return Err(format!("ERR wrong number of arguments for 'latency|{name}' command").into());
    }
    Ok(())
}
