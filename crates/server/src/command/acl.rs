//! `ACL`: the users of the server, and what they may do.

use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};

use ebbtide_core::FullMemory;

use super::clients::close_users;
use super::permission::check_rules;
use super::{Call, Failure, Outcome, find};
use crate::acl::{Account, Acl, AclError, Categories, Denied, Entry, Selector};
use crate::acl_file;
use crate::number::integer;
use crate::resp::Reply;
use crate::secret;
use crate::shared::Note;

/// Bits of a password of `ACL GENPASS`.
const GENERATED_BITS: i64 = 256;
const GENERATED_BITS_MAX: i64 = 4096;

/// Entries of `ACL LOG` without a count.
const ENTRIES_SHOWN: i64 = 10;

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify \
     users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration \
     file set) in order to store users in the Redis configuration.";

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List the categories, or the commands of one.",
    "DELUSER <username> [<username> ...]",
    "    Delete users and close their connections.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Tell whether a user may run a command.",
    "GETUSER <username>",
    "    Show a user.",
    "GENPASS [<bits>]",
    "    Make a password of 256 random bits, or of this many.",
    "LIST",
    "    Show all users in the form of the ACL file.",
    "LOAD",
    "    Read the users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show what was refused.",
    "SAVE",
    "    Write the users to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Make or change a user.",
    "USERS",
    "    List the names of all users.",
    "WHOAMI",
    "    Tell the name of the connection's user.",
    "HELP",
    "    Print this help.",
];

impl From<AclError> for Failure {
    fn from(error: AclError) -> Failure {
        format!("ERR {error}").into()
    }
}

pub(super) fn acl<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let state = call.state;
    let acl = &state.shared.acl;
    let subcommand = call.arguments[1].to_ascii_uppercase();
    match (subcommand.as_slice(), &call.arguments[2..]) {
        (b"CAT", []) => {
            call.reply.array(Categories::NAMES.len());
            Categories::NAMES.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        }
        (b"CAT", [name]) => list_category(call, name)?,
        (b"DELUSER", names) => {
            let gone = acl.delete(names)?;
            let count = gone.len();
            close_users(call, gone);
            call.reply.integer(count as i64);
        }
        (b"DRYRUN", [name, command @ ..]) => try_command(call, name, command)?,
        (b"GENPASS", given) => generate(call, given)?,
        (b"GETUSER", [name]) => match acl.find(name) {
            Some(account) => show(acl, &account, call.reply),
            None => call.reply.null(),
        },
        (b"HELP", _) => {
            call.reply.help(HELP);
        }
        (b"LIST", _) => {
            let accounts = acl.accounts();
            call.reply.array(accounts.len());
            accounts.iter().for_each(|account| call.reply.bulk(&acl.line(account)));
        }
        (b"LOAD", _) => load(call)?,
        (b"LOG", given) if given.len() < 2 => log(call, given)?,
        (b"SAVE", _) => save(call)?,
        (b"SETUSER", [name, rules @ ..]) => {
            if let Some(account) = acl.set(name, rules)? {
                recheck_channels(call, &account);
            }
            call.reply.ok();
        }
        (b"USERS", _) => {
            let accounts = acl.accounts();
            call.reply.array(accounts.len());
            accounts.iter().for_each(|account| call.reply.bulk(account.name()));
        }
        (b"WHOAMI", _) => {
            let user = call.session.user.as_ref().map(|account| account.name());
            call.reply.bulk_or_null(user);
        }
        _ => {
            let name = String::from_utf8_lossy(call.arguments[1]).into_owned();
            let text = format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try ACL HELP."
            );
            return Err(text.into());
        }
    }
    Ok(())
}

fn list_category<M: FullMemory>(call: &mut Call<'_, M>, name: &[u8]) -> Outcome {
    let category = Categories::named(name).ok_or_else(|| {
        format!("ERR Unknown category '{}'", String::from_utf8_lossy(&name[..name.len().min(128)]))
    })?;
    let commands = call.state.shared.acl.catalogue().commands().iter();
    let commands = commands.filter(|command| command.categories.has(category));
    call.reply.array(commands.clone().count());
    commands.for_each(|command| call.reply.bulk(command.name.as_bytes()));
    Ok(())
}

fn generate<M: FullMemory>(call: &mut Call<'_, M>, given: &[&[u8]]) -> Outcome {
    let bits =
        match given {
            [] => Some(GENERATED_BITS),
            [bits] => integer(bits),
            _ => return Err(
                "ERR unknown subcommand or wrong number of arguments for 'GENPASS'. Try ACL HELP."
                    .into(),
            ),
        };
    let bits = bits.ok_or(super::NOT_INTEGER)?;
    if !(1..=GENERATED_BITS_MAX).contains(&bits) {
        return Err(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
             up to {GENERATED_BITS_MAX}"
        )
        .into());
    }
    let digits = secret::digits((bits as usize).div_ceil(4));
    call.reply.bulk(digits.ok_or("ERR the kernel has no random numbers")?.as_bytes());
    Ok(())
}

/// Replies with a user.
fn show(acl: &Acl, account: &Account, reply: &mut Reply) {
    let user = account.user();
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|password| reply.bulk(password.digits().as_bytes()));
    show_selector(acl, user.root(), reply);
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(3);
        show_selector(acl, selector, reply);
    }
}

