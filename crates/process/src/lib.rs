//! Programs that are started and ended with all that they start.
//!
//! A [`Family`] is what one owner starts: the commands of a session, the hooks of a plugin. Each [`Program`] of it leads a
//! process group of its own and carries a mark that its children inherit, so that a [`Group`] can be ended as a whole:
//! asked first (SIGTERM), killed when its grace is over (SIGKILL). A [`Lifeline`] ends them when this process is killed and
//! can't do it.
//!
//! The laws: nobody outlives their owner by being stubborn, by leaving the group or by being forgotten; what a program is
//! given of the environment is what its starter wrote down and nothing else; what a program writes is read into bounded
//! memory ([`read_bounded`]), and its own can be bounded ([`Program::memory`]).
//!
//! Limits: a process that leaves the group, clears its environment *and* has lost its parent is nobody's child any more and
//! escapes, unless this process [adopts orphans](adopt_orphans). What other services start on request was never in the tree.
//! Systems other than Linux show neither marks nor descendants: there the group is all that is ended. The watcher of a
//! lifeline can be killed by whoever may kill us. What bounds memory holds for each process of a tree, and not for all together; memory that is only
//! read, or shared, does not count.
//!
//! It knows none of the other crates.

mod bounded;
mod family;
mod group;
mod lifeline;
mod orphans;
#[cfg(target_os = "linux")]
mod proc;
mod program;
mod running;

pub use self::bounded::{Bounded, read_bounded};
pub use self::family::Family;
pub use self::group::Group;
pub use self::lifeline::{Lifeline, Target};
pub use self::orphans::{adopt_orphans, end_descendants, reap_orphans};
pub use self::program::{Descriptors, Program};
pub use self::running::{Ending, Running};
