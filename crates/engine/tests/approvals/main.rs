//! Approvals, end to end, over a store in memory and over a real database.

mod support;

mod answers;
mod atomicity;
mod listeners;
mod survival;
