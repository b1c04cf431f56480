//! What the user of a connection may run.

use std::ops::Range;
use std::sync::LazyLock;

use super::facts::{KeyFlags, facts, rights};
use super::table::{Id, Spec, counted_names, range_of_migrate};
use super::{Checked, Failure};
use crate::acl::{Account, Catalogue, Command, Context, Denied, Reason, Refusal, Request, Rights};
use crate::session::Session;

/// The commands that rules of users can name, at the indexes of [`Spec::counted`].
pub fn catalogue() -> &'static Catalogue {
    static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| {
        let names = counted_names();
        let command = |name: &'static String| {
            let own = format!("{name}|");
            let is_own = |other: &String| other.starts_with(&own);
            let first = names.iter().position(is_own).unwrap_or(0);
            let count = names.iter().filter(|other| is_own(other)).count();
            Command {
                name,
                categories: facts(name).map(|facts| facts.categories).unwrap_or_default(),
                subcommands: first..first + count,
            }
        };
        Catalogue::new(names.iter().map(command).collect())
    });
    &CATALOGUE
}

/// Checks whether the rules of a user allow a command.
///
/// # Errors
/// Returns why not.
pub(super) fn check_rules(
    account: &Account,
    spec: &Spec,
    arguments: &[&[u8]],
) -> Result<(), Denied> {
    let channels = channels(spec, arguments);
    account.user().check(&Request {
        command: spec.counted(arguments),
        is_free: spec.before_authentication,
        arguments,
        keys: &keys(spec, arguments),
        channels: (channels.start, channels.end),
        are_patterns: spec.id == Id::Psubscribe,
    })
}

/// Returns the indexes of a command's keys, and the rights that it needs.
fn keys(spec: &Spec, arguments: &[&[u8]]) -> Vec<(usize, Rights)> {
    let keys = keys_with_flags(spec, arguments).into_iter();
    keys.map(|(index, flags)| (index, rights(flags))).collect()
}

/// Returns the indexes of a command's keys, and what the command does with each.
pub(super) fn keys_with_flags(spec: &Spec, arguments: &[&[u8]]) -> Vec<(usize, &'static KeyFlags)> {
    const READ: &KeyFlags = &["RO", "access"];
    const CHANGE: &KeyFlags = &["RW", "access", "update"];
    const REPLACE: &KeyFlags = &["OW", "update"];
    const TAKE: &KeyFlags = &["RW", "access", "delete"];
    // The number of arguments may be wrong.
    let after = |index: usize| arguments.get(index..).unwrap_or_default();
    match spec.id {
        _ if arguments.len() < 2 => Vec::new(),
        Id::Set if after(3).iter().any(|word| word.eq_ignore_ascii_case(b"get")) => {
            vec![(1, CHANGE)]
        }
        Id::Set => vec![(1, REPLACE)],
        Id::Bitfield if only_gets(after(2)) => vec![(1, READ)],
        Id::Bitfield => vec![(1, CHANGE)],
        Id::Sort => {
            let mut keys = vec![(1, READ)];
            if let Some([to]) = spec.stored_key(arguments) {
                let is_it = |word: &&[u8]| std::ptr::eq(*word, *to);
                keys.extend(arguments.iter().position(is_it).map(|index| (index, REPLACE)));
            }
            keys
        }
        Id::Migrate => range_of_migrate(arguments).map(|index| (index, TAKE)).collect(),
        _ => {
            let facts = facts(&counted_names()[spec.counted(arguments)]);
            facts.and_then(|facts| facts.keys(arguments)).unwrap_or_default()
        }
    }
}

/// True if operations of `BITFIELD` only read.
fn only_gets(mut words: &[&[u8]]) -> bool {
    while let [word, rest @ ..] = words {
        words = match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"get", [_, _, rest @ ..]) | (b"overflow", [_, rest @ ..]) => rest,
            _ => return false,
        };
    }
    true
}

/// Returns the indexes of a command's channels. Leaving a channel needs no right.
fn channels(spec: &Spec, arguments: &[&[u8]]) -> Range<usize> {
    match spec.id {
        Id::Subscribe | Id::Psubscribe | Id::Ssubscribe => 1..arguments.len(),
        Id::Publish | Id::Spublish => 1..arguments.len().min(2),
        _ => 0..0,
    }
}

/// Checks a request of a connection. A refusal comes into the log.
pub(super) fn check_request(session: &mut Session, spec: &Spec, arguments: &[&[u8]]) -> Checked {
    let context = if session.queued.is_some() { Context::Transaction } else { Context::Top };
    let Err(denied) = check_logged(session, spec, arguments, context) else { return Ok(()) };
    Err(match denied {
        Denied::Command => {
            let name = &counted_names()[spec.counted(arguments)];
            format!("NOPERM this user has no permissions to run the '{name}' command").into()
        }
        Denied::Key(_) => Failure::from(
            "NOPERM this user has no permissions to access one of the keys used as arguments",
        ),
        Denied::Channel(_) => Failure::from(
            "NOPERM this user has no permissions to access one of the channels used as arguments",
        ),
    })
}

