//! Errors as Node's modules have them: a message, and the fields that programs look at.

use rquickjs::{Ctx, Exception, Object, object::Property};

use crate::bridge::HostError;

/// Why a host function refused or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// `error.code`.
    pub(crate) code: String,
    /// `error.message`.
    pub(crate) message: String,
    /// `error.errno`, a negative number, where the system has one.
    pub(crate) errno: Option<i32>,
    /// `syscall`, `path`, `dest`, `permission`, ...
    pub(crate) fields: Vec<(&'static str, String)>,
}

impl Fault {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), errno: None, fields: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Throws it. No setter or constructor of the script sees it on the way.
    pub(crate) fn throw(&self, ctx: &Ctx<'_>) -> rquickjs::Error {
        match self.error(ctx) {
            Ok(error) => ctx.throw(error.into_value()),
            Err(error) => error,
        }
    }

    fn error<'js>(&self, ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
        let error = Exception::from_message(ctx.clone(), &self.message)?.into_object();
        if let Some(errno) = self.errno {
            error.prop("errno", Property::from(errno).writable().configurable().enumerable())?;
        }
        error.prop("code", Property::from(self.code.as_str()).writable().configurable().enumerable())?;
        for (name, value) in &self.fields {
            error.prop(*name, Property::from(value.as_str()).writable().configurable().enumerable())?;
        }
        Ok(error)
    }
}

impl From<Fault> for HostError {
    fn from(fault: Fault) -> Self {
        let properties = fault.fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { code: fault.code, message: fault.message, properties }
    }
}

impl From<HostError> for Fault {
    /// Without further properties, whose names are no constants.
    fn from(error: HostError) -> Self {
        Self::new(&error.code, error.message)
    }
}