fn show_selector(acl: &Acl, selector: &Selector, reply: &mut Reply) {
    let rules = [
        ("commands", selector.commands(acl.catalogue())),
        ("keys", selector.keys()),
        ("channels", selector.channels()),
    ];
    for (name, text) in rules {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}

/// `ACL DRYRUN`.
fn try_command<M: FullMemory>(call: &mut Call<'_, M>, name: &[u8], command: &[&[u8]]) -> Outcome {
    let shown = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    let account = call.state.shared.acl.find(name);
    let account = account.ok_or_else(|| format!("ERR User '{}' not found", shown(name)))?;
    let spec = find(command[0]).filter(|spec| command.len() == 1 || spec.knows(command));
    let spec = spec.ok_or_else(|| format!("ERR Command '{}' not found", shown(command[0])))?;
    super::check_count(spec, command)?;
    let Err(denied) = check_rules(&account, spec, command) else {
        call.reply.ok();
        return Ok(());
    };
    let text = match denied {
        Denied::Command => {
            let name = &super::counted_names()[spec.counted(command)];
            format!("This user has no permissions to run the '{name}' command").into_bytes()
        }
        Denied::Key(index) => no_access(command[index], b"key"),
        Denied::Channel(index) => no_access(command[index], b"channel"),
    };
    call.reply.bulk(&text);
    Ok(())
}

fn no_access(name: &[u8], kind: &[u8]) -> Vec<u8> {
    [&b"This user has no permissions to access the '"[..], name, b"' ", kind].concat()
}

/// `ACL LOG`.
fn log<M: FullMemory>(call: &mut Call<'_, M>, given: &[&[u8]]) -> Outcome {
    let state = call.state;
    if given.first().is_some_and(|word| word.eq_ignore_ascii_case(b"reset")) {
        state.shared.acl.log().reset();
        call.reply.ok();
        return Ok(());
    }
    let count = given.first().map_or(Some(ENTRIES_SHOWN), |count| integer(count));
    let count = count.ok_or(super::NOT_INTEGER)?.max(0) as usize;
    let log = state.shared.acl.log();
    let shown: Vec<&Entry> = log.entries().iter().take(count).collect();
    call.reply.array(shown.len());
    for Entry { refusal, count, at_ms, client } in shown {
        call.reply.map(7);
        call.reply.bulk(b"count");
        call.reply.integer(*count as i64);
        let age_s = state.now_ms.get().saturating_sub(*at_ms) as f64 / 1000.0;
        for (name, value) in [
            ("reason", refusal.reason.name().as_bytes()),
            ("context", refusal.context.name().as_bytes()),
            ("object", &refusal.object),
            ("username", &refusal.user),
        ] {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value);
        }
        call.reply.bulk(b"age-seconds");
        call.reply.double(age_s);
        call.reply.bulk(b"client-info");
        call.reply.bulk(client);
    }
    Ok(())
}

/// Runs `work`, which uses files, on a thread of its own. Other jobs run until it ends.
fn beside<M: FullMemory, R: Send + 'static>(
    call: &mut Call<'_, M>,
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Failure> {
    let (send, done) = sync_channel(1);
    let thread = std::thread::Builder::new().name("ebbtide-acl".into());
    let spawned = thread.spawn(move || drop(send.send(work())));
    spawned.map_err(|error| format!("ERR no thread for the ACL file: {error}"))?;
    loop {
        match done.try_recv() {
            Ok(result) => return Ok(result),
            Err(TryRecvError::Empty) => call.memory.let_others_run(),
            Err(TryRecvError::Disconnected) => {
                return Err("ERR the thread for the ACL file has failed".into());
            }
        }
    }
}

fn load<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let path = call.state.settings().acl_file.clone().ok_or(NO_FILE)?;
    let text = {
        let path = path.clone();
        beside(call, move || acl_file::read(&path))?
    };
    let text = text.map_err(|error| format!("ERR Error loading ACLs, opening file {error}"))?;
    let gone = call.state.shared.acl.load(&text, &path.display().to_string()).map_err(|errors| {
        format!(
            "ERR {errors}. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
        )
    })?;
    close_users(call, gone);
    call.reply.ok();
    Ok(())
}

fn save<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let path = call.state.settings().acl_file.clone().ok_or(NO_FILE)?;
    let shared = call.state.shared.clone();
    let saved = {
        let path = path.clone();
        beside(call, move || {
            // The last one that saves has the newest users.
            let _turn = shared.saving_users.lock();
            acl_file::write(&path, &shared.acl.save())
        })?
    };
    if let Err(error) = saved {
        let text = format!("ACL SAVE has not changed {}: {error}", path.display());
        call.state.journal().tell("acl", text);
        return Err("ERR There was an error trying to save the ACLs. Please check the server logs for more \
                    information"
            .into());
    }
    call.reply.ok();
    Ok(())
}

/// Makes the subscribers of a user look whether they may stay.
fn recheck_channels<M: FullMemory>(call: &Call<'_, M>, account: &Arc<Account>) {
    let shared = &call.state.shared;
    for (id, (core, client)) in shared.clients() {
        let is_its = client.user.as_ref().is_some_and(|user| Arc::ptr_eq(user, account));
        if is_its && client.is_subscribed() {
            shared.tell(core, Note::Channels(id), call.state.core);
        }
    }
}
