//! The guards and the verdict hooks in a real engine: same event, same verdict as every host gets.

mod support;

mod builtin;
mod webhook;
