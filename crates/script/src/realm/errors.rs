//! What a script threw, as an error of ours.

use rquickjs::{CaughtError, Ctx, Object, Value};

use super::Clock;
use crate::error::{Ended, Place, ScriptError, bounded};
use crate::limits::Limits;

const MOST_MESSAGE: usize = 2 << 10;
const MOST_STACK: usize = 4 << 10;
/// What the engine says where something is called that is no function, whatever its name is.
pub(super) const NO_FUNCTION: &str = "TypeError: not a function";

/// An error, and what it means for the realm.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ScriptError,
    /// The clock ended it.
    pub(crate) interrupted: bool,
    /// The heap is, or may be, full.
    pub(crate) out_of_memory: bool,
    /// Where it was, if the stack says.
    pub(crate) at: Option<Box<Place>>,
}

impl Failure {
    pub(crate) fn plain(error: ScriptError) -> Self {
        Self { error, interrupted: false, out_of_memory: false, at: None }
    }

    /// The error, where `budget` was the time that it had.
    pub(crate) fn said(self, budget: std::time::Duration) -> ScriptError {
        if self.interrupted {
            ScriptError::TimedOut { budget, at: self.at.map(|at| *at) }
        } else {
            self.error
        }
    }

    /// The error, where it was a load that failed.
    pub(crate) fn of_load(self, limits: &Limits) -> ScriptError {
        if self.out_of_memory {
            let why = Ended::OutOfMemory { most: limits.memory, at: self.at.map(|at| *at) };
            return ScriptError::Ended { why, again_in: std::time::Duration::ZERO };
        }
        self.said(limits.load)
    }

    /// The clock ended it. The worker, which knows the budget, says the error.
    pub(crate) fn interrupted(at: Option<Place>) -> Self {
        let error = ScriptError::TimedOut { budget: std::time::Duration::ZERO, at: None };
        Self { interrupted: true, at: at.map(Box::new), ..Self::plain(error) }
    }
}

/// Takes the exception that `error` stands for out of the context.
pub(crate) fn failure(ctx: &Ctx<'_>, clock: &Clock, error: rquickjs::Error) -> Failure {
    let caught = CaughtError::from_error(ctx, error);
    if clock.has_tripped() {
        // What was interrupted can't be caught, so this is the error that the engine made for it, with its stack.
        let stack = match &caught {
            CaughtError::Exception(exception) => field(exception.as_object(), "stack"),
            CaughtError::Error(_) | CaughtError::Value(_) => None,
        };
        return Failure::interrupted(stack.and_then(|stack| stack.lines().find_map(place_in)));
    }
    match caught {
        CaughtError::Error(rquickjs::Error::Allocation) => {
            Failure { out_of_memory: true, ..Failure::plain(thrown("out of memory".to_owned())) }
        }
        CaughtError::Error(error) => Failure::plain(thrown(bounded(&error.to_string(), MOST_MESSAGE))),
        CaughtError::Exception(exception) => {
            let failure = from_object(exception.as_object());
            // What an error says of itself may be a getter, which is held to the clock as well.
            if clock.has_tripped() { Failure { interrupted: true, ..failure } } else { failure }
        }
        CaughtError::Value(value) => from_value(&value),
    }
}

fn thrown(message: String) -> ScriptError {
    ScriptError::Thrown { message, place: None, code: None, stack: String::new() }
}

fn from_value(value: &Value<'_>) -> Failure {
    let text = if let Some(text) = value.as_string().and_then(|text| text.to_string().ok()) {
        format!("threw the text {text:?}")
    } else if value.is_null() {
        // A runtime that has no room for an error object throws `null`. What a script throws itself is hardly ever
        // that, and if it is, it is the end of a runtime that is made anew.
        return Failure { out_of_memory: true, ..Failure::plain(thrown("threw null".to_owned())) };
    } else {
        format!("threw a value that is no error ({})", value.type_name())
    };
    Failure::plain(thrown(bounded(&text, MOST_MESSAGE)))
}

/// Reads a field that is a text. Getters of a script may run here, so the clock has to be on.
fn field(object: &Object<'_>, name: &str) -> Option<String> {
    let Ok(value) = object.get::<_, Value<'_>>(name) else {
        // The getter threw, or the time is up: that is no second error.
        let _ = object.ctx().catch();
        return None;
    };
    value.as_string().and_then(|text| text.to_string().ok())
}

fn from_object(object: &Object<'_>) -> Failure {
    let name = field(object, "name").unwrap_or_else(|| "Error".to_owned());
    let text = field(object, "message").unwrap_or_default();
    let stack = field(object, "stack").unwrap_or_default();
    let code = field(object, "code");
    let place = stack.lines().find_map(place_in);
    let out_of_memory = text == "out of memory";
    let message = if text.is_empty() { name } else { format!("{name}: {text}") };
    Failure {
        error: ScriptError::Thrown {
            message: bounded(&message, MOST_MESSAGE),
            place: place.clone(),
            code: code.map(|code| bounded(&code, 64)),
            stack: bounded(stack.trim_end(), MOST_STACK),
        },
        interrupted: false,
        out_of_memory,
        at: place.map(Box::new),
    }
}

/// The place in a line of a stack (`    at name (file:line:column)`), if it is in a file of the script.
pub(crate) fn place_in(line: &str) -> Option<Place> {
    let line = line.trim().strip_prefix("at ")?;
    let inside = match line.rfind('(') {
        Some(open) => line.get(open + 1..)?.strip_suffix(')')?,
        None => line,
    };
    let (rest, column) = inside.rsplit_once(':')?;
    let (file, row) = rest.rsplit_once(':')?;
    if file.starts_with("backstop:") || file.starts_with("node:") {
        return None;
    }
    Some(Place { file: file.to_owned(), line: row.parse().ok()?, column: column.parse().ok()? })
}
