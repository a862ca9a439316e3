//! A: around model calls. From the message that starts a turn to the answer that leaves it.

mod answer;
mod call;
mod prompt;
mod run;
mod turn;

pub use answer::*;
pub use call::*;
pub use prompt::*;
pub use run::*;
pub use turn::*;

fn take<T: Clone + PartialEq>(current: &mut T, next: &Option<T>) -> bool {
    match next {
        Some(next) if next != current => {
            *current = next.clone();
            true
        }
        _ => false,
    }
}

fn take_some<T: Clone + PartialEq>(current: &mut Option<T>, next: &Option<T>) -> bool {
    match next {
        Some(_) if next != current => {
            current.clone_from(next);
            true
        }
        _ => false,
    }
}
