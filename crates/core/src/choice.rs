//! [`choice!`](crate::choice!): an enum whose variants users choose by name.
//!
//! Each variant has one name. The command line, TOML files, JSON and errors all use it. The error
//! for an unknown name suggests the nearest known one.

/// Defines an enum whose variants users choose by name.
///
/// The enum gets `FromStr` (its error is [`UnknownName`](crate::UnknownName)), `Display`,
/// `Serialize` and `Deserialize` by name, and the constant `ALL`. The string after `as` names the
/// kind of choice in errors.
///
/// ```
/// ebbtide_core::choice! {
///     /// Which end to take from.
///     pub enum End as "end" {
///         /// The old one.
///         Front = "front",
///         /// The new one.
///         Back = "back",
///     }
/// }
///
/// assert_eq!("back".parse(), Ok(End::Back));
/// assert_eq!(End::Front.to_string(), "front");
/// let error = "frnt".parse::<End>().unwrap_err().to_string();
/// assert_eq!(error, "unknown end 'frnt'; did you mean 'front'? (known: front, back)");
/// ```
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $Choice:ident as $what:literal {
            $($(#[$variant_meta:meta])* $Variant:ident = $name:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $visibility enum $Choice {
            $($(#[$variant_meta])* $Variant),+
        }

        impl $Choice {
            /// Every choice, as errors list them.
            pub const ALL: [$Choice; [$($name),+].len()] = [$($Choice::$Variant),+];

            /// The name users type.
            pub const fn name(self) -> &'static str {
                match self { $($Choice::$Variant => $name),+ }
            }
        }

        impl ::std::str::FromStr for $Choice {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> ::std::result::Result<$Choice, $crate::UnknownName> {
                $crate::find_by_name($what, name, &[$(($name, $Choice::$Variant)),+])
            }
        }

        impl ::std::fmt::Display for $Choice {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::serde::Serialize for $Choice {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $Choice {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<$Choice, D::Error> {
                let name = <::std::string::String as $crate::serde::Deserialize>::deserialize(
                    deserializer,
                )?;
                name.parse().map_err(<D::Error as $crate::serde::de::Error>::custom)
            }
        }
    };
}
