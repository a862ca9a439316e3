//! Which model stands behind a name.

use std::fmt;
use std::sync::Arc;

use backstop_llm::Model;

/// Finds the model that a turn is to ask.
pub trait Models: Send + Sync + fmt::Debug {
    /// The client that reaches `model` at `provider`.
    ///
    /// # Errors
    ///
    /// [`UnknownModel`] if there is none.
    fn resolve(&self, provider: &str, model: &str) -> Result<Arc<dyn Model>, UnknownModel>;
}

/// No model stands behind the name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no provider `{provider}` for the model `{model}`{}", hint(.known))]
pub struct UnknownModel {
    provider: String,
    model: String,
    known: Vec<String>,
}

impl UnknownModel {
    /// The pair that was asked for, and the providers that exist.
    pub fn new(provider: impl Into<String>, model: impl Into<String>, known: Vec<String>) -> Self {
        Self { provider: provider.into(), model: model.into(), known }
    }
}

fn hint(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("\nhint: known providers: {}", known.join(", ")) }
}

/// One client for every model, for programs with a single provider and for tests.
#[derive(Debug)]
pub struct OneModel(pub Arc<dyn Model>);

impl Models for OneModel {
    fn resolve(&self, provider: &str, model: &str) -> Result<Arc<dyn Model>, UnknownModel> {
        if provider == self.0.provider() {
            Ok(Arc::clone(&self.0))
        } else {
            Err(UnknownModel::new(provider, model, vec![self.0.provider().to_owned()]))
        }
    }
}
