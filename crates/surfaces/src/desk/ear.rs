//! What a surface hands over that hears people over a connection of its own.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Desk, hearing};
use crate::counts::Came;
use crate::surface::{Heard, Surface, SurfaceName};

/// Where a surface says what people did ([`Surface::listen`]). It is decided as what is posted: apart from whoever says it, and so many at once.
#[derive(Clone, Debug)]
pub struct Ear {
    desk: Arc<Desk>,
    surface: Arc<dyn Surface>,
    /// Says that it is over, by being closed.
    stopped: watch::Receiver<()>,
}

impl Ear {
    pub(super) fn new(desk: Arc<Desk>, surface: Arc<dyn Surface>, stopped: watch::Receiver<()>) -> Self {
        Self { desk, surface, stopped }
    }

    /// Returns the name of the surface.
    pub fn name(&self) -> &SurfaceName {
        self.surface.name()
    }

    /// Has something decided that a person did, and the person told what came of it. Returns whether it will be: it is not where too much is
    /// under way.
    pub fn hear(&self, heard: Heard) -> bool {
        hearing::later(&self.desk, &self.surface, vec![heard])
    }

    /// Counts something that came.
    pub fn came(&self, came: Came) {
        self.desk.holder.count(|counts| counts.came(self.name(), came));
    }

    /// Counts a connection as long as what is returned is kept.
    pub fn stands(&self) -> Stands {
        self.desk.holder.count(|counts| counts.connected(self.name(), true));
        Stands(self.clone())
    }

    /// Waits until nothing is heard any more.
    pub async fn stopped(&mut self) {
        while self.stopped.changed().await.is_ok() {}
    }
}

/// A connection that stands.
#[derive(Debug)]
pub struct Stands(Ear);

impl Drop for Stands {
    fn drop(&mut self) {
        let Self(ear) = self;
        ear.desk.holder.count(|counts| counts.connected(ear.name(), false));
    }
}
