//! Derived forms of a value, each computed once. A hook that needs an event in a form of its own (encoded, for an external
//! program) keeps that form with the value, and later hooks that are asked about the same value reuse it.
//!
//! The law: a form belongs to one value and one context. The code that asks hooks creates an empty [`Forms`] for each
//! version of a value and drops it with that version, so that nothing of a replaced value remains.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The forms of one value.
#[derive(Default)]
pub struct Forms(Mutex<Vec<Arc<dyn Any + Send + Sync>>>);

impl Forms {
    /// Returns the form of the type `T`, made now if it is not there yet.
    pub fn form<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = forms.iter().find_map(|form| Arc::clone(form).downcast::<T>().ok());
        found.unwrap_or_else(|| {
            let made = Arc::<T>::default();
            let form: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(&made);
            forms.push(form);
            made
        })
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Forms({})", forms.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    #[test]
    fn a_form_of_a_type_is_made_once() {
        let forms = Forms::default();
        let first = forms.form::<OnceLock<u8>>();
        first.set(7).unwrap();
        assert_eq!(forms.form::<OnceLock<u8>>().get(), Some(&7));
        assert_eq!(forms.form::<OnceLock<u16>>().get(), None);
        assert_eq!(format!("{forms:?}"), "Forms(2)");
    }
}
