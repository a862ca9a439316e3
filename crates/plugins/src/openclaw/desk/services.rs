//! What a plugin's `api` needs of its host beyond being asked.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use backstop_hooks::{OwnerId, SessionKey};
use serde_json::Value;

use crate::openclaw::EventSession;

/// Values of session extensions, by namespace.
pub type Extensions = BTreeMap<String, Value>;

/// What a plugin's requests need of its host.
#[async_trait]
pub trait Services: Send + Sync + 'static {
    /// Queues a text for the next turn of a conversation that the plugin was asked about.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn inject(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        injection: Value,
    ) -> Result<Value, ServiceError>;

    /// Why texts of this plugin for the next turn are not taken, if they are not. It is said when the plugin is loaded.
    fn no_injections(&self, owner: &OwnerId) -> Option<String> {
        let _ = owner;
        None
    }

    /// The values of the plugin's session extensions in a conversation, by namespace.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn extensions(&self, owner: &OwnerId, session: &SessionKey) -> Result<Extensions, ServiceError>;

    /// Changes the value of a session extension of a conversation that the plugin was asked about.
    ///
    /// # Errors
    ///
    /// [`ServiceError`].
    async fn patch(
        &self,
        owner: &OwnerId,
        session: &EventSession,
        patch: Value,
    ) -> Result<Value, ServiceError>;

    /// Refuses every later [`Self::inject`] and [`Self::patch`] of this plugin. Returns once those that were under way have ended, so that
    /// what it kept can be deleted for good.
    async fn close(&self, owner: &OwnerId) {
        let _ = owner;
    }

    /// A text that a command of the plugin prints.
    fn print(&self, owner: &OwnerId, text: Printed<'_>);
}

/// A text that a command prints for whoever started it. Its `Debug` shows its size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Printed<'a>(pub &'a str);

impl fmt::Debug for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Printed({} bytes)", self.0.len())
    }
}

/// Why a service was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ServiceError(pub String);

/// A host that does nothing for plugins beyond asking their hooks.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

#[async_trait]
impl Services for NoServices {
    async fn inject(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Err(ServiceError("this host keeps no injections for the next turn".to_owned()))
    }

    async fn extensions(&self, _: &OwnerId, _: &SessionKey) -> Result<Extensions, ServiceError> {
        Err(ServiceError("this host keeps no session extensions".to_owned()))
    }

    async fn patch(&self, _: &OwnerId, _: &EventSession, _: Value) -> Result<Value, ServiceError> {
        Err(ServiceError("this host keeps no session extensions".to_owned()))
    }

    fn print(&self, _: &OwnerId, _: Printed<'_>) {}
}
