//! The formats that come with the crate, as `build.rs` made them of `catalogue/secrets`.

use std::borrow::Cow;

use super::format::Format;
use crate::entry::Proof;
use crate::template::Part;
use crate::text::ByteSet;

/// Every format, in the order of the catalogue.
pub(super) static FORMATS: &[Format] = include!(concat!(env!("OUT_DIR"), "/secrets.rs"));
