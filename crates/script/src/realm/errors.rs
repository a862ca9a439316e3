//! What a script threw, as an error of ours.

use rquickjs::{CaughtError, Ctx, Object, Value};

use super::Clock;
use crate::error::{Place, ScriptError, bounded};

const MOST_MESSAGE: usize = 2 << 10;
const MOST_STACK: usize = 4 << 10;

/// An error, and what it means for the realm.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: ScriptError,
    /// The clock ended it.
    pub(crate) interrupted: bool,
    /// The heap is, or may be, full.
    pub(crate) out_of_memory: bool,
}

impl Failure {
    pub(crate) fn plain(error: ScriptError) -> Self {
        Self { error, interrupted: false, out_of_memory: false }
    }

    /// The error, where `budget` was the time that it had.
    pub(crate) fn said(self, budget: std::time::Duration) -> ScriptError {
        if self.interrupted { ScriptError::TimedOut { budget } } else { self.error }
    }

    /// The clock ended it. The worker, which knows the budget, says the error.
    pub(crate) fn interrupted() -> Self {
        Self {
            error: ScriptError::TimedOut { budget: std::time::Duration::ZERO },
            interrupted: true,
            out_of_memory: false,
        }
    }
}

/// Takes the exception that `error` stands for out of the context.
pub(crate) fn failure(ctx: &Ctx<'_>, clock: &Clock, error: rquickjs::Error) -> Failure {
    let caught = CaughtError::from_error(ctx, error);
    if clock.has_tripped() {
        return Failure::interrupted();
    }
    match caught {
        CaughtError::Error(rquickjs::Error::Allocation) => {
            Failure { out_of_memory: true, ..Failure::plain(thrown("out of memory".to_owned())) }
        }
        CaughtError::Error(error) => Failure::plain(thrown(bounded(&error.to_string(), MOST_MESSAGE))),
        CaughtError::Exception(exception) => {
            let failure = from_object(exception.as_object());
            // What an error says of itself may be a getter, which is held to the clock as well.
            if clock.has_tripped() { Failure::interrupted() } else { failure }
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
            place,
            code: code.map(|code| bounded(&code, 64)),
            stack: bounded(stack.trim_end(), MOST_STACK),
        },
        interrupted: false,
        out_of_memory,
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
