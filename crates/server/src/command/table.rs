//! The table of commands. Dispatch, `COMMAND` and `docs/COMMANDS.md` use it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use rustc_hash::FxBuildHasher;

use super::facts::facts;
use crate::session::Session;

/// The keys that a command accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// No keys.
    Nothing,
    /// Reads the keys that it names.
    Read,
    /// Changes the keys that it names.
    Write,
    /// Accesses all keys, while no other command runs on them.
    Everything,
    /// Reads keys in no order, while other commands change them.
    Unordered,
    /// Runs a script, which declares the keys that it accesses and may access others.
    Script,
}

/// True if a command of this [`arity`](Spec::arity) takes `count` arguments.
pub fn takes(arity: i32, count: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { count >= wanted } else { count == wanted }
}

/// A command.
#[derive(Debug)]
pub struct Spec {
    /// Its number in the table.
    pub id: Id,
    /// Its name in lower case.
    pub name: &'static str,
    /// Number of arguments, its name included. A negative number is a minimum.
    pub arity: i32,
    /// The keys that it accesses.
    pub access: Access,
    /// Index of the first key among the arguments, of the last (from the end if negative), and the
    /// step between keys. Zeros if it names no key.
    pub key_positions: (i64, i64, i64),
    /// Its group of commands.
    pub group: &'static str,
    /// The first version of Redis that had it.
    pub since: &'static str,
    /// One sentence about it.
    pub summary: &'static str,
    /// True if it runs at once between `MULTI` and `EXEC`.
    pub in_transaction: bool,
    /// True if it is refused between `MULTI` and `EXEC`.
    pub never_in_transaction: bool,
    /// True if a client may run it before it has given the password.
    pub before_authentication: bool,
    /// True if it takes arguments of any length. Long ones come to it in memory.
    pub streams: bool,
    /// True if a RESP2 client may run it while subscribed to channels.
    pub while_subscribed: bool,
}

impl Spec {
    /// True if it takes `count` arguments, its name included.
    pub fn takes(&self, count: usize) -> bool {
        takes(self.arity, count)
    }

    /// True if it may change several keys, each in its own transaction.
    pub fn changes_several(&self) -> bool {
        let changes_elements =
            matches!(self.group, "geo" | "hash" | "list" | "set" | "sorted-set" | "stream");
        matches!(self.id, Id::Del | Id::Mset | Id::Msetnx | Id::Unlink)
            // A result is built outside of its key.
            || changes_elements && !self.name.ends_with("store")
    }

    /// Returns its subcommands and their [`arity`](Spec::arity), if it has a fixed set of them.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn subcommands(&self) -> Option<&'static [(&'static str, i32)]> {
        Some(match self.id {
            Id::Acl => &[
                ("CAT", -2),
                ("DELUSER", -3),
                ("DRYRUN", -4),
                ("GENPASS", -2),
                ("GETUSER", 3),
                ("HELP", 2),
                ("LIST", 2),
                ("LOAD", 2),
                ("LOG", -2),
                ("SAVE", 2),
                ("SETUSER", -3),
                ("USERS", 2),
                ("WHOAMI", 2),
            ],
            Id::Client => &[
                ("GETNAME", 2),
                ("ID", 2),
                ("INFO", 2),
                ("KILL", -3),
                ("LIST", -2),
                ("NO-EVICT", 3),
                ("NO-TOUCH", 3),
                ("PAUSE", -3),
                ("REPLY", 3),
                ("SETINFO", 4),
                ("SETNAME", 3),
                ("UNBLOCK", -3),
                ("UNPAUSE", 2),
            ],
            Id::Cluster => &[
                ("ADDSLOTS", -3),
                ("ADDSLOTSRANGE", -4),
                ("BUMPEPOCH", 2),
                ("COUNT-FAILURE-REPORTS", 3),
                ("COUNTKEYSINSLOT", 3),
                ("DELSLOTS", -3),
                ("DELSLOTSRANGE", -4),
                ("FAILOVER", -2),
                ("FLUSHSLOTS", 2),
                ("FORGET", 3),
                ("GETKEYSINSLOT", 4),
                ("HELP", 2),
                ("INFO", 2),
                ("KEYSLOT", 3),
                ("LINKS", 2),
                ("MEET", -4),
                ("MYID", 2),
                ("NODES", 2),
                ("REPLICAS", 3),
                ("REPLICATE", 3),
                ("RESET", -2),
                ("SAVECONFIG", 2),
                ("SET-CONFIG-EPOCH", 3),
                ("SETSLOT", -4),
                ("SHARDS", 2),
                ("SLAVES", 3),
                ("SLOTS", 2),
            ],
            Id::Command => &[
                ("COUNT", 2),
                ("DOCS", -2),
                ("GETKEYS", -4),
                ("GETKEYSANDFLAGS", -4),
                ("INFO", -2),
                ("LIST", -2),
            ],
            Id::Config => &[("GET", -3), ("RESETSTAT", 2), ("SET", -4)],
            Id::Function => &[("FLUSH", -2), ("LIST", -2)],
            Id::Latency => {
                &[("HELP", 2), ("HISTOGRAM", -2), ("HISTORY", 3), ("LATEST", 2), ("RESET", -2)]
            }
            Id::Memory => &[("USAGE", -3)],
            Id::Object => {
                &[("ENCODING", 3), ("FREQ", 3), ("HELP", 2), ("IDLETIME", 3), ("REFCOUNT", 3)]
            }
            Id::Pubsub => &[
                ("CHANNELS", -2),
                ("NUMPAT", 2),
                ("NUMSUB", -2),
                ("SHARDCHANNELS", -2),
                ("SHARDNUMSUB", -2),
            ],
            Id::Script => &[("EXISTS", -3), ("FLUSH", -2), ("KILL", 2), ("LOAD", 3)],
            Id::Xgroup => &[
                ("CREATE", -5),
                ("CREATECONSUMER", 5),
                ("DELCONSUMER", 5),
                ("DESTROY", 4),
                ("HELP", 2),
                ("SETID", -5),
            ],
            Id::Xinfo => &[("CONSUMERS", 4), ("GROUPS", 3), ("HELP", 2), ("STREAM", -3)],
            Id::Slowlog => &[("GET", -2), ("HELP", 2), ("LEN", 2), ("RESET", 2)],
            _ => return None,
        })
    }

    /// Index in [`counted_names`] for these arguments: of its subcommand if known, or else its
    /// own.
    pub fn counted(&self, arguments: &[&[u8]]) -> usize {
        let own = self.id as usize;
        let (Some(known), Some(given)) = (self.subcommands(), arguments.get(1)) else { return own };
        let place = known.iter().position(|(name, _)| given.eq_ignore_ascii_case(name.as_bytes()));
        let before = || {
            let before = TABLE[..own].iter().filter_map(Spec::subcommands);
            TABLE.len() + before.map(<[_]>::len).sum::<usize>()
        };
        place.map_or(own, |place| before() + place)
    }

    /// True if it may wait for an element of a key.
    pub fn waits(&self) -> bool {
        matches!(
            self.id,
            Id::Blmove
                | Id::Blmpop
                | Id::Blpop
                | Id::Brpop
                | Id::Brpoplpush
                | Id::Bzmpop
                | Id::Bzpopmax
                | Id::Bzpopmin
                | Id::Xread
                | Id::Xreadgroup
        )
    }

    /// Returns the subcommand of these arguments and its [`arity`](Spec::arity), if it has a fixed
    /// set of them.
    pub fn subcommand(&self, arguments: &[&[u8]]) -> Option<(&'static str, i32)> {
        let given = arguments.get(1)?;
        let known = self.subcommands()?.iter();
        known.copied().find(|(known, _)| given.eq_ignore_ascii_case(known.as_bytes()))
    }

    /// True if these arguments name a subcommand, or none is needed.
    pub fn knows(&self, arguments: &[&[u8]]) -> bool {
        self.subcommands().is_none() || self.subcommand(arguments).is_some()
    }

    /// True if a client may run it with these arguments while a script runs longer than the limit.
    pub fn may_run_while_busy(&self, arguments: &[&[u8]]) -> bool {
        let counted = &counted_names()[self.counted(arguments)];
        facts(counted).is_some_and(|facts| facts.has("allow_busy"))
    }

    /// True if a script may call it with these arguments.
    pub fn may_run_in_script(&self, arguments: &[&[u8]]) -> bool {
        // Indexed as `counted_names` is.
        static MAY: LazyLock<Vec<bool>> = LazyLock::new(|| {
            let may = |name: &String| facts(name).is_none_or(|facts| !facts.has("noscript"));
            counted_names().iter().map(may).collect()
        });
        MAY[self.counted(arguments)]
    }

    /// True if it changes keys or publishes messages.
    pub fn changes(&self) -> bool {
        matches!(self.access, Access::Write | Access::Everything)
            || matches!(self.id, Id::Publish | Id::Spublish)
    }

    /// The keys that it accesses with these arguments.
    pub fn access_with(&self, arguments: &[&[u8]]) -> Access {
        match self.id {
            Id::Sort | Id::SortRo if sorts_by_other_keys(arguments) => Access::Everything,
            Id::Cluster if reads_slot(arguments) => Access::Unordered,
            Id::Georadius | Id::Georadiusbymember | Id::Sort if !self.stores(arguments) => {
                Access::Read
            }
            _ => self.access,
        }
    }

    /// True if it stores its result under the key of an option.
    fn stores(&self, arguments: &[&[u8]]) -> bool {
        self.stored_key(arguments).is_some()
    }

    /// Returns the key of its last option `STORE`, or `STOREDIST` if it has that.
    pub(super) fn stored_key<'a, 'b>(&self, arguments: &'b [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
        let (first, words): (usize, &[&[u8]]) = match self.id {
            Id::Georadius => (6, &[b"STORE", b"STOREDIST"]),
            Id::Georadiusbymember => (5, &[b"STORE", b"STOREDIST"]),
            Id::Sort => (2, &[b"STORE"]),
            _ => return None,
        };
        let (mut at, mut found) = (first, None);
        while let Some(word) = arguments.get(at) {
            let is = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
            at += match self.id {
                Id::Sort if is(&"LIMIT") => 3,
                Id::Sort if ["BY", "GET"].iter().any(is) => 2,
                _ if words.iter().any(|name| word.eq_ignore_ascii_case(name)) => {
                    found = arguments.get(at + 1..at + 2).or(found);
                    2
                }
                _ => 1,
            };
        }
        found
    }

    /// Index of the argument that counts the keys after it, if the command has one.
    fn counts_keys_at(&self) -> Option<usize> {
        match self.id {
            Id::Lmpop | Id::Sintercard | Id::Zdiff | Id::Zinter | Id::Zintercard => Some(1),
            Id::Zmpop | Id::Zunion => Some(1),
            Id::Blmpop | Id::Bzmpop => Some(2),
            Id::Zdiffstore | Id::Zinterstore | Id::Zunionstore => Some(2),
            Id::Eval | Id::EvalRo | Id::Evalsha | Id::EvalshaRo => Some(2),
            _ => None,
        }
    }

    /// Returns the keys after the argument that counts them, or the keys of `MIGRATE`, `XREAD` or
    /// `XREADGROUP`.
    fn counted_keys<'a, 'b>(&self, arguments: &'b [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
        if self.id == Id::Migrate {
            return Some(keys_of_migrate(arguments));
        }
        if matches!(self.id, Id::Xread | Id::Xreadgroup) {
            return keys_of_streams(arguments, self.id == Id::Xreadgroup);
        }
        if let Some(key) = self.stored_key(arguments) {
            return Some(key);
        }
        let at = self.counts_keys_at()?;
        let count = usize::try_from(crate::number::integer(arguments.get(at)?)?).ok()?;
        arguments.get(at + 1..(at + 1).checked_add(count)?)
    }

    /// Returns the arguments after the keys, if an argument counts these.
    pub(super) fn after_keys<'a, 'b>(&self, arguments: &'b [&'a [u8]]) -> Option<&'b [&'a [u8]]> {
        let (at, keys) = (self.counts_keys_at()?, self.counted_keys(arguments)?);
        arguments.get(at + 1 + keys.len()..)
    }

    /// Returns the keys among its arguments.
    pub fn keys<'a>(&self, arguments: &[&'a [u8]]) -> impl Iterator<Item = &'a [u8]> {
        let counted = self.counted_keys(arguments).unwrap_or_default().iter().copied();
        let (first, last, step) = match self.id {
            Id::Migrate => (0, 0, 0),
            _ => self.key_positions,
        };
        let last = if last < 0 { arguments.len() as i64 + last } else { last };
        let last = if first == 0 { -1 } else { last.min(arguments.len() as i64 - 1) };
        let named = (first..=last).step_by(step.max(1) as usize);
        named.map(|index| arguments[index as usize]).chain(counted)
    }
}

