//! [`Acl`]: the users of the server, and what they may do.
//!
//! A connection has an [`Account`]. It stays the same while the rules of its user change. Files,
//! sockets and clocks are not used here.

mod catalogue;
mod file;
mod log;
mod rules;
#[cfg(test)]
mod tests;
mod user;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};
use thiserror::Error;

pub use catalogue::{COMMANDS_MAX, Catalogue, Categories, Command};
pub use log::{Context, Entry, KEPT_MAX, Log, Reason, Refusal};
pub use rules::{Denied, Request, Rights, RuleError, Selector};
pub use user::{Password, SetError, User};

use rules::has_space;

/// The user of connections that have not logged in.
pub const DEFAULT: &[u8] = b"default";

/// The user of the server's own connections. Another user may have this name, too.
pub const INSIDER: &[u8] = b"(metrics)";

/// Maximum DRAM bytes of all users with their rules.
pub const USERS_BYTES_MAX: usize = 2 << 20;

/// DRAM bytes of a user, apart from its name and rules.
const ACCOUNT_BYTES: usize = 256;

/// How an account stands, for a check that costs one load.
const UNLIMITED: u8 = 0;
const LIMITED: u8 = 1;
const GONE: u8 = 2;

/// The user of connections.
#[derive(Debug)]
pub struct Account {
    name: Box<[u8]>,
    user: RwLock<Arc<User>>,
    standing: AtomicU8,
}

impl Account {
    fn new(name: &[u8], user: User) -> Account {
        let standing = AtomicU8::new(if user.is_unlimited() { UNLIMITED } else { LIMITED });
        Account { name: name.into(), user: RwLock::new(Arc::new(user)), standing }
    }

    /// The name of the user.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The user as it is now.
    pub fn user(&self) -> Arc<User> {
        self.user.read().clone()
    }

    /// True if it may run every request.
    pub fn is_unlimited(&self) -> bool {
        self.standing.load(Ordering::Acquire) == UNLIMITED
    }

    /// True if the user was deleted.
    pub fn is_gone(&self) -> bool {
        self.standing.load(Ordering::Acquire) == GONE
    }

    fn set(&self, user: User) {
        let standing = if user.is_unlimited() { UNLIMITED } else { LIMITED };
        let mut now = self.user.write();
        *now = Arc::new(user);
        self.standing.store(standing, Ordering::Release);
    }

    fn delete(&self) {
        self.standing.store(GONE, Ordering::Release);
    }

    fn held_bytes(&self) -> usize {
        ACCOUNT_BYTES + self.name.len() * 2 + self.user().held_bytes()
    }
}

/// The reason why users stay as they are.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message says what is wrong")]
pub enum AclError {
    #[error("Usernames can't contain spaces or null characters")]
    Name,
    #[error("The 'default' user cannot be removed")]
    Default,
    #[error("all users with their rules take at most {USERS_BYTES_MAX} bytes")]
    Full,
    #[error(transparent)]
    Set(#[from] SetError),
}

type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// The users of the server.
pub struct Acl {
    catalogue: &'static Catalogue,
    accounts: Mutex<Accounts>,
    default: Arc<Account>,
    /// The default user if no file has one.
    first: User,
    insider: Arc<Account>,
    log: Mutex<Log>,
    every_channel: AtomicBool,
}

impl Acl {
    /// Returns the users of a server that starts: the default user. It has all rights and needs
    /// `password`, if there is one. `secret` is the password of [`INSIDER`].
    pub fn new(catalogue: &'static Catalogue, password: Option<&[u8]>, secret: &[u8]) -> Acl {
        let user = |rules: &[&[u8]]| {
            let mut user = User::new(false);
            user.apply_all(catalogue, rules, false).expect("rules of this program");
            user
        };
        let password = password.map_or(b"nopass".to_vec(), |text| [b">", text].concat());
        let first = user(&[b"on", b"~*", b"&*", b"+@all", &password]);
        let insider = user(&[b"on", b"+info", &[b">", secret].concat()]);
        let default = Arc::new(Account::new(DEFAULT, first.clone()));
        Acl {
            catalogue,
            accounts: Mutex::new([(DEFAULT.into(), default.clone())].into()),
            default,
            first,
            insider: Arc::new(Account::new(INSIDER, insider)),
            log: Mutex::default(),
            every_channel: AtomicBool::new(false),
        }
    }

    /// The commands that rules can name.
    pub fn catalogue(&self) -> &'static Catalogue {
        self.catalogue
    }

    /// The default user, if clients need no password for it.
    pub fn open_default(&self) -> Option<Arc<Account>> {
        let user = self.default.user();
        (user.is_enabled() && user.takes_any_password()).then(|| self.default.clone())
    }

