//! [`User`]: the passwords of a user and the rules on its requests.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;

use super::catalogue::Catalogue;
use super::rules::{Denied, ITEMS_MAX, Request, RuleError, Selector, has_space};

/// Bytes of a rule that errors show.
const SHOWN_BYTES: usize = 128;

/// The SHA-256 of a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Password([u8; 32]);

impl Password {
    /// Returns the hash of a password.
    pub fn of(text: &[u8]) -> Password {
        Password(Sha256::digest(text).into())
    }

    /// Parses 64 lower-case hexadecimal digits.
    fn parse(digits: &[u8]) -> Result<Password, RuleError> {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(RuleError::Hash),
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(RuleError::Hash);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Ok(Password(bytes))
    }

    /// Returns 64 hexadecimal digits.
    pub fn digits(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Compares two hashes in a time that does not depend on their bytes.
    fn is(&self, other: &Password) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

/// The reason why the rules of `ACL SETUSER` are refused.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "each message says what is wrong")]
pub enum SetError {
    #[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
    Unmatched(String),
    #[error("Error in ACL SETUSER modifier '{rule}': {error}")]
    Rule { rule: String, error: RuleError },
}

/// Passwords, and the rules on requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    enabled: bool,
    /// True if every password is right.
    any_password: bool,
    /// What `ACL LIST` shows of the check of `RESTORE`'s values, which are always checked here.
    skips_checks: Option<bool>,
    passwords: Vec<Password>,
    root: Selector,
    /// Further selectors. A request needs one that allows it.
    selectors: Vec<Selector>,
}

impl User {
    /// A user without rights, but perhaps for all channels.
    pub fn new(every_channel: bool) -> User {
        User {
            enabled: false,
            any_password: false,
            skips_checks: None,
            passwords: Vec::new(),
            root: Selector::new(every_channel),
            selectors: Vec::new(),
        }
    }

    /// True if it may log in.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True if it may log in with any password.
    pub fn takes_any_password(&self) -> bool {
        self.any_password
    }

    /// True if the password is one of its own, and it may log in.
    pub fn accepts(&self, password: &[u8]) -> bool {
        let given = Password::of(password);
        // All of them are compared, so the time tells only their number.
        let right = self.passwords.iter().fold(false, |right, one| right | one.is(&given));
        self.enabled && (self.any_password || right)
    }

    /// True if it may run every request.
    pub fn is_unlimited(&self) -> bool {
        self.all_selectors().any(Selector::is_unlimited)
    }

    /// True if a command of this index may read every key.
    pub fn reads_every_key_with(&self, command: usize) -> bool {
        self.all_selectors().any(|selector| selector.reads_every_key_with(command))
    }

    /// The selector of the user itself, and the further ones.
    fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Checks a request.
    ///
    /// # Errors
    /// Returns why the request is refused.
    pub fn check(&self, request: &Request<'_>) -> Result<(), Denied> {
        let mut worst = Denied::Command;
        for selector in self.all_selectors() {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(denied) => worst = worst.max(denied),
            }
        }
        Err(worst)
    }

    /// True if it may stay subscribed to a channel or a pattern.
    pub fn may_subscribe(&self, channel: &[u8], is_pattern: bool) -> bool {
        self.all_selectors().any(|selector| selector.allows_channel(channel, is_pattern))
    }

    /// True if some channel of `before` may not be allowed any more.
    pub(super) fn lost_channels_of(&self, before: &User) -> bool {
        let kept = |old: &Selector| self.all_selectors().any(|new| new.has_channels_of(old));
        !before.all_selectors().all(kept)
    }

