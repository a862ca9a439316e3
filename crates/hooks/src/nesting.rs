//! How many hooks deep a call is.
//!
//! A hook may call tools, and the hooks that judge these calls may do the same, including the first
//! hook. The engine bounds that, and so has to know the depth of each call. It is tracked in two ways, and the
//! deeper of the two counts:
//!
//! - by thread: while a hook's code runs or is polled, everything it calls is one level deeper;
//! - by the [`CallContext`](crate::CallContext): a context that a hook creates or copies keeps the depth of that
//!   hook in whatever task or thread it is used.
//!
//! The law: a depth never shrinks. There is no way to set it, only to go deeper.
//!
//! Limit: if a hook starts a task and that task creates its context from nothing, its calls look like calls of the
//! host. The engine bounds how many calls of one hook may be under way at once, which applies to these too.

use std::cell::Cell;
use std::fmt;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// How many hooks deep a call is. A value that is created or copied is at least as deep as the code that does so.
///
/// ```
/// use backstop_hooks::{CallContext, Nesting};
///
/// let host = CallContext::default();
/// let of_a_hook = host.nesting.descend(CallContext::default);
/// assert_eq!((host.nesting.depth(), of_a_hook.nesting.depth()), (0, 1));
/// ```
pub struct Nesting(u8);

impl Nesting {
    /// Returns how many hooks deep the call is; 0 for a call of the host.
    pub fn depth(&self) -> u8 {
        self.0.max(DEPTH.get())
    }

    /// Runs the code of a hook that was asked about the call: whatever it does is one deeper.
    pub fn descend<T>(&self, work: impl FnOnce() -> T) -> T {
        at(self.depth().saturating_add(1), work)
    }

    /// Continues a hook's work in another place, such as another thread, at the same depth.
    pub fn resume<T>(&self, work: impl FnOnce() -> T) -> T {
        at(self.depth(), work)
    }
}

fn at<T>(depth: u8, work: impl FnOnce() -> T) -> T {
    struct Back(u8);
    impl Drop for Back {
        fn drop(&mut self) {
            DEPTH.set(self.0);
        }
    }
    let _back = Back(DEPTH.replace(depth));
    work()
}

impl Default for Nesting {
    fn default() -> Self {
        Self(DEPTH.get())
    }
}

impl Clone for Nesting {
    fn clone(&self) -> Self {
        Self(self.depth())
    }
}

/// The depth is no fact about the call: contexts that say the same are the same.
impl PartialEq for Nesting {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Nesting {}

impl fmt::Debug for Nesting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nesting({})", self.0)
    }
}