    /// Returns a user.
    pub fn find(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.accounts.lock().get(name).cloned()
    }

    /// All users by name.
    pub fn accounts(&self) -> Vec<Arc<Account>> {
        self.accounts.lock().values().cloned().collect()
    }

    /// Returns the account of a user if it accepts the password.
    pub fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Arc<Account>> {
        let insider = Some(&self.insider).filter(|insider| *insider.name == *name).cloned();
        let mut accounts = insider.into_iter().chain(self.find(name));
        accounts.find(|account| account.user().accepts(password))
    }

    /// Makes or changes a user. Returns its account if it lost channels, so that its subscribers
    /// may have to go.
    ///
    /// # Errors
    /// Returns an error if a rule is none or the users take too much DRAM. Nothing has changed
    /// then.
    pub fn set(&self, name: &[u8], rules: &[&[u8]]) -> Result<Option<Arc<Account>>, AclError> {
        // The form of ACL files has no empty name either.
        if name.is_empty() || has_space(name) {
            return Err(AclError::Name);
        }
        let every_channel = self.has_channels_by_default();
        let mut accounts = self.accounts.lock();
        let before = accounts.get(name).cloned();
        let mut user =
            before.as_ref().map_or_else(|| User::new(every_channel), |old| (*old.user()).clone());
        user.apply_all(self.catalogue, rules, every_channel)?;
        let others = accounts.values().filter(|other| *other.name != *name);
        let others: usize = others.map(|other| other.held_bytes()).sum();
        let own = ACCOUNT_BYTES + name.len() * 2 + user.held_bytes();
        if others + own > USERS_BYTES_MAX {
            return Err(AclError::Full);
        }
        match before {
            Some(account) => {
                let lost = user.lost_channels_of(&account.user());
                account.set(user);
                Ok(lost.then_some(account))
            }
            None => {
                accounts.insert(name.into(), Arc::new(Account::new(name, user)));
                Ok(None)
            }
        }
    }

    /// Deletes users. Returns their accounts, whose connections must close.
    ///
    /// # Errors
    /// Returns an error if the default user is among them. Nothing has changed then.
    pub fn delete(&self, names: &[&[u8]]) -> Result<Vec<Arc<Account>>, AclError> {
        if names.contains(&DEFAULT) {
            return Err(AclError::Default);
        }
        let mut accounts = self.accounts.lock();
        let gone: Vec<_> = names.iter().filter_map(|name| accounts.remove(*name)).collect();
        gone.iter().for_each(|account| account.delete());
        Ok(gone)
    }

    /// Replaces all users by those of an ACL file, whose errors name `path`. Returns the accounts
    /// whose connections must close: those of all users but the default one.
    ///
    /// # Errors
    /// Returns an error if a line is wrong. Nothing has changed then.
    pub fn load(&self, text: &[u8], path: &str) -> Result<Vec<Arc<Account>>, String> {
        let mut users = file::parse(self.catalogue, text, path, self.has_channels_by_default())?;
        let default = users.remove(DEFAULT).unwrap_or_else(|| self.first.clone());
        let new = users.into_iter().map(|(name, user)| {
            let account = Arc::new(Account::new(&name, user));
            (name, account)
        });
        let new: Accounts = new.collect();
        let bytes: usize = new.values().map(|account| account.held_bytes()).sum();
        if bytes + ACCOUNT_BYTES + default.held_bytes() > USERS_BYTES_MAX {
            return Err(format!("{path}: {}", AclError::Full));
        }
        let mut accounts = self.accounts.lock();
        self.default.set(default);
        let old = std::mem::replace(&mut *accounts, new);
        accounts.insert(DEFAULT.into(), self.default.clone());
        let gone: Vec<_> = old.into_values().filter(|old| *old.name != *DEFAULT).collect();
        gone.iter().for_each(|account| account.delete());
        Ok(gone)
    }

    /// Returns the text of an ACL file with all users.
    pub fn save(&self) -> Vec<u8> {
        let mut text = Vec::new();
        for account in self.accounts() {
            text.extend(self.line(&account));
            text.push(b'\n');
        }
        text
    }

    /// Returns the line of a user in an ACL file, without its end.
    pub fn line(&self, account: &Account) -> Vec<u8> {
        [b"user ", account.name(), b" ", &account.user().describe(self.catalogue)].concat()
    }

    /// Requests and logins that were refused.
    pub fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    /// True if new users have all channels (`acl-pubsub-default`).
    pub fn has_channels_by_default(&self) -> bool {
        self.every_channel.load(Ordering::Relaxed)
    }

    /// Gives new users all channels, or none.
    pub fn set_channels_by_default(&self, every: bool) {
        self.every_channel.store(every, Ordering::Relaxed);
    }
}