    /// Bytes of DRAM that it holds, about.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<User>()
            + self.passwords.len() * size_of::<Password>()
            + self.all_selectors().map(Selector::held_bytes).sum::<usize>()
    }

    /// Applies rules as one. Parts of a selector may be in several words.
    ///
    /// # Errors
    /// Returns an error if one is no rule. The user is undefined then.
    pub fn apply_all(
        &mut self,
        catalogue: &Catalogue,
        words: &[&[u8]],
        every_channel: bool,
    ) -> Result<(), SetError> {
        for rule in merged(words)? {
            self.apply(catalogue, &rule, every_channel).map_err(|error| SetError::Rule {
                rule: String::from_utf8_lossy(&rule[..rule.len().min(SHOWN_BYTES)]).into_owned(),
                error,
            })?;
        }
        Ok(())
    }

    /// Applies a rule. With `every_channel`, `reset` allows all channels.
    ///
    /// # Errors
    /// Returns an error if it is no rule. Nothing has changed then.
    pub fn apply(
        &mut self,
        catalogue: &Catalogue,
        rule: &[u8],
        every_channel: bool,
    ) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"skip-sanitize-payload" => self.skips_checks = Some(true),
            b"sanitize-payload" => self.skips_checks = Some(false),
            b"nopass" => (self.any_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.any_password, self.passwords) = (false, Vec::new()),
            [b'>', ..] => self.add_password(Password::of(&rule[1..]))?,
            [b'#', ..] => self.add_password(Password::parse(&rule[1..])?)?,
            [b'<', ..] => self.remove_password(Password::of(&rule[1..]))?,
            [b'!', ..] => self.remove_password(Password::parse(&rule[1..])?)?,
            [b'(', .., b')'] => {
                let selector = selector(catalogue, &rule[1..rule.len() - 1])?;
                if self.selectors.len() >= ITEMS_MAX {
                    return Err(RuleError::Many);
                }
                self.selectors.push(selector);
            }
            b"clearselectors" => self.selectors = Vec::new(),
            b"reset" => {
                *self = User { skips_checks: Some(false), ..User::new(every_channel) };
            }
            _ => self.root.apply(catalogue, rule)?,
        }
        Ok(())
    }

    fn add_password(&mut self, password: Password) -> Result<(), RuleError> {
        if !self.passwords.contains(&password) {
            if self.passwords.len() >= ITEMS_MAX {
                return Err(RuleError::Many);
            }
            self.passwords.push(password);
        }
        self.any_password = false;
        Ok(())
    }

    fn remove_password(&mut self, password: Password) -> Result<(), RuleError> {
        let place = self.passwords.iter().position(|one| *one == password);
        self.passwords.remove(place.ok_or(RuleError::NoPassword)?);
        Ok(())
    }

    /// The names of its flags, as Redis shows them.
    pub fn flags(&self) -> Vec<&'static str> {
        let checks = self.skips_checks.map(|skips| match skips {
            true => "skip-sanitize-payload",
            false => "sanitize-payload",
        });
        let standing = if self.enabled { "on" } else { "off" };
        let flags = [Some(standing), self.any_password.then_some("nopass"), checks];
        flags.into_iter().flatten().collect()
    }

    /// The hashes of its passwords.
    pub fn passwords(&self) -> &[Password] {
        &self.passwords
    }

    /// The selector of the user itself.
    pub fn root(&self) -> &Selector {
        &self.root
    }

    /// The further selectors.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The rules that make this user, as `ACL LIST` and ACL files have them.
    pub fn describe(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> =
            self.flags().iter().map(|flag| flag.as_bytes().into()).collect();
        words.extend(self.passwords.iter().map(|one| format!("#{}", one.digits()).into_bytes()));
        words.push(self.root.describe(catalogue));
        words.extend(
            self.selectors.iter().map(|one| [b"(", &*one.describe(catalogue), b")"].concat()),
        );
        words.join(&b' ')
    }
}

/// Parses the words of a selector, without its parentheses.
fn selector(catalogue: &Catalogue, text: &[u8]) -> Result<Selector, RuleError> {
    let mut selector = Selector::new(false);
    let words = text.split(|byte| has_space(&[*byte])).filter(|word| !word.is_empty());
    for word in words {
        // In an ACL file the selector would end here.
        if word.ends_with(b")") {
            return Err(RuleError::Syntax);
        }
        selector.apply(catalogue, word)?;
    }
    Ok(selector)
}

/// Joins the words of selectors.
fn merged(words: &[&[u8]]) -> Result<Vec<Vec<u8>>, SetError> {
    let mut rules = Vec::new();
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for word in words {
        match &mut open {
            None if word.starts_with(b"(") && !word.ends_with(b")") => {
                open = Some((word, word.to_vec()));
            }
            None => rules.push(word.to_vec()),
            Some((_, text)) => {
                text.push(b' ');
                text.extend_from_slice(word);
                if word.ends_with(b")") {
                    rules.push(open.take().expect("it is open").1);
                }
            }
        }
    }
    match open {
        None => Ok(rules),
        Some((first, _)) => {
            let shown = &first[..first.len().min(SHOWN_BYTES)];
            Err(SetError::Unmatched(String::from_utf8_lossy(shown).into_owned()))
        }
    }
}
