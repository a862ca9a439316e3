//! Enums that are written as fixed words, in JSON and in the database alike.

/// A word that names no variant: the row was written by something else, or is damaged.
#[derive(Debug, thiserror::Error)]
#[error("unknown {what} name")]
pub struct UnknownName {
    what: &'static str,
}

impl UnknownName {
    pub(crate) fn new(what: &'static str) -> Self {
        Self { what }
    }
}

/// Defines an enum whose variants have one spelling each.
macro_rules! named {
    (
        $(#[$doc:meta])*
        pub enum $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)*
        }

        impl $name {
            /// The word for it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownName;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::UnknownName::new(stringify!($name))),
                }
            }
        }
    };
}

pub(crate) use named;