/// Names for counters of commands, at the indexes of [`Spec::counted`]. Commands come first, then
/// subcommands such as `config|get`.
pub fn counted_names() -> &'static [String] {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let subcommands = TABLE.iter().flat_map(|spec| {
            let known = spec.subcommands().unwrap_or_default().iter();
            known.map(|(name, _)| format!("{}|{}", spec.name, name.to_lowercase()))
        });
        TABLE.iter().map(|spec| spec.name.to_string()).chain(subcommands).collect()
    });
    &NAMES
}

/// Returns the keys of `MIGRATE`: the third argument, or those after `KEYS`.
pub(super) fn keys_of_migrate<'a, 'b>(arguments: &'b [&'a [u8]]) -> &'b [&'a [u8]] {
    &arguments[range_of_migrate(arguments)]
}

/// Returns the indexes of the keys of `MIGRATE`.
pub(super) fn range_of_migrate(arguments: &[&[u8]]) -> Range<usize> {
    match arguments.get(3) {
        None => return 0..0,
        Some(key) if !key.is_empty() => return 3..4,
        Some(_) => {}
    }
    let mut at = 6;
    while let Some(word) = arguments.get(at) {
        at += match word.to_ascii_uppercase().as_slice() {
            b"KEYS" => return at + 1..arguments.len(),
            b"AUTH" => 2,
            b"AUTH2" => 3,
            _ => 1,
        };
    }
    3..4
}

/// Returns the keys after `STREAMS`: the first half of the arguments there. `GROUP` stands before
/// them if, and only if, the command reads in a group.
fn keys_of_streams<'a, 'b>(arguments: &'b [&'a [u8]], in_group: bool) -> Option<&'b [&'a [u8]]> {
    let (mut at, mut has_group) = (1, false);
    loop {
        at += match arguments.get(at)?.to_ascii_uppercase().as_slice() {
            b"STREAMS" => break,
            b"BLOCK" | b"COUNT" => 2,
            b"GROUP" => {
                has_group = true;
                3
            }
            b"NOACK" => 1,
            _ => return None,
        };
    }
    if has_group != in_group {
        return None;
    }
    let streams = &arguments[at + 1..];
    Some(&streams[..streams.len() / 2])
}

/// True if these arguments of `SORT` have a pattern that reads keys other than those that it names.
pub(super) fn sorts_by_other_keys(arguments: &[&[u8]]) -> bool {
    arguments.windows(2).skip(2).any(|pair| {
        let is = |word: &&str| pair[0].eq_ignore_ascii_case(word.as_bytes());
        ["BY", "GET"].iter().any(is) && pair[1].contains(&b'*')
    })
}