/// Checks a command of `EXEC`. The user's rights may have changed since it was queued.
pub(super) fn check_queued(session: &mut Session, spec: &Spec, arguments: &[&[u8]]) -> Checked {
    let checked = check_logged(session, spec, arguments, Context::Transaction);
    checked.map_err(|denied| {
        let reason = match denied {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => {
                "no permission to access one of the channels used as arguments"
            }
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. \
             This command is no longer allowed for the following reason: {reason}"
        )
        .into()
    })
}

/// Checks a command of a script.
///
/// # Errors
/// Returns the text of an error for the script.
pub(super) fn check_script(
    session: &mut Session,
    spec: &Spec,
    arguments: &[&[u8]],
) -> Result<(), &'static str> {
    check_logged(session, spec, arguments, Context::Script).map_err(|denied| match denied {
        Denied::Command => "The user executing the script can't run this command or subcommand",
        Denied::Key(_) => {
            "The user executing the script can't access at least one of the keys mentioned in the command \
             arguments"
        }
        Denied::Channel(_) => {
            "The user executing the script can't publish to the channel mentioned in the command"
        }
    })
}

fn check_logged(
    session: &mut Session,
    spec: &Spec,
    arguments: &[&[u8]],
    context: Context,
) -> Result<(), Denied> {
    let limited = session.user.as_ref().filter(|account| !account.is_unlimited());
    let Some(account) = limited.cloned() else { return Ok(()) };
    check_rules(&account, spec, arguments).inspect_err(|denied| {
        let (reason, object) = match denied {
            Denied::Command => {
                (Reason::Command, counted_names()[spec.counted(arguments)].as_bytes())
            }
            Denied::Key(index) => (Reason::Key, arguments[*index]),
            Denied::Channel(index) => (Reason::Channel, arguments[*index]),
        };
        let (object, user) = (object.to_vec(), account.name().to_vec());
        session.refuse(Refusal { reason, context, object, user });
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::command::TABLE;

    /// Each command is tried with each special word at each place.
    #[test]
    fn the_keys_that_are_checked_are_those_that_a_command_uses() {
        const WORDS_MAX: usize = 9;
        const SPECIAL: [&[u8]; 8] =
            [b"", b"1", b"2", b"3", b"get", b"streams", b"keys", b"subcommand"];
        let plain: Vec<Vec<u8>> = (0..WORDS_MAX).map(|n| format!("w{n}").into_bytes()).collect();
        let mut compared = 0;
        for spec in TABLE {
            let subcommands: Vec<&[u8]> = match spec.subcommands() {
                Some(known) => known.iter().map(|(name, _)| name.as_bytes()).collect(),
                None => SPECIAL[7..].to_vec(),
            };
            let counts = (1..WORDS_MAX).filter(|count| spec.takes(*count));
            for (count, subcommand) in counts.flat_map(|n| subcommands.iter().map(move |s| (n, s)))
            {
                for (place, word) in (1..count).flat_map(|p| SPECIAL.iter().map(move |w| (p, w))) {
                    let mut arguments: Vec<&[u8]> = plain[..count].iter().map(|w| &w[..]).collect();
                    arguments[0] = spec.name.as_bytes();
                    if spec.subcommands().is_some() {
                        arguments[1] = subcommand;
                    }
                    arguments[place] = word;
                    if crate::command::check_count(spec, &arguments).is_err() {
                        continue;
                    }
                    let checked = keys(spec, &arguments);
                    let used: Vec<&[u8]> = spec.keys(&arguments).collect();
                    // A wrong number of keys is an error before any key is used.
                    let facts = facts(&counted_names()[spec.counted(&arguments)]);
                    let is_wrong = checked.is_empty()
                        && facts.is_some_and(|facts| facts.keys(&arguments).is_none());
                    let has = |key: &&[u8]| checked.iter().any(|(at, _)| arguments[*at] == *key);
                    // It does not use keys after an option that it does not know.
                    let may_be_wrong = matches!(spec.id, Id::Xread | Id::Xreadgroup);
                    let same = used.iter().all(has)
                        && (checked.iter().all(|(at, _)| used.contains(&arguments[*at]))
                            || may_be_wrong);
                    let shown = arguments.iter().map(|word| String::from_utf8_lossy(word));
                    assert!(same || is_wrong, "{:?}", shown.collect::<Vec<_>>());
                    compared += checked.len();
                }
            }
        }
        assert!(compared > 10_000, "{compared}");
    }
}
