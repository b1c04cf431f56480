//! [`Catalogue`]: the commands that rules can name, and their [`Categories`].

use std::collections::HashMap;
use std::ops::Range;

use rustc_hash::FxBuildHasher;

/// Maximum number of commands and subcommands.
pub const COMMANDS_MAX: usize = 512;

/// Categories of commands, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Categories(u32);

impl Categories {
    /// The names, in the order of Redis.
    pub const NAMES: [&'static str; 21] = [
        "keyspace",
        "read",
        "write",
        "set",
        "sortedset",
        "list",
        "hash",
        "string",
        "bitmap",
        "hyperloglog",
        "geo",
        "stream",
        "pubsub",
        "admin",
        "fast",
        "slow",
        "blocking",
        "dangerous",
        "connection",
        "transaction",
        "scripting",
    ];

    /// Returns the category of a name in any case.
    pub fn named(name: &[u8]) -> Option<Categories> {
        let mut names = Categories::NAMES.iter();
        let index = names.position(|of| name.eq_ignore_ascii_case(of.as_bytes()))?;
        Some(Categories(1 << index))
    }

    /// Returns these categories and others.
    #[must_use]
    pub fn and(self, others: Categories) -> Categories {
        Categories(self.0 | others.0)
    }

    /// True if it has a category in common with `others`.
    pub fn has(self, others: Categories) -> bool {
        self.0 & others.0 != 0
    }

    /// The names of the categories.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let all = Categories::NAMES.into_iter().enumerate();
        all.filter(move |(index, _)| self.0 & 1 << index != 0).map(|(_, name)| name)
    }
}

/// A command or subcommand that rules can name.
#[derive(Debug, Clone)]
pub struct Command {
    /// Its name, such as `get` or `config|get`.
    pub name: &'static str,
    /// Its categories.
    pub categories: Categories,
    /// The numbers of its subcommands.
    pub subcommands: Range<usize>,
}

impl Command {
    /// True if it is a subcommand.
    pub fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }
}

/// All commands that rules can name. Commands are known by their index.
#[derive(Debug)]
pub struct Catalogue {
    commands: Vec<Command>,
    by_name: HashMap<&'static [u8], usize, FxBuildHasher>,
}

impl Catalogue {
    /// Returns the catalogue of at most [`COMMANDS_MAX`] commands.
    pub fn new(commands: Vec<Command>) -> Catalogue {
        assert!(commands.len() <= COMMANDS_MAX, "a set has a bit for each command");
        let named = commands.iter().enumerate();
        let by_name = named.map(|(index, command)| (command.name.as_bytes(), index)).collect();
        Catalogue { commands, by_name }
    }

    /// All commands.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the number of the command of a name in any case.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(&*name.to_ascii_lowercase()).copied()
    }

    /// Returns a command and its subcommands.
    pub(super) fn with_subcommands(&self, command: usize) -> CommandSet {
        let mut set = CommandSet::default();
        set.insert(command);
        self.commands[command].subcommands.clone().for_each(|one| set.insert(one));
        set
    }

    /// Returns the commands of a category. The category of a command covers its subcommands.
    pub(super) fn of(&self, category: Categories) -> CommandSet {
        let mut set = CommandSet::default();
        for (index, command) in self.commands.iter().enumerate() {
            if command.categories.has(category) {
                set.unite(&self.with_subcommands(index));
            }
        }
        set
    }
}

/// A set of commands: a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct CommandSet([u64; COMMANDS_MAX / 64]);

impl CommandSet {
    pub(super) const ALL: CommandSet = CommandSet([u64::MAX; COMMANDS_MAX / 64]);

    fn insert(&mut self, command: usize) {
        self.0[command / 64] |= 1 << (command % 64);
    }

    pub(super) fn has(&self, command: usize) -> bool {
        self.0[command / 64] & 1 << (command % 64) != 0
    }

    pub(super) fn unite(&mut self, others: &CommandSet) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word |= other);
    }

    pub(super) fn remove(&mut self, others: &CommandSet) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word &= !other);
    }

    /// True if all of its commands are among `others`.
    pub(super) fn is_within(&self, others: &CommandSet) -> bool {
        self.0.iter().zip(others.0).all(|(word, other)| word & !other == 0)
    }
}
