//! Hooks on live traffic, end to end: raw clients, the gateway, a scripted model.

#![expect(clippy::string_slice, reason = "helpers of tests may fail loudly")]

pub(crate) mod adversarial;
mod answers;
pub(crate) mod approvals;
pub(crate) mod approved;
mod arrays;
mod attacks;
mod batches;
mod documents;
mod failures;
mod files;
mod freeform;
mod life;
mod limits;
mod names;
mod offers;
mod parts;
mod refusals;
mod requests;
mod results;
mod rules;
mod stored;
pub(crate) mod stores;
pub(crate) mod support;
mod turns;
