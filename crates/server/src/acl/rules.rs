//! [`Selector`]: rules on commands, keys and channels.

use thiserror::Error;

use super::catalogue::{Catalogue, Categories, CommandSet};
use crate::glob;

/// Maximum number of rules of a kind of a selector, and of passwords and selectors of a user.
pub(super) const ITEMS_MAX: usize = 4096;

/// Kinds of access to a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rights(u8);

impl Rights {
    /// None. A key that only has to be known needs a pattern with any right.
    pub const NONE: Rights = Rights(0);
    /// Reading.
    pub const READ: Rights = Rights(1);
    /// Writing.
    pub const WRITE: Rights = Rights(2);
    /// Both.
    pub const BOTH: Rights = Rights(3);

    /// Returns these rights and others.
    #[must_use]
    pub fn and(self, others: Rights) -> Rights {
        Rights(self.0 | others.0)
    }

    /// True if all of `others` are among these.
    pub fn has(self, others: Rights) -> bool {
        self.0 & others.0 == others.0
    }
}

/// The reason why a rule is refused, in the words of Redis.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message says what is wrong")]
pub enum RuleError {
    #[error("Unknown command or category name in ACL")]
    Unknown,
    #[error("Syntax error")]
    Syntax,
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
         Try 'resetkeys' to start with an empty list of patterns"
    )]
    AllKeys,
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
         Try 'resetchannels' to start with an empty list of channels"
    )]
    AllChannels,
    #[error("The password you are trying to remove from the user does not exist")]
    NoPassword,
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    Hash,
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgument,
    #[error("a user or a selector has at most {ITEMS_MAX} rules of a kind")]
    Many,
}

/// A command that a client wants to run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its number in the catalogue.
    pub command: usize,
    /// True if every client may run it.
    pub is_free: bool,
    /// Its name and arguments.
    pub arguments: &'a [&'a [u8]],
    /// Indexes of its keys among the arguments, and the rights that it needs.
    pub keys: &'a [(usize, Rights)],
    /// Index of its first channel, and one after the last.
    pub channels: (usize, usize),
    /// True if the channels are patterns.
    pub are_patterns: bool,
}

/// Why a request is refused. If several rules refuse it, the greatest reason counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Denied {
    /// For its command.
    Command,
    /// For the key at this argument.
    Key(usize),
    /// For the channel at this argument.
    Channel(usize),
}

/// A pattern of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Box<[u8]>,
    rights: Rights,
}

/// What a rule on commands names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    Command(usize),
    Category(Categories),
    /// A command with this first argument.
    First(usize, Box<[u8]>),
}

/// A rule on commands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CommandRule {
    allows: bool,
    target: Target,
}

impl CommandRule {
    /// The commands whose earlier rules it makes void.
    fn covers(&self, catalogue: &Catalogue) -> CommandSet {
        match self.target {
            Target::Command(command) => catalogue.with_subcommands(command),
            Target::Category(category) => catalogue.of(category),
            Target::First(..) => CommandSet::default(),
        }
    }

    /// The commands that it names.
    fn names(&self, catalogue: &Catalogue) -> CommandSet {
        match self.target {
            Target::First(command, _) => catalogue.with_subcommands(command),
            _ => self.covers(catalogue),
        }
    }

    fn apply(&self, catalogue: &Catalogue, allowed: &mut CommandSet) {
        match self.allows {
            true => allowed.unite(&self.covers(catalogue)),
            false => allowed.remove(&self.covers(catalogue)),
        }
    }
}

/// Rules on commands, keys and channels.
///
/// The rules on commands are kept in their order, without those that later ones make void. So there
/// are at most as many as commands, categories and first arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// True if the rules on commands begin with all commands.
    every_command: bool,
    rules: Vec<CommandRule>,
    /// The commands that the rules allow, whatever their arguments.
    allowed: CommandSet,
    every_key: bool,
    keys: Vec<KeyPattern>,
    every_channel: bool,
    channels: Vec<Box<[u8]>>,
}

impl Selector {
    /// A selector without rights, but perhaps for all channels.
    pub(super) fn new(every_channel: bool) -> Selector {
        Selector { every_channel, ..Selector::default() }
    }

    /// True if it allows every request.
    pub(super) fn is_unlimited(&self) -> bool {
        self.every_command && self.rules.is_empty() && self.every_key && self.every_channel
    }

    /// True if it allows a command, and the reading of every key.
    pub(super) fn reads_every_key_with(&self, command: usize) -> bool {
        let is_every = |of: &KeyPattern| *of.pattern == *b"*" && of.rights.has(Rights::READ);
        self.allowed.has(command) && (self.every_key || self.keys.iter().any(is_every))
    }

