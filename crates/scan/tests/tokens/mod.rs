//! Text cut the way the tokens of a language model cut it, near enough: a word with the blank before it, up to three
//! digits, a run of punctuation, white space. Long words come in pieces.

/// What one piece is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letters,
    Digits,
    Space,
    Marks,
}

fn kind(c: char) -> Kind {
    match c {
        _ if c.is_alphabetic() => Kind::Letters,
        _ if c.is_numeric() => Kind::Digits,
        _ if c.is_whitespace() => Kind::Space,
        _ => Kind::Marks,
    }
}

/// The pieces of `text`, which put together are `text`.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut pieces: Vec<String> = Vec::new();
    let mut last: Option<(Kind, usize)> = None;
    for c in text.chars() {
        let now = kind(c);
        let goes_on = match last {
            Some((Kind::Letters, len)) => now == Kind::Letters && len < 8,
            Some((Kind::Digits, len)) => now == Kind::Digits && len < 3,
            Some((Kind::Marks, len)) => now == Kind::Marks && len < 4,
            Some((Kind::Space, 1)) if pieces.last().is_some_and(|piece| piece == " ") => true,
            Some((Kind::Space, _)) => now == Kind::Space,
            None => false,
        };
        match pieces.last_mut().filter(|_| goes_on) {
            Some(piece) => piece.push(c),
            None => pieces.push(c.to_string()),
        }
        last = Some((now, if goes_on { last.map_or(0, |(_, len)| len) + 1 } else { 1 }));
    }
    pieces
}
