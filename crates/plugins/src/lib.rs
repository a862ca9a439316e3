//! Hooks that others bring.
//!
//! A plugin registers what it wants to be: hooks at points, tools, commands. What it registers is the same thing whatever
//! language it is written in ([`registration`]), and is put into a [`Snapshot`](backstop_engine::Snapshot) in one place, under
//! the laws that hold for every hook. Where its code runs is the other half: [`external`] has hooks that are programs or
//! servers of their own.
//!
//! The laws: a gate that can't be asked has failed, and blocks; a gate that can't stand where it was to stand is an error when
//! it is registered; what else is left out is listed ([`Seated`](registration::Seated)). A plugin speaks for nobody else: its
//! owner is its id, and no id is that of a part of Backstop.
//!
//! Limits: the code of a plugin outside of this process is not walled off by this crate; it runs with the rights of whoever
//! runs Backstop, in the environment that its entry names. Scripts that run under Node are held by what Node holds
//! ([`openclaw::unheld`] says what that is not), and those that run in a process of their own by this crate ([`apart`]).

pub mod apart;
pub mod config_schema;
pub mod external;
pub mod install;
pub mod manifest;
pub mod offers;
pub mod openclaw;
pub mod package;
pub mod permissions;
pub mod probe;
pub mod registration;
pub mod set;
pub mod trust;