/// True if these arguments of `CLUSTER` read the keys of a slot.
fn reads_slot(arguments: &[&[u8]]) -> bool {
    let readers = [&b"COUNTKEYSINSLOT"[..], b"GETKEYSINSLOT"];
    arguments.get(1).is_some_and(|word| readers.iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// Finds a command by its name, in any case.
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    static BY_NAME: LazyLock<HashMap<&'static [u8], &'static Spec, FxBuildHasher>> =
        LazyLock::new(|| TABLE.iter().map(|spec| (spec.name.as_bytes(), spec)).collect());
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}

/// Returns the commands that wait for `EXEC`, with their arguments.
pub(super) fn queued(session: &Session) -> impl Iterator<Item = (&'static Spec, Vec<&[u8]>)> {
    session.queued.iter().flat_map(|queued| &queued.commands).map(|command| {
        let arguments = command.arguments();
        (find(arguments[0]).expect("it was looked up when it was queued"), arguments)
    })
}

/// The longest name of a command in bytes.
const NAME_BYTES_MAX: usize = 20;

/// Defines [`Id`] and [`TABLE`].
macro_rules! define_table {
    ($($id:ident $name:literal $arity:literal $access:ident ($first:literal $last:literal $step:literal)
       $group:literal $since:literal $run:path, $summary:literal;)*) => {
        /// A command of the table.
        #[allow(missing_docs, reason = "each is named after its command")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Id { $($id),* }

        /// All commands, by name.
        pub static TABLE: &[Spec] = &[$(Spec {
            id: Id::$id,
            name: $name,
            arity: $arity,
            access: Access::$access,
            key_positions: ($first, $last, $step),
            group: $group,
            since: $since,
            summary: $summary,
            in_transaction: matches!(
                Id::$id,
                Id::Exec | Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset
            ),
            never_in_transaction: matches!(
                Id::$id,
                Id::Replicaof | Id::Save | Id::Shutdown | Id::Slaveof
            ),
            before_authentication: matches!(Id::$id, Id::Auth | Id::Hello | Id::Quit | Id::Reset),
            streams: matches!(
                Id::$id,
                Id::Append | Id::Getset | Id::Mset | Id::Msetnx | Id::Psetex | Id::Restore | Id::Set | Id::Setex
                    | Id::Setnx | Id::Setrange
            ),
            while_subscribed: matches!(
                Id::$id,
                Id::Subscribe | Id::Unsubscribe | Id::Psubscribe | Id::Punsubscribe
                    | Id::Ssubscribe | Id::Sunsubscribe | Id::Ping | Id::Quit | Id::Reset
            ),
        }),*];
    };
}

/// Passes all commands to the macro `define`: name, arity, access, positions of keys, group,
/// version, function, summary.
macro_rules! for_each_command {
    ($define:ident) => { $define! {
    Acl "acl" -2 Nothing (0 0 0) "server" "6.0.0" acl::acl,
        "Makes, changes, shows and deletes users with their rules on commands, keys and channels. LOAD and SAVE need \
         --acl-file. Rules name the commands of this server.";
    Append "append" 3 Write (1 1 1) "string" "2.0.0" strings::append,
        "Adds bytes to the end of a value, which starts empty if the key is new.";
    Asking "asking" 1 Nothing (0 0 0) "cluster" "3.0.0" cluster::accept,
        "Does nothing, because slots do not move. Works in a cluster only.";
    Auth "auth" -2 Nothing (0 0 0) "connection" "1.0.0" clients::auth,
        "Sends the password of the default user, or of a named one.";
    Bgsave "bgsave" -1 Nothing (0 0 0) "server" "1.0.0" server::bgsave,
        "Starts a flush of all changes. LASTSAVE returns when it completed. With TO PATH, copies all \
         data to a new store while commands go on. INFO reports when that is complete.";
    Bitcount "bitcount" -2 Read (1 1 1) "bitmap" "2.6.0" bits::bitcount,
        "Counts the 1 bits in a value or a range of it.";
    Bitfield "bitfield" -2 Write (1 1 1) "bitmap" "3.2.0" bits::bitfield,
        "Reads, sets and adds to integers of 1 to 64 bits at any bit of a value.";
    BitfieldRo "bitfield_ro" -2 Read (1 1 1) "bitmap" "6.0.0" bits::bitfield_ro,
        "Reads integers of 1 to 64 bits at any bit of a value.";
    Bitop "bitop" -4 Write (2 -1 1) "bitmap" "2.6.0" bits::bitop,
        "Stores AND, OR, XOR or NOT of values under another key.";
    Bitpos "bitpos" -3 Read (1 1 1) "bitmap" "2.8.7" bits::bitpos,
        "Finds the first 1 or 0 bit in a value or a range of it.";
    Blmove "blmove" 6 Write (1 2 1) "list" "6.2.0" blocking::blmove,
        "Moves a value as LMOVE does, and waits for one. Clients that wait are served in the \
         order in which they came, each in a step after the change. A crash may leave a value of \
         more than 32,704 bytes in both lists.";
    Blmpop "blmpop" -5 Write (0 0 0) "list" "7.0.0" blocking::blmpop,
        "Pops values as LMPOP does, and waits for one. If they are many, a crash may keep some \
         of them.";
    Blpop "blpop" -3 Write (1 -2 1) "list" "2.0.0" blocking::blpop,
        "Pops the first value of the first list that has one, and waits for one. A timeout \
         may be 100 ms late.";
    Brpop "brpop" -3 Write (1 -2 1) "list" "2.0.0" blocking::brpop,
        "Pops the last value of the first list that has one, and waits for one.";
    Brpoplpush "brpoplpush" 4 Write (1 2 1) "list" "2.2.0" blocking::brpoplpush,
        "Moves a value as RPOPLPUSH does, and waits for one. A crash may leave a value of more \
         than 32,704 bytes in both lists.";
    Bzmpop "bzmpop" -5 Write (0 0 0) "sorted-set" "7.0.0" blocking::bzmpop,
        "Pops members as ZMPOP does, and waits for one. If they are many, a crash may keep some \
         of them.";
    Bzpopmax "bzpopmax" -3 Write (1 -2 1) "sorted-set" "5.0.0" blocking::bzpopmax,
        "Pops the member with the greatest score of the first sorted set that has one, and \
         waits for one.";
    Bzpopmin "bzpopmin" -3 Write (1 -2 1) "sorted-set" "5.0.0" blocking::bzpopmin,
        "Pops the member with the least score of the first sorted set that has one, and waits \
         for one.";
    Client "client" -2 Nothing (0 0 0) "connection" "2.4.0" clients::client,
        "ID, GETNAME, SETNAME, SETINFO, LIST by ID or TYPE, INFO, KILL by address or by ID, TYPE, ADDR, LADDR, USER and SKIPME, \
         REPLY, UNBLOCK, NO-EVICT, NO-TOUCH, PAUSE and UNPAUSE. PUBLISH waits for the end of a pause as a change does.";
    Cluster "cluster" -2 Nothing (0 0 0) "cluster" "3.0.0" cluster::cluster,
        "INFO, NODES, SLOTS, SHARDS, MYID, KEYSLOT, REPLICAS, LINKS and COUNT-FAILURE-REPORTS. COUNTKEYSINSLOT and \
         GETKEYSINSLOT read the keys of the slot, which takes long for many. What would change the cluster is refused.";
    Command "command" -1 Nothing (0 0 0) "server" "2.8.13" server::command,
        "Describes the commands. COUNT, LIST, INFO, DOCS, GETKEYS and GETKEYSANDFLAGS.";
    Config "config" -2 Nothing (0 0 0) "server" "2.0.0" config::config,
        "GET returns settings. SET changes timeout, tcp-keepalive, busy-reply-threshold, \
         maxmemory-policy, notify-keyspace-events, acl-pubsub-default, and the settings of SLOWLOG, LATENCY \
         and ACL LOG. RESETSTAT sets counters to zero.";
    Copy "copy" -3 Write (1 2 1) "generic" "6.2.0" keys::copy,
        "Copies the value and expiry of a key to another key.";
    Dbsize "dbsize" 1 Unordered (0 0 0) "server" "1.0.0" keys::dbsize,
        "Returns the number of keys in the database. Expired keys count until they are removed.";
    Decr "decr" 2 Write (1 1 1) "string" "1.0.0" strings::decr,
        "Subtracts 1 from a number. A new key counts as 0.";
    Decrby "decrby" 3 Write (1 1 1) "string" "1.0.0" strings::decrby,
        "Subtracts from a number. A new key counts as 0.";
    Del "del" -2 Write (1 -1 1) "generic" "1.0.0" keys::del,
        "Removes keys. Beyond 255 keys, a crash may keep some of them.";
    Discard "discard" 1 Nothing (0 0 0) "transactions" "2.0.0" transactions::discard,
        "Discards the commands since MULTI.";
    Dump "dump" 2 Read (1 1 1) "generic" "2.6.0" dump::dump,
        "Returns a value as bytes for RESTORE, here or in Redis 7.0.";
    Echo "echo" 2 Nothing (0 0 0) "connection" "1.0.0" clients::echo,
        "Returns its argument.";
    Eval "eval" -3 Script (0 0 0) "scripting" "2.6.0" scripting::eval,
        "Runs a script in Lua 5.1 as one step. A script that accesses keys it did not declare runs alone.";
    EvalRo "eval_ro" -3 Script (0 0 0) "scripting" "7.0.0" scripting::eval,
        "Runs a script that may not change keys.";
    Evalsha "evalsha" -3 Script (0 0 0) "scripting" "2.6.0" scripting::eval,
        "Runs a script that was sent before, by its SHA-1.";
    EvalshaRo "evalsha_ro" -3 Script (0 0 0) "scripting" "7.0.0" scripting::eval,
        "Runs a script that was sent before and may not change keys.";
    Exec "exec" 1 Nothing (0 0 0) "transactions" "1.2.0" transactions::exec,
        "Runs the commands since MULTI as one step, unless a watched key has changed.";
    Exists "exists" -2 Read (1 -1 1) "generic" "1.0.0" keys::exists,
        "Returns how many of the keys exist.";
    Expire "expire" -3 Write (1 1 1) "generic" "1.0.0" expiry::expire,
        "Sets the expiry of a key, in seconds from now. NX, XX, GT and LT test the present expiry.";
    Expireat "expireat" -3 Write (1 1 1) "generic" "1.2.0" expiry::expireat,
        "Sets the expiry of a key to a Unix time in seconds.";
    Expiretime "expiretime" 2 Read (1 1 1) "generic" "7.0.0" expiry::expiretime,
        "Returns the expiry of a key as a Unix time in seconds.";
    Flushall "flushall" -1 Everything (0 0 0) "server" "1.0.0" server::flushall,
        "Removes all keys of all databases at once. Their flash is freed later.";
    Flushdb "flushdb" -1 Everything (0 0 0) "server" "1.0.0" server::flushdb,
        "Removes all keys of the database at once. Their flash is freed later.";
    Function "function" -2 Nothing (0 0 0) "scripting" "7.0.0" server::function,
        "LIST and FLUSH, for clients that remove all functions. There are no functions.";
    Geoadd "geoadd" -5 Write (1 1 1) "geo" "3.2.0" geo::geoadd,
        "Adds places as members of a sorted set. NX, XX and CH. Beyond 255 arguments, a crash \
         may keep only some of them.";
    Geodist "geodist" -4 Read (1 1 1) "geo" "3.2.0" geo::geodist,
        "Returns the distance between two members.";
    Geohash "geohash" -2 Read (1 1 1) "geo" "3.2.0" geo::geohash,
        "Returns the geohashes of members as text.";
    Geopos "geopos" -2 Read (1 1 1) "geo" "3.2.0" geo::geopos,
        "Returns the longitudes and latitudes of members.";
    Georadius "georadius" -6 Write (1 1 1) "geo" "3.2.0" geo::georadius,
        "Returns the members in a circle around a place, as GEOSEARCH does. STORE and STOREDIST.";
    GeoradiusRo "georadius_ro" -6 Read (1 1 1) "geo" "3.2.10" geo::georadius_ro,
        "As GEORADIUS, without STORE and STOREDIST.";
    Georadiusbymember "georadiusbymember" -5 Write (1 1 1) "geo" "3.2.0" geo::georadiusbymember,
        "Returns the members in a circle around a member, as GEOSEARCH does. STORE and STOREDIST.";
    GeoradiusbymemberRo "georadiusbymember_ro" -5 Read (1 1 1) "geo" "3.2.10" geo::georadiusbymember_ro,
        "As GEORADIUSBYMEMBER, without STORE and STOREDIST.";
    Geosearch "geosearch" -7 Read (1 1 1) "geo" "6.2.0" geo::geosearch,
        "Returns the members in a circle or a box around a place or a member. Without ASC, DESC or \
         COUNT they come in the order of their scores.";
    Geosearchstore "geosearchstore" -8 Write (1 2 1) "geo" "6.2.0" geo::geosearchstore,
        "Stores the members that GEOSEARCH returns under another key, with STOREDIST by distance.";
    Get "get" 2 Read (1 1 1) "string" "1.0.0" strings::get,
        "Returns the value of a key.";
    Getbit "getbit" 3 Read (1 1 1) "bitmap" "2.2.0" bits::getbit,
        "Returns one bit of a value.";
    Getdel "getdel" 2 Write (1 1 1) "string" "6.2.0" strings::getdel,
        "Returns the value of a key and removes it.";
    Getex "getex" -2 Write (1 1 1) "string" "6.2.0" strings::getex,
        "Returns the value of a key and changes its expiry.";
    Getrange "getrange" 4 Read (1 1 1) "string" "2.4.0" strings::getrange,
        "Returns a part of a value.";
    Getset "getset" 3 Write (1 1 1) "string" "1.0.0" strings::getset,
        "Sets a value and returns the one before.";
    Hdel "hdel" -3 Write (1 1 1) "hash" "2.0.0" hashes::hdel,
        "Removes fields. Beyond 255 arguments, a crash may keep some of them.";
    Hello "hello" -1 Nothing (0 0 0) "connection" "6.0.0" clients::hello,
        "Selects the version of the protocol. May send a user with its password, and a name.";
    Hexists "hexists" 3 Read (1 1 1) "hash" "2.0.0" hashes::hexists,
        "Returns 1 if a field exists, else 0.";
    Hexpire "hexpire" -6 Write (1 1 1) "hash" "7.4.0" field_expiry::hexpire,
        "Sets the expiry of fields in seconds. NX, XX, GT and LT as in Redis 7.4. Beyond 255 \
         arguments, a crash may leave some of them unchanged.";
    Hexpireat "hexpireat" -6 Write (1 1 1) "hash" "7.4.0" field_expiry::hexpireat,
        "Sets the expiry of fields as a Unix time in seconds. Beyond 255 arguments, a crash may \
         leave some of them unchanged.";
    Hexpiretime "hexpiretime" -5 Read (1 1 1) "hash" "7.4.0" field_expiry::hexpiretime,
        "Returns the expiry of fields as a Unix time in seconds.";
    Hget "hget" 3 Read (1 1 1) "hash" "2.0.0" hashes::hget,
        "Returns the value of a field.";
    Hgetall "hgetall" 2 Read (1 1 1) "hash" "2.0.0" hashes::hgetall,
        "Returns all fields and their values.";
    Hgetdel "hgetdel" -5 Write (1 1 1) "hash" "8.0.0" field_expiry::hgetdel,
        "Returns the values of fields and removes them. Beyond 255 arguments, a crash may keep \
         some of them.";
    Hgetex "hgetex" -5 Write (1 1 1) "hash" "8.0.0" field_expiry::hgetex,
        "Returns the values of fields and sets or removes their expiry. Beyond 255 arguments, a \
         crash may leave some of them unchanged.";
    Hincrby "hincrby" 4 Write (1 1 1) "hash" "2.0.0" hashes::hincrby,
        "Adds to the number in a field. A new field counts as 0.";
    Hincrbyfloat "hincrbyfloat" 4 Write (1 1 1) "hash" "2.6.0" hashes::hincrbyfloat,
        "Adds to the decimal number in a field. Sums are exact as for INCRBYFLOAT.";
    Hkeys "hkeys" 2 Read (1 1 1) "hash" "2.0.0" hashes::hkeys,
        "Returns all fields.";
    Hlen "hlen" 2 Read (1 1 1) "hash" "2.0.0" hashes::hlen,
        "Returns the number of fields.";
    Hmget "hmget" -3 Read (1 1 1) "hash" "2.0.0" hashes::hmget,
        "Returns the values of several fields.";
    Hmset "hmset" -4 Write (1 1 1) "hash" "2.0.0" hashes::hmset,
        "Sets fields, as HSET does. Beyond 255 arguments, a crash may keep only some of them.";
    Hpersist "hpersist" -5 Write (1 1 1) "hash" "7.4.0" field_expiry::hpersist,
        "Removes the expiry of fields. Beyond 255 arguments, a crash may leave some of them \
         unchanged.";
    Hpexpire "hpexpire" -6 Write (1 1 1) "hash" "7.4.0" field_expiry::hpexpire,
        "Sets the expiry of fields in milliseconds. Beyond 255 arguments, a crash may leave some \
         of them unchanged.";
    Hpexpireat "hpexpireat" -6 Write (1 1 1) "hash" "7.4.0" field_expiry::hpexpireat,
        "Sets the expiry of fields as a Unix time in milliseconds. Beyond 255 arguments, a crash \
         may leave some of them unchanged.";
    Hpexpiretime "hpexpiretime" -5 Read (1 1 1) "hash" "7.4.0" field_expiry::hpexpiretime,
        "Returns the expiry of fields as a Unix time in milliseconds.";
    Hpttl "hpttl" -5 Read (1 1 1) "hash" "7.4.0" field_expiry::hpttl,
        "Returns the milliseconds until fields expire.";
    Hrandfield "hrandfield" -2 Read (1 1 1) "hash" "6.2.0" hashes::hrandfield,
        "Returns random fields, and their values with WITHVALUES.";
    Hscan "hscan" -3 Read (1 1 1) "hash" "2.8.0" hashes::hscan,
        "Returns some fields with their values and a cursor. A field that exists throughout is returned.";
    Hset "hset" -4 Write (1 1 1) "hash" "2.0.0" hashes::hset,
        "Sets fields. Beyond 255 arguments, a crash may keep only some of them.";
    Hsetex "hsetex" -6 Write (1 1 1) "hash" "8.0.0" field_expiry::hsetex,
        "Sets fields with an expiry. FNX, FXX, EX, PX, EXAT, PXAT and KEEPTTL as in Redis 8.0. \
         Beyond 255 arguments, a crash may keep only some of them.";
    Hsetnx "hsetnx" 4 Write (1 1 1) "hash" "2.0.0" hashes::hsetnx,
        "Sets a field if it is new.";
    Hstrlen "hstrlen" 3 Read (1 1 1) "hash" "3.2.0" hashes::hstrlen,
        "Returns the length of the value of a field.";
    Httl "httl" -5 Read (1 1 1) "hash" "7.4.0" field_expiry::httl,
        "Returns the seconds until fields expire.";
    Hvals "hvals" 2 Read (1 1 1) "hash" "2.0.0" hashes::hvals,
        "Returns all values.";
    Incr "incr" 2 Write (1 1 1) "string" "1.0.0" strings::incr,
        "Adds 1 to a number. A new key counts as 0.";
    Incrby "incrby" 3 Write (1 1 1) "string" "1.0.0" strings::incrby,
        "Adds to a number. A new key counts as 0.";
    Incrbyfloat "incrbyfloat" 3 Write (1 1 1) "string" "2.6.0" strings::incrbyfloat,
        "Adds to a decimal number. Sums below 10^20 are exact, where Redis rounds to 80 bits.";
    Info "info" -1 Unordered (0 0 0) "server" "1.0.0" info::info,
        "Reports on the server. The section `ebbtide` reports on its engine.";
    Keys "keys" 2 Unordered (0 0 0) "generic" "1.0.0" keys::keys,
        "Returns all key names that match a pattern.";
    Lastsave "lastsave" 1 Nothing (0 0 0) "server" "1.0.0" server::lastsave,
        "Returns the Unix time at which the last SAVE or BGSAVE completed.";
    Latency "latency" -2 Nothing (0 0 0) "server" "2.8.13" slow::latency,
        "HISTOGRAM reports how long commands took. LATEST, HISTORY and RESET concern slow ones.";
    Lcs "lcs" -3 Read (1 2 1) "string" "7.0.0" lcs::lcs,
        "Finds the longest common subsequence of two values. The product of their lengths is at most 2^20.";
    Lindex "lindex" 3 Read (1 1 1) "list" "1.0.0" lists::lindex,
        "Returns the value at an index. A negative index counts from the end.";
    Linsert "linsert" 5 Write (1 1 1) "list" "2.2.0" lists::linsert,
        "Inserts a value before or after another one.";
    Llen "llen" 2 Read (1 1 1) "list" "1.0.0" lists::llen,
        "Returns the number of values.";
    Lmove "lmove" 5 Write (1 2 1) "list" "6.2.0" lists::lmove,
        "Moves a value from an end of a list to an end of another one. A crash may leave a value \
         of more than 32,704 bytes in both lists.";
    Lmpop "lmpop" -4 Write (0 0 0) "list" "7.0.0" lists::lmpop,
        "Pops values from the first of several lists that has some. If they are many, a crash \
         may keep some of them.";
    Lpop "lpop" -2 Write (1 1 1) "list" "1.0.0" lists::lpop,
        "Removes and returns the first values. If they are many, a crash may keep some of them.";
    Lpos "lpos" -3 Read (1 1 1) "list" "6.0.6" lists::lpos,
        "Returns the indices of values that equal the argument.";
    Lpush "lpush" -3 Write (1 1 1) "list" "1.0.0" lists::lpush,
        "Adds values at the start. Beyond 255 arguments, a crash may keep only some of them.";
    Lpushx "lpushx" -3 Write (1 1 1) "list" "2.2.0" lists::lpushx,
        "Adds values at the start of a list that exists. Beyond 255 arguments, a crash may keep \
         only some of them.";
    Lrange "lrange" 4 Read (1 1 1) "list" "1.0.0" lists::lrange,
        "Returns the values of a range of indices.";
    Lrem "lrem" 4 Write (1 1 1) "list" "1.0.0" lists::lrem,
        "Removes values that equal the argument. If they are many, a crash may keep some of \
         them.";
    Lset "lset" 4 Write (1 1 1) "list" "1.0.0" lists::lset,
        "Replaces the value at an index.";
    Ltrim "ltrim" 4 Write (1 1 1) "list" "1.0.0" lists::ltrim,
        "Removes all values outside of a range. If they are many, a crash may keep some of them.";
    Memory "memory" -2 Read (2 2 1) "server" "4.0.0" keys::memory,
        "USAGE estimates the bytes that a key takes on flash.";
    Mget "mget" -2 Read (1 -1 1) "string" "1.0.0" strings::mget,
        "Returns the values of several keys at one moment.";
    Migrate "migrate" -6 Write (3 3 1) "generic" "2.6.0" migrate::migrate,
        "Moves keys to another server, not between MULTI and EXEC or in scripts. COPY, REPLACE, \
         AUTH, AUTH2 and KEYS. Other commands run meanwhile; those that change the keys wait. \
         After a crash, some of the keys may be on both servers.";
    Monitor "monitor" 1 Nothing (0 0 0) "server" "1.0.0" monitor::monitor,
        "Sends a line about each command of all clients, until RESET or QUIT. Passwords and commands of administrators are \
         not shown, and of a value of more than 32,704 bytes only its length. It shows at most some of the commands of a \
         long script or transaction.";
    Move "move" 3 Write (1 1 1) "generic" "1.0.0" keys::move_key,
        "Moves a key to another database.";
    Mset "mset" -3 Write (1 -1 2) "string" "1.0.1" strings::mset,
        "Sets several keys at one moment. Beyond 255 arguments or the bound of a transaction, a crash may keep only some of them.";
    Msetnx "msetnx" -3 Write (1 -1 2) "string" "1.0.1" strings::msetnx,
        "Sets several keys at one moment if none of them exists. Crashes act as for MSET.";
    Multi "multi" 1 Nothing (0 0 0) "transactions" "1.2.0" transactions::multi,
        "Begins a transaction. Later commands wait for EXEC.";
    Object "object" -2 Read (2 2 1) "generic" "2.2.3" keys::object,
        "ENCODING and REFCOUNT return what Redis returns for a value of that form. IDLETIME and FREQ tell of uses under a \
         policy of eviction that keeps them; IDLETIME is 0 otherwise.";
    Persist "persist" 2 Write (1 1 1) "generic" "2.2.0" expiry::persist,
        "Removes the expiry of a key.";
    Pexpire "pexpire" -3 Write (1 1 1) "generic" "2.6.0" expiry::pexpire,
        "Sets the expiry of a key, in milliseconds from now.";
    Pexpireat "pexpireat" -3 Write (1 1 1) "generic" "2.6.0" expiry::pexpireat,
        "Sets the expiry of a key to a Unix time in milliseconds.";
    Pexpiretime "pexpiretime" 2 Read (1 1 1) "generic" "7.0.0" expiry::pexpiretime,
        "Returns the expiry of a key as a Unix time in milliseconds.";
    Pfadd "pfadd" -2 Write (1 1 1) "hyperloglog" "2.8.9" hyperloglogs::pfadd,
        "Adds elements to a HyperLogLog, which starts empty if the key is new.";
    Pfcount "pfcount" -2 Read (1 -1 1) "hyperloglog" "2.8.9" hyperloglogs::pfcount,
        "Estimates how many different elements were added to HyperLogLogs. It stores no count in the \
         value, and returns one that Redis has stored.";
    Pfmerge "pfmerge" -2 Write (1 -1 1) "hyperloglog" "2.8.9" hyperloglogs::pfmerge,
        "Merges HyperLogLogs into the first one.";
    Ping "ping" -1 Nothing (0 0 0) "connection" "1.0.0" clients::ping,
        "Replies `PONG`, or its argument if there is one.";
    Psetex "psetex" 4 Write (1 1 1) "string" "2.6.0" strings::psetex,
        "Sets a value that expires after some milliseconds.";
    Psubscribe "psubscribe" -2 Nothing (0 0 0) "pubsub" "2.0.0" pubsub::psubscribe,
        "Subscribes to all channels whose names match a pattern.";
    Pttl "pttl" 2 Read (1 1 1) "generic" "2.6.0" expiry::pttl,
        "Returns the milliseconds until a key expires.";
    Publish "publish" 3 Nothing (0 0 0) "pubsub" "2.0.0" pubsub::publish,
        "Sends a message to a channel. Returns how many clients received it.";
    Pubsub "pubsub" -2 Nothing (0 0 0) "pubsub" "2.8.0" pubsub::pubsub,
        "CHANNELS, NUMSUB, NUMPAT, SHARDCHANNELS and SHARDNUMSUB list and count subscriptions.";
    Punsubscribe "punsubscribe" -1 Nothing (0 0 0) "pubsub" "2.0.0" pubsub::punsubscribe,
        "Ends subscriptions to patterns.";
    Quit "quit" -1 Nothing (0 0 0) "connection" "1.0.0" clients::quit,
        "Closes the connection.";
    Randomkey "randomkey" 1 Unordered (0 0 0) "generic" "1.0.0" keys::randomkey,
        "Returns the name of a random key.";
    Readonly "readonly" 1 Nothing (0 0 0) "cluster" "3.0.0" cluster::accept,
        "Does nothing, because there are no replicas. Works in a cluster only.";
    Readwrite "readwrite" 1 Nothing (0 0 0) "cluster" "3.0.0" cluster::accept,
        "Does nothing, because there are no replicas. Works in a cluster only.";
    Rename "rename" 3 Write (1 2 1) "generic" "1.0.0" keys::rename,
        "Renames a key and replaces a key of the new name. A large value is not copied.";
    Renamenx "renamenx" 3 Write (1 2 1) "generic" "1.0.0" keys::renamenx,
        "Renames a key if the new name is free.";
    Replicaof "replicaof" 3 Nothing (0 0 0) "server" "5.0.0" replication::replicaof,
        "Follows a Redis: copies its keys, then makes its changes, and refuses those of clients. NO \
         ONE ends it.";
    Reset "reset" 1 Nothing (0 0 0) "connection" "6.2.0" clients::reset,
        "Resets the state of the connection.";
    Restore "restore" -4 Write (1 1 1) "generic" "2.6.0" dump::restore,
        "Sets a key from the bytes of DUMP, of this server or of Redis 5 to 7.2.";
    Role "role" 1 Nothing (0 0 0) "server" "2.8.12" replication::role,
        "Returns whether the server follows a Redis, and how far it has come.";
    Rpop "rpop" -2 Write (1 1 1) "list" "1.0.0" lists::rpop,
        "Removes and returns the last values. If they are many, a crash may keep some of them.";
    Rpoplpush "rpoplpush" 3 Write (1 2 1) "list" "1.2.0" lists::rpoplpush,
        "Moves the last value of a list to the start of another one. A crash may leave a value \
         of more than 32,704 bytes in both lists.";
    Rpush "rpush" -3 Write (1 1 1) "list" "1.0.0" lists::rpush,
        "Adds values at the end, as LPUSH does at the start. Beyond 255 arguments, a crash may \
         keep only some of them.";
    Rpushx "rpushx" -3 Write (1 1 1) "list" "2.2.0" lists::rpushx,
        "Adds values at the end of a list that exists. Beyond 255 arguments, a crash may keep \
         only some of them.";
    Sadd "sadd" -3 Write (1 1 1) "set" "1.0.0" sets::sadd,
        "Adds members. Beyond 255 arguments, a crash may keep only some of them.";
    Save "save" 1 Nothing (0 0 0) "server" "1.0.0" server::save,
        "Replies when every earlier change survives a crash.";
    Scan "scan" -2 Unordered (0 0 0) "generic" "2.8.0" keys::scan,
        "Returns some key names and a cursor. A key that exists throughout is returned exactly once.";
    Scard "scard" 2 Read (1 1 1) "set" "1.0.0" sets::scard,
        "Returns the number of members.";
    Script "script" -2 Nothing (0 0 0) "scripting" "2.6.0" scripting::script_command,
        "LOAD, EXISTS and FLUSH concern the scripts that clients have sent. KILL ends a slow script.";
    Sdiff "sdiff" -2 Read (1 -1 1) "set" "1.0.0" sets::sdiff,
        "Returns the members of a set that are in none of the others.";
    Sdiffstore "sdiffstore" -3 Write (1 -1 1) "set" "1.0.0" sets::sdiffstore,
        "Stores the result of SDIFF.";
    Select "select" 2 Nothing (0 0 0) "connection" "1.0.0" clients::select,
        "Selects one of 16 databases.";
    Set "set" -3 Write (1 1 1) "string" "1.0.0" strings::set,
        "Sets a value. NX, XX, GET, EX, PX, EXAT, PXAT and KEEPTTL as in Redis 7.0.";
    Setbit "setbit" 4 Write (1 1 1) "bitmap" "2.2.0" bits::setbit,
        "Sets one bit of a value.";
    Setex "setex" 4 Write (1 1 1) "string" "2.0.0" strings::setex,
        "Sets a value that expires after some seconds.";
    Setnx "setnx" 3 Write (1 1 1) "string" "1.0.0" strings::setnx,
        "Sets a value if the key is new.";
    Setrange "setrange" 4 Write (1 1 1) "string" "2.2.0" strings::setrange,
        "Overwrites a part of a value. A large value is changed in place.";
    Shutdown "shutdown" -1 Nothing (0 0 0) "server" "1.0.0" server::shutdown,
        "Stops the server.";
    Sinter "sinter" -2 Read (1 -1 1) "set" "1.0.0" sets::sinter,
        "Returns the members that are in all of the sets.";
    Sintercard "sintercard" -3 Read (0 0 0) "set" "7.0.0" sets::sintercard,
        "Counts the members that are in all of the sets, up to LIMIT.";
    Sinterstore "sinterstore" -3 Write (1 -1 1) "set" "1.0.0" sets::sinterstore,
        "Stores the result of SINTER.";
    Sismember "sismember" 3 Read (1 1 1) "set" "1.0.0" sets::sismember,
        "Returns 1 if the argument is a member, else 0.";
    Slaveof "slaveof" 3 Nothing (0 0 0) "server" "1.0.0" replication::replicaof,
        "As REPLICAOF.";
    Slowlog "slowlog" -2 Nothing (0 0 0) "server" "2.2.12" slow::slowlog,
        "GET, LEN and RESET concern slow commands. Waits for flash count as time.";
    Smembers "smembers" 2 Read (1 1 1) "set" "1.0.0" sets::smembers,
        "Returns all members.";
    Smismember "smismember" -3 Read (1 1 1) "set" "6.2.0" sets::smismember,
        "Returns for each argument 1 if it is a member, else 0.";
    Smove "smove" 4 Write (1 2 1) "set" "1.0.0" sets::smove,
        "Moves a member to another set. A crash may leave a member of more than 32,704 bytes in \
         both sets.";
    Sort "sort" -2 Write (1 1 1) "generic" "1.0.0" sorting::sort_and_store,
        "Returns or stores the elements of a list, a set or a sorted set in order. Strings compare by \
         bytes. With a pattern in BY or GET, no other command runs meanwhile, and the result must fit \
         in a transaction.";
    SortRo "sort_ro" -2 Read (1 1 1) "generic" "7.0.0" sorting::sort_ro,
        "As SORT, without STORE.";
    Spop "spop" -2 Write (1 1 1) "set" "1.0.0" sets::spop,
        "Removes and returns random members. If they are many, a crash may keep some of them.";
    Spublish "spublish" 3 Nothing (0 0 0) "pubsub" "7.0.0" pubsub::spublish,
        "Sends a message to the clients that are subscribed to a channel of one slot. In a cluster, the node of the slot \
         takes it.";
    Srandmember "srandmember" -2 Read (1 1 1) "set" "1.0.0" sets::srandmember,
        "Returns random members.";
    Srem "srem" -3 Write (1 1 1) "set" "1.0.0" sets::srem,
        "Removes members. Beyond 255 arguments, a crash may keep some of them.";
    Sscan "sscan" -3 Read (1 1 1) "set" "2.8.0" sets::sscan,
        "Returns some members and a cursor. A member that exists throughout is returned.";
    Ssubscribe "ssubscribe" -2 Nothing (0 0 0) "pubsub" "7.0.0" pubsub::ssubscribe,
        "Subscribes to channels of one slot, which are apart from other channels.";
    Strlen "strlen" 2 Read (1 1 1) "string" "2.2.0" strings::strlen,
        "Returns the length of a value.";
    Subscribe "subscribe" -2 Nothing (0 0 0) "pubsub" "2.0.0" pubsub::subscribe,
        "Subscribes to channels.";
    Substr "substr" 4 Read (1 1 1) "string" "1.0.0" strings::getrange,
        "An older name of GETRANGE.";
    Sunion "sunion" -2 Read (1 -1 1) "set" "1.0.0" sets::sunion,
        "Returns the members of all sets.";
    Sunionstore "sunionstore" -3 Write (1 -1 1) "set" "1.0.0" sets::sunionstore,
        "Stores the result of SUNION.";
    Sunsubscribe "sunsubscribe" -1 Nothing (0 0 0) "pubsub" "7.0.0" pubsub::sunsubscribe,
        "Ends subscriptions to channels of one slot; without channels, to all.";
    Swapdb "swapdb" 3 Everything (0 0 0) "server" "4.0.0" server::swapdb,
        "Exchanges the keys of two databases.";
    Time "time" 1 Nothing (0 0 0) "server" "2.6.0" server::time,
        "Returns the server's time.";
    Touch "touch" -2 Read (1 -1 1) "generic" "3.2.1" keys::touch,
        "Returns how many of the keys exist, as EXISTS does.";
    Ttl "ttl" 2 Read (1 1 1) "generic" "1.0.0" expiry::ttl,
        "Returns the seconds until a key expires.";
    Type "type" 2 Read (1 1 1) "generic" "1.0.0" keys::type_of,
        "Returns `string`, `hash`, `set`, `zset`, `list`, `stream`, or `none` if there is no key.";
    Unlink "unlink" -2 Write (1 -1 1) "generic" "4.0.0" keys::del,
        "Removes keys, as DEL does. Beyond 255 keys, a crash may keep some of them.";
    Unsubscribe "unsubscribe" -1 Nothing (0 0 0) "pubsub" "2.0.0" pubsub::unsubscribe,
        "Ends subscriptions to channels.";
    Unwatch "unwatch" 1 Nothing (0 0 0) "transactions" "2.2.0" transactions::unwatch,
        "Ends the watching of all keys of the connection.";
    Watch "watch" -2 Nothing (1 -1 1) "transactions" "2.2.0" transactions::watch,
        "Makes the next EXEC fail if one of these keys changes before it.";
    Xack "xack" -4 Write (1 1 1) "stream" "5.0.0" stream_groups::xack,
        "Acknowledges entries that were delivered to a consumer of a group. Beyond 255 \
         arguments, a crash may leave some of them pending.";
    Xadd "xadd" -5 Write (1 1 1) "stream" "5.0.0" streams::xadd,
        "Adds an entry. NOMKSTREAM, MAXLEN, MINID and LIMIT as in Redis 7.0. With `~`, entries \
         are removed in hundreds. If the removed entries are many, a crash may keep some of \
         them.";
    Xautoclaim "xautoclaim" -6 Write (1 1 1) "stream" "6.2.0" stream_claims::xautoclaim,
        "Moves pending entries that are idle to a consumer, at most 16,384 a call. If they are \
         many, a crash may leave only some of them moved.";
    Xclaim "xclaim" -6 Write (1 1 1) "stream" "5.0.0" stream_claims::xclaim,
        "Moves pending entries to a consumer. IDLE, TIME, RETRYCOUNT, FORCE, JUSTID and LASTID \
         as in Redis 7.0. If they are many, a crash may leave only some of them moved.";
    Xdel "xdel" -3 Write (1 1 1) "stream" "5.0.0" streams::xdel,
        "Removes entries by their ids. Beyond 255 arguments, a crash may keep some of them.";
    Xgroup "xgroup" -2 Write (2 2 1) "stream" "5.0.0" stream_groups::xgroup,
        "CREATE, SETID and DESTROY change consumer groups of a stream, CREATECONSUMER and \
         DELCONSUMER their consumers. A name has at most 32,000 bytes. If a group or a consumer \
         that is removed has many pending entries, a crash may keep some of them.";
    Xinfo "xinfo" -2 Read (2 2 1) "stream" "5.0.0" stream_info::xinfo,
        "STREAM describes a stream, GROUPS its consumer groups, and CONSUMERS the consumers of one. In \
         place of the nodes of a radix tree it counts pages.";
    Xlen "xlen" 2 Read (1 1 1) "stream" "5.0.0" streams::xlen,
        "Returns the number of entries.";
    Xpending "xpending" -3 Read (1 1 1) "stream" "5.0.0" stream_claims::xpending,
        "Returns the entries of a group that were delivered and not acknowledged.";
    Xrange "xrange" -4 Read (1 1 1) "stream" "5.0.0" stream_reads::xrange,
        "Returns the entries between two ids.";
    Xread "xread" -4 Read (0 0 0) "stream" "5.0.0" stream_reads::xread,
        "Returns the entries of streams after given ids, and waits for some with BLOCK.";
    Xreadgroup "xreadgroup" -7 Write (0 0 0) "stream" "5.0.0" stream_group_reads::xreadgroup,
        "Delivers entries of streams to a consumer of a group, and waits for some with BLOCK. \
         Clients that wait in one group are served in the order in which they began. If the \
         entries are many, a crash may leave only some of them delivered.";
    Xrevrange "xrevrange" -4 Read (1 1 1) "stream" "5.0.0" stream_reads::xrevrange,
        "Returns the entries between two ids, from the greatest id to the least.";
    Xsetid "xsetid" -3 Write (1 1 1) "stream" "5.0.0" streams::xsetid,
        "Sets the last id of a stream. ENTRIESADDED and MAXDELETEDID as in Redis 7.0.";
    Xtrim "xtrim" -4 Write (1 1 1) "stream" "5.0.0" streams::xtrim,
        "Removes the oldest entries, as XADD does. If they are many, a crash may keep some of \
         them.";
    Zadd "zadd" -4 Write (1 1 1) "sorted-set" "1.2.0" sorted_sets::zadd,
        "Sets scores of members. NX, XX, GT, LT, CH and INCR as in Redis 7.0. Beyond 255 \
         arguments, a crash may keep only some of them.";
    Zcard "zcard" 2 Read (1 1 1) "sorted-set" "1.2.0" sorted_sets::zcard,
        "Returns the number of members.";
    Zcount "zcount" 4 Read (1 1 1) "sorted-set" "2.0.0" sorted_ranges::zcount,
        "Counts the members in a range of scores.";
    Zdiff "zdiff" -3 Read (0 0 0) "sorted-set" "6.2.0" sorted_algebra::zdiff,
        "Returns the members of a sorted set that are in none of the others.";
    Zdiffstore "zdiffstore" -4 Write (1 1 1) "sorted-set" "6.2.0" sorted_algebra::zdiffstore,
        "Stores the result of ZDIFF.";
    Zincrby "zincrby" 4 Write (1 1 1) "sorted-set" "1.2.0" sorted_sets::zincrby,
        "Adds to the score of a member. A new member counts as 0.";
    Zinter "zinter" -3 Read (0 0 0) "sorted-set" "6.2.0" sorted_algebra::zinter,
        "Returns the members that are in all of the sorted sets. Sets count as members of \
         score 1.";
    Zintercard "zintercard" -3 Read (0 0 0) "sorted-set" "7.0.0" sorted_algebra::zintercard,
        "Counts the members that are in all of the sorted sets, up to LIMIT.";
    Zinterstore "zinterstore" -4 Write (1 1 1) "sorted-set" "2.0.0" sorted_algebra::zinterstore,
        "Stores the result of ZINTER.";
    Zlexcount "zlexcount" 4 Read (1 1 1) "sorted-set" "2.8.9" sorted_ranges::zlexcount,
        "Counts the members in a range, if all scores are equal.";
    Zmpop "zmpop" -4 Write (0 0 0) "sorted-set" "7.0.0" sorted_sets::zmpop,
        "Pops members from the first of several sorted sets that has some. If they are many, a \
         crash may keep some of them.";
    Zmscore "zmscore" -3 Read (1 1 1) "sorted-set" "6.2.0" sorted_sets::zmscore,
        "Returns the scores of several members.";
    Zpopmax "zpopmax" -2 Write (1 1 1) "sorted-set" "5.0.0" sorted_sets::zpopmax,
        "Removes and returns the members with the greatest scores. If they are many, a crash may \
         keep some of them.";
    Zpopmin "zpopmin" -2 Write (1 1 1) "sorted-set" "5.0.0" sorted_sets::zpopmin,
        "Removes and returns the members with the least scores. If they are many, a crash may \
         keep some of them.";
    Zrandmember "zrandmember" -2 Read (1 1 1) "sorted-set" "6.2.0" sorted_sets::zrandmember,
        "Returns random members, and their scores with WITHSCORES.";
    Zrange "zrange" -4 Read (1 1 1) "sorted-set" "1.2.0" sorted_ranges::zrange,
        "Returns a range by rank, by score or by member. All options of Redis 7.0.";
    Zrangebylex "zrangebylex" -4 Read (1 1 1) "sorted-set" "2.8.9" sorted_ranges::zrangebylex,
        "Returns a range of members, if all scores are equal.";
    Zrangebyscore "zrangebyscore" -4 Read (1 1 1) "sorted-set" "1.0.5" sorted_ranges::zrangebyscore,
        "Returns the members in a range of scores.";
    Zrangestore "zrangestore" -5 Write (1 2 1) "sorted-set" "6.2.0" sorted_ranges::zrangestore,
        "Stores the result of ZRANGE.";
    Zrank "zrank" 3 Read (1 1 1) "sorted-set" "2.0.0" sorted_sets::zrank,
        "Returns the rank of a member. The least score has rank 0.";
    Zrem "zrem" -3 Write (1 1 1) "sorted-set" "1.2.0" sorted_sets::zrem,
        "Removes members. Beyond 255 arguments, a crash may keep some of them.";
    Zremrangebylex "zremrangebylex" 4 Write (1 1 1) "sorted-set" "2.8.9" sorted_ranges::zremrangebylex,
        "Removes a range of members, if all scores are equal. If they are many, a crash may keep \
         some of them.";
    Zremrangebyrank "zremrangebyrank" 4 Write (1 1 1) "sorted-set" "2.0.0" sorted_ranges::zremrangebyrank,
        "Removes the members in a range of ranks. If they are many, a crash may keep some of \
         them.";
    Zremrangebyscore "zremrangebyscore" 4 Write (1 1 1) "sorted-set" "1.2.0" sorted_ranges::zremrangebyscore,
        "Removes the members in a range of scores. If they are many, a crash may keep some of \
         them.";
    Zrevrange "zrevrange" -4 Read (1 1 1) "sorted-set" "1.2.0" sorted_ranges::zrevrange,
        "Returns a range by rank. The greatest score has rank 0.";
    Zrevrangebylex "zrevrangebylex" -4 Read (1 1 1) "sorted-set" "2.8.9" sorted_ranges::zrevrangebylex,
        "As ZRANGEBYLEX, from the last member to the first.";
    Zrevrangebyscore "zrevrangebyscore" -4 Read (1 1 1) "sorted-set" "2.2.0" sorted_ranges::zrevrangebyscore,
        "As ZRANGEBYSCORE, from the greatest score to the least.";
    Zrevrank "zrevrank" 3 Read (1 1 1) "sorted-set" "2.0.0" sorted_sets::zrevrank,
        "Returns the rank of a member. The greatest score has rank 0.";
    Zscan "zscan" -3 Read (1 1 1) "sorted-set" "2.8.0" sorted_sets::zscan,
        "Returns some members with their scores and a cursor. A member that exists throughout \
         is returned.";
    Zscore "zscore" 3 Read (1 1 1) "sorted-set" "1.2.0" sorted_sets::zscore,
        "Returns the score of a member.";
    Zunion "zunion" -3 Read (0 0 0) "sorted-set" "6.2.0" sorted_algebra::zunion,
        "Returns the members of all sorted sets. WEIGHTS and AGGREGATE as in Redis.";
    Zunionstore "zunionstore" -4 Write (1 1 1) "sorted-set" "2.0.0" sorted_algebra::zunionstore,
        "Stores the result of ZUNION.";
    } };
}
pub(super) use for_each_command;

for_each_command!(define_table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_by_name_and_found_in_any_case() {
        assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
        assert!(TABLE.iter().all(|spec| spec.name.len() <= NAME_BYTES_MAX));
        assert_eq!(find(b"GeT").map(|spec| spec.id), Some(Id::Get));
        assert!(find(b"nothing").is_none() && find(&[b'x'; 4000]).is_none());
    }

    #[test]
    fn rows_of_commands_that_change_several_elements_tell_of_crashes() {
        // Each of these makes one change, or builds its result outside of the key.
        let in_one_step = [
            "blpop",
            "brpop",
            "bzpopmax",
            "bzpopmin",
            "georadius",
            "georadiusbymember",
            "hincrby",
            "hincrbyfloat",
            "hsetnx",
            "linsert",
            "lset",
            "xsetid",
            "zincrby",
        ];
        for spec in TABLE.iter().filter(|spec| spec.access == Access::Write) {
            let is_told = spec.summary.to_lowercase().contains("crash");
            let expected = spec.changes_several() && !in_one_step.contains(&spec.name);
            assert_eq!(is_told, expected || spec.id == Id::Migrate, "{}", spec.name);
        }
    }

    #[test]
    fn sort_reads_other_keys_only_by_patterns_with_a_star() {
        let access = |line: &str| {
            let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            find(arguments[0]).expect("a command").access_with(&arguments)
        };
        assert_eq!(access("sort k by w_*"), Access::Everything);
        assert_eq!(access("sort k get # get w_*->f store d"), Access::Everything);
        assert_eq!(access("sort_ro k get w_*"), Access::Everything);
        assert_eq!(access("sort k by nosort get #"), Access::Read);
        assert_eq!(access("sort k limit 0 1 store w_*"), Access::Write);
        assert_eq!(access("georadius k 1 2 3 m storedist d"), Access::Write);
        assert_eq!(access("georadiusbymember k m 3 m count 1"), Access::Read);
    }

    #[test]
    fn keys_are_where_the_command_says() {
        let keys = |line: &str| -> Vec<String> {
            let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let spec = find(arguments[0]).expect("a command");
            spec.keys(&arguments).map(|key| String::from_utf8_lossy(key).into_owned()).collect()
        };
        assert_eq!(keys("mset a 1 b 2"), ["a", "b"]);
        assert_eq!(keys("del a b c"), ["a", "b", "c"]);
        assert_eq!(keys("bitop and d x y"), ["d", "x", "y"]);
        assert_eq!(keys("get a"), ["a"]);
        assert_eq!(keys("zinter 2 a b withscores"), ["a", "b"]);
        assert_eq!(keys("zunionstore d 2 a b"), ["d", "a", "b"]);
        assert_eq!(keys("zinter 3 a b"), [] as [&str; 0]);
        assert_eq!(keys("memory usage a"), ["a"]);
        assert_eq!(keys("memory doctor"), [] as [&str; 0]);
        assert_eq!(keys("ping"), [] as [&str; 0]);
        assert_eq!(keys("blpop a b 0"), ["a", "b"]);
        assert_eq!(keys("blmpop 0 2 a b left"), ["a", "b"]);
        assert_eq!(keys("xread count 1 streams a b 0 $"), ["a", "b"]);
        assert_eq!(keys("xread streams a b 0"), ["a"]);
        assert_eq!(keys("xreadgroup group g c noack streams a b > 0"), ["a", "b"]);
        assert_eq!(keys("xgroup create a g $"), ["a"]);
        assert_eq!(keys("sort a store b by store store c"), ["a", "c"]);
        assert_eq!(keys("sort a limit 0 store"), ["a"]);
        assert_eq!(keys("georadius a 1 2 3 m store b storedist c"), ["a", "c"]);
    }
}
