//! Reading and changing single files.

pub(super) mod edit;
pub(super) mod read;
pub(super) mod write;
