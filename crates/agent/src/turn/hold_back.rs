//! The hold-back window: the last piece of a growing text stays back.
//!
//! A streamed answer is shown while it grows, but never up to its end: the last `window` bytes wait for
//! what comes next. Whatever judges spans of text can then still change a span that has only begun. The
//! law: *what has been released depends on the text so far alone*, not on how it was cut into pieces, and
//! no character is ever split.

/// A text that grows at one end and is released at the other.
#[derive(Clone, PartialEq, Eq)]
pub struct HoldBack {
    window: usize,
    held: String,
}

impl std::fmt::Debug for HoldBack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HoldBack")
            .field("window", &self.window)
            .field("held_bytes", &self.held.len())
            .finish()
    }
}

impl HoldBack {
    /// A window of that many bytes. With 0, everything is released at once.
    pub fn new(window: usize) -> Self {
        Self { window, held: String::new() }
    }

    /// Takes more text, and gives what is released by it: all but the last `window` bytes, and a little
    /// less where that would split a character.
    #[must_use]
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        let end = self.held.floor_char_boundary(self.held.len().saturating_sub(self.window));
        let kept = self.held.split_off(end);
        std::mem::replace(&mut self.held, kept)
    }

    /// Gives the rest: the text is whole.
    #[must_use]
    pub fn finish(self) -> String {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_released_depends_on_the_text_alone(
            pieces in proptest::collection::vec("[aé漢🙂 ]{0,6}", 0..12),
            window in 0_usize..12,
        ) {
            let text = pieces.concat();
            let mut in_pieces = HoldBack::new(window);
            let mut released = String::new();
            let mut so_far = String::new();
            for piece in &pieces {
                released.push_str(&in_pieces.push(piece));
                so_far.push_str(piece);
                prop_assert_eq!(&released, &HoldBack::new(window).push(&so_far));
                prop_assert!(so_far.len() - released.len() >= window.min(so_far.len()));
                prop_assert!(so_far.len() - released.len() < window + 4);
            }
            released.push_str(&in_pieces.finish());
            prop_assert_eq!(released, text);
        }
    }

    #[test]
    fn debug_never_prints_what_is_held() {
        let mut held = HoldBack::new(100);
        assert_eq!(held.push("top secret"), "");
        assert!(!format!("{held:?}").contains("secret"));
    }
}
