//! Events of keys (`notify-keyspace-events`): which event a command causes.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Key;

use super::Call;
use super::table::{self, Access, Id, Spec};
use crate::events::{Classes, Event};
use crate::number;

/// Events of a command in steps, at which some are published.
const HELD_MAX: usize = 64;

/// The state of a key before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// No client wants to know, or it was there.
    Other,
    /// There was none.
    Absent,
    /// It had expired.
    Expired,
}

impl<M: FullMemory> Call<'_, M> {
    /// Returns the state of a key that the command is about to change.
    pub(super) fn before(&mut self, database: usize, key: &Key<'_>) -> Before {
        let wanted = self.state.events();
        if !wanted.has(Classes::NEW) && !wanted.has(Classes::EXPIRED) {
            return Before::Other;
        }
        let (keyspace, mut value) = (self.keyspace(), Vec::new());
        let Some(entry) = keyspace.find(self.memory, database, key, &mut value) else {
            return Before::Absent;
        };
        let now_ms = self.expired_ms();
        let is_over = entry.expires_at_ms.is_some_and(|at| at <= now_ms)
            || keyspace.is_over(self.memory, &entry, &value);
        if is_over { Before::Expired } else { Before::Other }
    }

    /// Reports that the command has changed a key, with its own event.
    pub(super) fn changed(&mut self, (database, key): (usize, &Key<'_>), before: Before) {
        self.state.changed(database, key.bytes);
        self.own_event((database, key.bytes), before);
    }

    /// Reports the command's own event of a key that it has changed.
    pub(super) fn own_event(&mut self, (database, key): (usize, &[u8]), before: Before) {
        if self.state.events() == Classes::default() {
            return;
        }
        let Some(spec) = table::find(self.arguments[0]) else { return };
        let before = match before {
            // An old value is removed first, as in Redis.
            Before::Other if matches!(spec.id, Id::Copy | Id::Restore) => Before::Absent,
            before => before,
        };
        self.began((database, key), before);
        for (class, name) in self.own(spec, key).into_iter().flatten() {
            self.event((database, key), class, name);
        }
    }

    /// Reports that an expired key made room, and that a key is new.
    pub(super) fn began(&mut self, key: (usize, &[u8]), before: Before) {
        if before == Before::Expired {
            self.event(key, Classes::EXPIRED, "expired");
        }
        if before != Before::Other {
            self.event(key, Classes::NEW, "new");
        }
    }

    /// Reports an event of a key, if its class is wanted.
    pub(super) fn event(
        &mut self,
        (database, key): (usize, &[u8]),
        class: Classes,
        name: &'static str,
    ) {
        if !self.state.events().has(class) {
            return;
        }
        self.session.events.add(Event { name, database, key: key.to_vec() });
        if self.writer.has_committed() && self.session.events.len() >= HELD_MAX {
            self.state.publish(self.session.events.take(1));
        }
    }

    /// Reports that the command has not found a key.
    pub(super) fn missed(&mut self, database: usize, key: &[u8]) {
        if self.state.events().has(Classes::MISS)
            && let Some(spec) = table::find(self.arguments[0])
            && self.reads(spec, key)
        {
            self.event((database, key), Classes::MISS, "keymiss");
        }
    }

    /// True if a command reads the value of this key.
    fn reads(&self, spec: &Spec, key: &[u8]) -> bool {
        let among = |from: usize| self.arguments[from..].contains(&key);
        match spec.id {
            Id::Object => false,
            Id::Pfmerge | Id::Getdel | Id::Getex | Id::Getset => true,
            Id::Xack | Id::Xautoclaim | Id::Xclaim | Id::Xreadgroup => true,
            Id::Set => self.arguments[3..].iter().any(|word| word.eq_ignore_ascii_case(b"GET")),
            Id::Copy => key == self.arguments[1],
            Id::Bitop => among(3),
            Id::Georadius | Id::Georadiusbymember | Id::Sort => {
                spec.stored_key(self.arguments).is_none_or(|to| !to.contains(&key))
            }
            _ => spec.access == Access::Read || spec.name.ends_with("store") && among(2),
        }
    }

    /// The events of a command that changes `key`. Others report theirs where they change keys.
    fn own(&self, spec: &Spec, key: &[u8]) -> [Option<(Classes, &'static str)>; 2] {
        use Classes as Of;
        let end = |left, right| match self.first_end(spec) {
            true => left,
            false => right,
        };
        let (class, name) = match spec.id {
            Id::Set | Id::Setnx | Id::Mset | Id::Msetnx | Id::Getset => (Of::STRING, "set"),
            Id::Setex | Id::Psetex | Id::Bitop => (Of::STRING, "set"),
            Id::Pfadd | Id::Pfmerge => (Of::STRING, "pfadd"),
            Id::Setbit | Id::Bitfield => (Of::STRING, "setbit"),
            Id::Incr | Id::Decr | Id::Incrby | Id::Decrby => (Of::STRING, "incrby"),
            Id::Append | Id::Setrange | Id::Incrbyfloat => (Of::STRING, spec.name),
            Id::Copy => (Of::GENERIC, "copy_to"),
            Id::Restore => (Of::GENERIC, "restore"),
            Id::Lpush | Id::Lpushx => (Of::LIST, "lpush"),
            Id::Rpush | Id::Rpushx => (Of::LIST, "rpush"),
            Id::Lpop | Id::Blpop => (Of::LIST, "lpop"),
            Id::Rpop | Id::Brpop => (Of::LIST, "rpop"),
            Id::Linsert | Id::Lset | Id::Lrem => (Of::LIST, spec.name),
            Id::Lmpop | Id::Blmpop => (Of::LIST, end("lpop", "rpop")),
            Id::Lmove | Id::Blmove | Id::Rpoplpush | Id::Brpoplpush => return self.moved(key),
            Id::Smove if key == self.arguments[1] => (Of::SET, "srem"),
            Id::Smove => (Of::SET, "sadd"),
            Id::Sadd | Id::Srem | Id::Spop => (Of::SET, spec.name),
            Id::Sinterstore | Id::Sunionstore | Id::Sdiffstore => (Of::SET, spec.name),
            Id::Hset | Id::Hmset | Id::Hsetnx | Id::Hsetex => (Of::HASH, "hset"),
            Id::Hdel | Id::Hgetdel => (Of::HASH, "hdel"),
            Id::Hincrby | Id::Hincrbyfloat | Id::Hpersist => (Of::HASH, spec.name),
            Id::Hgetex if self.is(2, "PERSIST") => (Of::HASH, "hpersist"),
            Id::Hgetex => (Of::HASH, "hexpire"),
            Id::Hexpire | Id::Hpexpire | Id::Hexpireat | Id::Hpexpireat => {
                let over = self.integer(2).is_ok_and(|time| time <= 0);
                (Of::HASH, if over { "hdel" } else { "hexpire" })
            }
            Id::Zincrby => (Of::SORTED_SET, "zincr"),
            Id::Zadd => {
                let options = self.arguments[2..].iter();
                let mut options = options.take_while(|word| number::float(word).is_none());
                let adds = options.any(|word| word.eq_ignore_ascii_case(b"INCR"));
                (Of::SORTED_SET, if adds { "zincr" } else { "zadd" })
            }
            Id::Zpopmin | Id::Bzpopmin => (Of::SORTED_SET, "zpopmin"),
            Id::Zpopmax | Id::Bzpopmax => (Of::SORTED_SET, "zpopmax"),
            Id::Zmpop | Id::Bzmpop => (Of::SORTED_SET, end("zpopmin", "zpopmax")),
            Id::Geoadd => (Of::SORTED_SET, "zadd"),
            Id::Georadius | Id::Georadiusbymember => (Of::SORTED_SET, "georadiusstore"),
            Id::Sort => (Of::LIST, "sortstore"),
            _ if matches!(spec.group, "geo" | "sorted-set") => (Of::SORTED_SET, spec.name),
            _ => return [None; 2],
        };
        [Some((class, name)), None]
    }

    /// True if a command of several keys pops the first elements.
    fn first_end(&self, spec: &Spec) -> bool {
        let end = spec.after_keys(self.arguments).and_then(|rest| rest.first());
        end.is_some_and(|end| {
            [&b"LEFT"[..], b"MIN"].iter().any(|word| end.eq_ignore_ascii_case(word))
        })
    }

    /// The events of a list that gives an element to another one, takes it, or both.
    fn moved(&self, key: &[u8]) -> [Option<(Classes, &'static str)>; 2] {
        let named = self.arguments[0].to_ascii_lowercase().ends_with(b"lmove");
        let pops = if named && self.is(3, "LEFT") { "lpop" } else { "rpop" };
        let pushes = if named && self.is(4, "RIGHT") { "rpush" } else { "lpush" };
        let event = |of: usize, name| (key == self.arguments[of]).then_some((Classes::LIST, name));
        [event(2, pushes), event(1, pops)]
    }
}
