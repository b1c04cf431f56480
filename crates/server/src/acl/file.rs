//! The text of an ACL file, as in Redis: a line `user NAME RULE...` for each user.

use std::collections::BTreeMap;

use super::catalogue::Catalogue;
use super::rules::has_space;
use super::user::User;

/// Maximum number of lines with errors that are told.
const ERRORS_TOLD: usize = 8;

/// Parses the text of a file. Errors name `path` and the line.
///
/// # Errors
/// Returns an error in one line, which tells all that is wrong, up to a limit.
pub(super) fn parse(
    catalogue: &Catalogue,
    text: &[u8],
    path: &str,
    every_channel: bool,
) -> Result<BTreeMap<Box<[u8]>, User>, String> {
    let mut users = BTreeMap::new();
    let mut errors = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let words: Vec<&[u8]> =
            line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
        let parsed = match words.as_slice() {
            [] => continue,
            [b"user", name, rules @ ..] => {
                let name: Box<[u8]> = (*name).into();
                user(catalogue, &name, rules, every_channel).and_then(|user| {
                    match users.insert(name.clone(), user) {
                        None => Ok(()),
                        Some(_) => Err(format!("Duplicate user '{}' found", shown(&name))),
                    }
                })
            }
            _ => Err("expected 'user' and a name".into()),
        };
        if let Err(error) = parsed {
            errors.push(format!("{path}:{}: {error}", index + 1));
            if errors.len() == ERRORS_TOLD {
                break;
            }
        }
    }
    if errors.is_empty() { Ok(users) } else { Err(errors.join(". ")) }
}

/// Parses the rules of a user.
fn user(
    catalogue: &Catalogue,
    name: &[u8],
    rules: &[&[u8]],
    every_channel: bool,
) -> Result<User, String> {
    if has_space(name) {
        return Err(format!("the name '{}' has a zero byte or a space", shown(name)));
    }
    let mut user = User::new(every_channel);
    let applied = user.apply_all(catalogue, rules, every_channel);
    applied.map(|()| user).map_err(|error| error.to_string())
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned()
}
