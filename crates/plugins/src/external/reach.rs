//! A judge that does not lie where the judged work.
//!
//! A program is chosen once, by one process; the sessions that it judges work in many folders. The law: *the judge is out of reach*. Where
//! a session works in the folder that holds the program, its agent can write it, so that the program is not asked about that session: the
//! hook has failed, and at a gate that blocks.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_hooks::{HookError, JsonFuture, JsonHook, PointId};
use serde_json::Value;

use super::session_folder;

/// Says why a program may not judge who works in a folder.
pub type Reach = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

/// A hook that is asked only about sessions in whose folder it does not lie.
pub struct OutOfReach {
    hook: Arc<dyn JsonHook>,
    beside: Arc<Reach>,
}

impl OutOfReach {
    /// `beside` is asked before each event that names a folder.
    pub fn new(hook: Arc<dyn JsonHook>, beside: Arc<Reach>) -> Self {
        Self { hook, beside }
    }
}

impl fmt::Debug for OutOfReach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutOfReach").finish_non_exhaustive()
    }
}

impl JsonHook for OutOfReach {
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a> {
        Box::pin(async move {
            if let Some(folder) = session_folder(&event).map(PathBuf::from) {
                let beside = Arc::clone(&self.beside);
                let looked = tokio::task::spawn_blocking(move || beside(&folder)).await;
                looked
                    .map_err(HookError::failed)?
                    .map_err(|why| HookError::Unreachable(format!("it is not asked: {why}")))?;
            }
            self.hook.call(point, event).await
        })
    }
}