    /// Bytes of DRAM that it holds, about.
    pub(super) fn held_bytes(&self) -> usize {
        const ITEM_BYTES: usize = 48;
        let first = |rule: &CommandRule| match &rule.target {
            Target::First(_, argument) => argument.len(),
            _ => 0,
        };
        size_of::<Selector>()
            + self.rules.iter().map(|rule| ITEM_BYTES + first(rule)).sum::<usize>()
            + self.keys.iter().map(|key| ITEM_BYTES + key.pattern.len()).sum::<usize>()
            + self.channels.iter().map(|channel| ITEM_BYTES + channel.len()).sum::<usize>()
    }

    /// Applies a rule.
    ///
    /// # Errors
    /// Returns an error if it is no rule of a selector. Nothing has changed then.
    pub(super) fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        let lower = rule.to_ascii_lowercase();
        match lower.as_slice() {
            b"allkeys" | b"~*" => (self.every_key, self.keys) = (true, Vec::new()),
            b"resetkeys" => (self.every_key, self.keys) = (false, Vec::new()),
            b"allchannels" | b"&*" => (self.every_channel, self.channels) = (true, Vec::new()),
            b"resetchannels" => (self.every_channel, self.channels) = (false, Vec::new()),
            b"allcommands" | b"+@all" => self.begin_commands(true),
            b"nocommands" | b"-@all" => self.begin_commands(false),
            [b'~', ..] => return self.add_key(&rule[1..], Rights::BOTH),
            [b'%', ..] if self.every_key => return Err(RuleError::AllKeys),
            [b'%', letters @ ..] => {
                let tilde = letters.iter().position(|letter| *letter == b'~');
                let tilde = tilde.ok_or(RuleError::Syntax)?;
                let rights = rights(&letters[..tilde])?;
                return self.add_key(&rule[tilde + 2..], rights);
            }
            [b'&', ..] => return self.add_channel(&rule[1..]),
            [b'+', b'@', name @ ..] => self.add_category(catalogue, true, name)?,
            [b'-', b'@', name @ ..] => self.add_category(catalogue, false, name)?,
            [b'+', name @ ..] => {
                let target = allowed_target(catalogue, name, &rule[1..])?;
                self.add(catalogue, CommandRule { allows: true, target })?;
            }
            [b'-', name @ ..] => {
                let target = Target::Command(catalogue.find(name).ok_or(RuleError::Unknown)?);
                self.add(catalogue, CommandRule { allows: false, target })?;
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    fn begin_commands(&mut self, every: bool) {
        self.every_command = every;
        self.rules = Vec::new();
        self.allowed = if every { CommandSet::ALL } else { CommandSet::default() };
    }

    fn add_category(
        &mut self,
        catalogue: &Catalogue,
        allows: bool,
        name: &[u8],
    ) -> Result<(), RuleError> {
        let category = Categories::named(name).ok_or(RuleError::Unknown)?;
        self.add(catalogue, CommandRule { allows, target: Target::Category(category) })
    }

    /// Adds a rule on commands, and drops those that it makes void.
    fn add(&mut self, catalogue: &Catalogue, rule: CommandRule) -> Result<(), RuleError> {
        let covered = rule.covers(catalogue);
        let stays = |old: &CommandRule| *old != rule && !old.names(catalogue).is_within(&covered);
        let kept: Vec<CommandRule> = self.rules.iter().filter(|old| stays(old)).cloned().collect();
        if kept.len() >= ITEMS_MAX {
            return Err(RuleError::Many);
        }
        self.begin_commands(self.every_command);
        kept.into_iter().chain([rule]).for_each(|rule| self.push(catalogue, rule));
        Ok(())
    }

    /// Adds a rule on commands if it changes something.
    fn push(&mut self, catalogue: &Catalogue, rule: CommandRule) {
        let before = self.allowed;
        rule.apply(catalogue, &mut self.allowed);
        let changes = match rule.target {
            Target::First(command, _) => !before.has(command),
            _ => self.allowed != before,
        };
        if changes {
            self.rules.push(rule);
        }
    }

    fn add_key(&mut self, pattern: &[u8], rights: Rights) -> Result<(), RuleError> {
        if self.every_key {
            return Err(RuleError::AllKeys);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        let count = self.keys.len();
        match self.keys.iter_mut().find(|key| *key.pattern == *pattern) {
            Some(key) => key.rights = key.rights.and(rights),
            None if count >= ITEMS_MAX => return Err(RuleError::Many),
            None => self.keys.push(KeyPattern { pattern: pattern.into(), rights }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.every_channel {
            return Err(RuleError::AllChannels);
        }
        if has_space(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|channel| **channel == *pattern) {
            if self.channels.len() >= ITEMS_MAX {
                return Err(RuleError::Many);
            }
            self.channels.push(pattern.into());
        }
        Ok(())
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Returns why the request is refused.
    pub(super) fn check(&self, request: &Request<'_>) -> Result<(), Denied> {
        if !request.is_free && !self.allows_command(request) {
            return Err(Denied::Command);
        }
        let refused = |(index, rights): &&(usize, Rights)| {
            !self.allows_key(request.arguments[*index], *rights)
        };
        if let Some((index, _)) = request.keys.iter().find(refused) {
            return Err(Denied::Key(*index));
        }
        let (first, end) = request.channels;
        for index in first..end {
            if !self.allows_channel(request.arguments[index], request.are_patterns) {
                return Err(Denied::Channel(index));
            }
        }
        Ok(())
    }

    fn allows_command(&self, request: &Request<'_>) -> bool {
        if self.allowed.has(request.command) {
            return true;
        }
        let Some(given) = request.arguments.get(1) else { return false };
        self.rules.iter().any(|rule| match &rule.target {
            Target::First(command, first) => {
                *command == request.command && given.eq_ignore_ascii_case(first)
            }
            _ => false,
        })
    }

    fn allows_key(&self, key: &[u8], rights: Rights) -> bool {
        let allows = |of: &KeyPattern| of.rights.has(rights) && glob::matches(&of.pattern, key);
        self.every_key || self.keys.iter().any(allows)
    }

    /// True if it allows a channel, or a pattern that is one of its own.
    pub(super) fn allows_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        let mut channels = self.channels.iter();
        self.every_channel
            || channels.any(|of| match is_pattern {
                true => **of == *channel,
                false => glob::matches(of, channel),
            })
    }

    /// True if it has all channels and patterns of another selector.
    pub(super) fn has_channels_of(&self, other: &Selector) -> bool {
        let has = |channel| self.channels.contains(channel);
        self.every_channel || !other.every_channel && other.channels.iter().all(has)
    }

    /// The rules on commands, as `ACL SETUSER` takes them.
    pub fn commands(&self, catalogue: &Catalogue) -> Vec<u8> {
        let name = |command: usize| catalogue.commands()[command].name.as_bytes();
        let mut text = if self.every_command { b"+@all".to_vec() } else { b"-@all".to_vec() };
        for rule in &self.rules {
            text.extend_from_slice(if rule.allows { b" +" } else { b" -" });
            match &rule.target {
                Target::Command(command) => text.extend_from_slice(name(*command)),
                Target::Category(category) => {
                    category.names().for_each(|name| text.extend([b"@", name.as_bytes()].concat()));
                }
                Target::First(command, first) => {
                    text.extend([name(*command), b"|", first].concat());
                }
            }
        }
        text
    }

    /// The patterns of keys, as `ACL SETUSER` takes them.
    pub fn keys(&self) -> Vec<u8> {
        if self.every_key {
            return b"~*".to_vec();
        }
        let word = |key: &KeyPattern| {
            let sign: &[u8] = match key.rights {
                Rights::READ => b"%R~",
                Rights::WRITE => b"%W~",
                _ => b"~",
            };
            [sign, &key.pattern].concat()
        };
        self.keys.iter().map(word).collect::<Vec<_>>().join(&b' ')
    }

    /// The channels, as `ACL SETUSER` takes them.
    pub fn channels(&self) -> Vec<u8> {
        if self.every_channel {
            return b"&*".to_vec();
        }
        let words = self.channels.iter().map(|channel| [b"&", &**channel].concat());
        words.collect::<Vec<_>>().join(&b' ')
    }

    /// All rules, as `ACL LIST` shows them.
    pub(super) fn describe(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut words = vec![self.keys()];
        if !self.every_channel {
            words.push(b"resetchannels".to_vec());
        }
        words.extend([self.channels(), self.commands(catalogue)]);
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}

/// Parses the letters between `%` and `~`, in lower case.
fn rights(letters: &[u8]) -> Result<Rights, RuleError> {
    match letters {
        b"r" => Ok(Rights::READ),
        b"w" => Ok(Rights::WRITE),
        b"rw" | b"wr" => Ok(Rights::BOTH),
        _ => Err(RuleError::Syntax),
    }
}

/// Parses what a rule with `+` names: a command, a subcommand, or a command with a first argument.
fn allowed_target(catalogue: &Catalogue, lower: &[u8], given: &[u8]) -> Result<Target, RuleError> {
    let Some(bar) = lower.iter().rposition(|byte| *byte == b'|') else {
        return Ok(Target::Command(catalogue.find(lower).ok_or(RuleError::Unknown)?));
    };
    let command = catalogue.find(&lower[..bar]).ok_or(RuleError::Unknown)?;
    let of = &catalogue.commands()[command];
    if of.is_subcommand() {
        return Err(RuleError::FirstArgument);
    }
    let first = &given[bar + 1..];
    if first.is_empty() {
        return Err(RuleError::Syntax);
    }
    if of.subcommands.is_empty() {
        return match has_space(first) {
            true => Err(RuleError::Syntax),
            false => Ok(Target::First(command, first.into())),
        };
    }
    Ok(Target::Command(catalogue.find(lower).ok_or(RuleError::Unknown)?))
}

/// True if a word has a space or a zero byte, which the form of ACL files does not allow.
pub(super) fn has_space(word: &[u8]) -> bool {
    word.iter().any(|byte| matches!(byte, b' ' | b'\t'..=b'\r' | 0))
}
