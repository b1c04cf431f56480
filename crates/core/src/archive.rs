//! [`Archive`]: saves the state of an object as bytes, or restores it from them.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Saves the state of an object as bytes, or restores it from them. One function names the parts of
/// the state to the archive, and serves both ways:
///
/// ```
/// use ebbtide_core::Archive;
///
/// struct Counter { step: u64, count: u64 }
///
/// impl Counter {
///     fn state(&mut self, archive: &mut Archive<'_>) {
///         archive.part(&mut self.count);
///     }
/// }
///
/// let mut counter = Counter { step: 1, count: 7 };
/// let bytes = Archive::bytes_of(|archive| counter.state(archive));
/// let mut other = Counter { step: 2, count: 0 };
/// assert!(Archive::restore(&bytes, |archive| other.state(archive)));
/// assert_eq!((other.step, other.count), (2, 7));
/// ```
///
/// The bytes carry no description. They fit an object whose parts have the same
/// [types](Archive::types_of), in the program that made them.
pub struct Archive<'a>(Way<'a>);

enum Way<'a> {
    /// Collects the types of the parts only. `None` once a part cannot be archived.
    Types(Option<String>),
    Out(Vec<u8>),
    /// Restores from these bytes, the rest of the archive. `None` once a part was missing.
    In(Option<&'a [u8]>),
}

impl<'a> Archive<'a> {
    /// Returns the types of the parts of a state, or `None` if it cannot be archived.
    pub fn types_of(state: impl FnOnce(&mut Archive<'a>)) -> Option<String> {
        let mut archive = Archive(Way::Types(Some(String::new())));
        state(&mut archive);
        match archive.0 {
            Way::Types(types) => types,
            Way::Out(_) | Way::In(_) => None,
        }
    }

    /// Returns the bytes of a state that can be archived.
    pub fn bytes_of(state: impl FnOnce(&mut Archive<'a>)) -> Vec<u8> {
        let mut archive = Archive(Way::Out(Vec::new()));
        state(&mut archive);
        match archive.0 {
            Way::Out(bytes) => bytes,
            Way::Types(_) | Way::In(_) => Vec::new(),
        }
    }

    /// Restores the parts of a state from `bytes`. Returns true if `bytes` has exactly these parts.
    /// Otherwise some parts may be restored and others not.
    pub fn restore(bytes: &'a [u8], state: impl FnOnce(&mut Archive<'a>)) -> bool {
        let mut archive = Archive(Way::In(Some(bytes)));
        state(&mut archive);
        matches!(archive.0, Way::In(Some([])))
    }

    /// Saves `part` to the archive, or restores it from there. Returns true if it was restored.
    pub fn part<T: Serialize + DeserializeOwned>(&mut self, part: &mut T) -> bool {
        match &mut self.0 {
            Way::Types(types) => {
                if let Some(types) = types {
                    types.extend([type_name::<T>(), ";"]);
                }
                false
            }
            Way::Out(bytes) => {
                let before = std::mem::take(bytes);
                *bytes = postcard::to_extend(part, before).expect("states are plain data");
                false
            }
            Way::In(left) => {
                let taken = left.take().and_then(|bytes| postcard::take_from_bytes(bytes).ok());
                let Some((taken, rest)) = taken else { return false };
                (*part, *left) = (taken, Some(rest));
                true
            }
        }
    }

    /// Notes that the state has a part that cannot be archived.
    pub fn cannot(&mut self) {
        match &mut self.0 {
            Way::Types(types) => *types = None,
            Way::Out(_) => panic!("a state without types is put into no archive"),
            Way::In(left) => *left = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_from_all_of_its_bytes_and_from_no_others() {
        let mut state = (7u64, vec![1u32, 2, 300], "text".to_string());
        let bytes = Archive::bytes_of(|archive| {
            archive.part(&mut state.0);
            archive.part(&mut state.1);
            archive.part(&mut state.2);
        });
        let restored = |bytes: &[u8]| {
            let mut state: (u64, Vec<u32>, String) = Default::default();
            let is_whole = Archive::restore(bytes, |archive| {
                archive.part(&mut state.0);
                archive.part(&mut state.1);
                archive.part(&mut state.2);
            });
            is_whole.then_some(state)
        };
        assert_eq!(restored(&bytes), Some(state));
        (0..bytes.len()).for_each(|cut| assert_eq!(restored(&bytes[..cut]), None, "{cut}"));
        assert_eq!(restored(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn types_tell_states_apart_and_are_none_of_what_cannot_be_archived() {
        let numbers = Archive::types_of(|archive| {
            archive.part(&mut 1u64);
            archive.part(&mut 1u64);
        });
        let other = Archive::types_of(|archive| {
            archive.part(&mut (1u64, 1u64));
        });
        assert!(numbers.is_some() && other.is_some() && numbers != other);
        let cannot = Archive::types_of(|archive| {
            archive.cannot();
            archive.part(&mut 1u64);
        });
        assert_eq!(cannot, None);
    }
}
