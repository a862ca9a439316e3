//! Splits long programs into statements.
//!
//! A shell reads a statement, runs it and reads the next. Parsing a long program as a whole costs time for all of it, and
//! it has to be refused as soon as one part is too long. A long text is therefore split where a shell would stop reading,
//! and the statements are told apart: a statement that only prints literal words (`echo`, `printf`, `true`, `:`) costs no
//! more than its bytes.
//!
//! The law: *a split is made only where every shell would end a statement*. Where the characters alone don't show
//! that (`case`, here-documents inside parentheses, unterminated constructs), the rest of the text is one statement.

use super::word::HOLE;

/// A part of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement<'a> {
    /// A command that only says something, in words that stand for themselves.
    Idle(&'a str),
    /// Anything else.
    Code(&'a str),
}

/// Commands that change nothing and start nothing.
const IDLE: [&str; 4] = ["echo", "printf", "true", ":"];

/// Returns the statements of a program, without its comments.
pub(crate) fn cut(text: &str) -> Vec<Statement<'_>> {
    let bytes = text.as_bytes();
    let mut statements = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' => at += 1,
            b'#' => at = after(bytes, at, b'\n').unwrap_or(bytes.len()),
            _ => {
                let idle = idle_end(bytes, at);
                let end = idle.or_else(|| Reader::new(bytes, at).end()).unwrap_or(bytes.len());
                let statement = text.get(at..end).unwrap_or_default();
                statements.push(match idle {
                    Some(_) => Statement::Idle(statement.trim_end_matches([';', '\n', ' ', '\t'])),
                    None => Statement::Code(statement),
                });
                at = end.max(at + 1);
            }
        }
    }
    statements
}

/// Returns the words of an idle statement, as its command gets them.
pub(crate) fn idle_words(statement: &str) -> impl Iterator<Item = String> {
    let mut rest = statement.trim_start_matches([' ', '\t']);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut word = String::new();
        while let Some(at) = rest.find([' ', '\t', '\'', '"']) {
            let (plain, from) = rest.split_at_checked(at)?;
            word.push_str(plain);
            let Some(quote) = from.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
                rest = from.trim_start_matches([' ', '\t']);
                return Some(word);
            };
            let quoted = from.get(1..).unwrap_or_default();
            let (inner, behind) = quoted.split_once(quote).unwrap_or((quoted, ""));
            word.push_str(inner);
            rest = behind;
        }
        word.push_str(std::mem::take(&mut rest));
        Some(word)
    })
}

/// A statement with a mark in the place of each long text in it: of quotes in which nothing is expanded. `None`
/// where there is no such text, or its end can't be told.
pub(crate) fn abridged(code: &str) -> Option<String> {
    let bytes = code.as_bytes();
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    loop {
        at = behind_plain(bytes, at);
        let Some(byte) = bytes.get(at) else { break };
        let end = match byte {
            b'\'' => after(bytes, at + 1, b'\'')?,
            b'"' => part_end(bytes, at, 0)?,
            b'\\' => at + 2,
            _ => at + 1,
        };
        let inner = bytes.get(at + 1..end.saturating_sub(1)).unwrap_or_default();
        let is_dead = *byte == b'\'' || !inner.iter().any(|byte| matches!(byte, b'$' | b'`' | b'\\'));
        if inner.len() > LONG_TEXT && is_dead {
            out.push_str(code.get(copied..=at)?);
            out.push(HOLE);
            copied = end - 1;
        }
        at = end;
    }
    out.push_str(code.get(copied..)?);
    (copied > 0).then_some(out)
}

/// A statement without what means nothing in it: blanks beside blanks, lines that are drawn out by a backslash, and
/// quotes around nothing in a word. `None` where there is nothing of that, or where it can't be told.
pub(crate) fn squeezed(code: &str) -> Option<String> {
    let bytes = code.as_bytes();
    // Here-documents are taken as they stand.
    if code.contains("<<") {
        return None;
    }
    let mut out = String::new();
    // What was copied, and what stands in front of the place: a blank, and a place at which a word begins.
    let (mut at, mut copied) = (0, 0);
    let (mut blank, mut begins) = (false, true);
    while let Some(byte) = bytes.get(at) {
        let plain = behind_plain(bytes, at);
        if plain > at {
            (blank, begins) = (false, false);
            at = plain;
            continue;
        }
        let next = bytes.get(at + 1);
        let means_nothing = match byte {
            b'\\' if next == Some(&b'\n') => 2,
            b' ' | b'\t' if blank => 1,
            b'\'' | b'"' if !begins && next == Some(byte) => 2,
            _ => 0,
        };
        if means_nothing > 0 {
            out.push_str(code.get(copied..at)?);
            at += means_nothing;
            copied = at;
            continue;
        }
        at = if *byte == b'\\' { at + 2 } else { part_end(bytes, at, 0)? };
        blank = matches!(byte, b' ' | b'\t');
        let last = bytes.get(at - 1).unwrap_or(byte);
        begins = matches!(last, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>');
    }
    out.push_str(code.get(copied..)?);
    (out.len() < code.len()).then_some(out)
}

/// Returns the long here-documents of a long statement; none where its end can't be told.
fn documents(code: &str) -> Vec<(usize, usize, bool)> {
    if code.len() <= LONG || !code.contains("<<") {
        return Vec::new();
    }
    let mut reader = Reader::new(code.as_bytes(), 0);
    // Behind the first statement there may be others, whose documents stay where they are.
    let mut bodies = reader.end().map(|_| reader.bodies).unwrap_or_default();
    bodies.retain(|(begin, end, _)| end - begin > LONG_TEXT);
    bodies
}

/// Bytes of a statement without its long here-documents.
pub(crate) fn bytes_of_code(code: &str) -> usize {
    code.len() - documents(code).iter().map(|(begin, end, _)| end - begin).sum::<usize>()
}

/// A long statement without the texts of its long here-documents, for each of which `keep` gives what stands in its place.
/// `None` where there is none, or its end can't be told.
pub(crate) fn without_documents(code: &str, mut keep: impl FnMut(String) -> String) -> Option<String> {
    let mut out = String::new();
    let mut copied = 0;
    for (begin, end, tabs) in documents(code) {
        let body = code.get(begin..end)?;
        let text = match tabs {
            true => body.split_inclusive('\n').map(|line| line.trim_start_matches('\t')).collect(),
            false => body.to_owned(),
        };
        out.push_str(code.get(copied..begin)?);
        out.push_str(&keep(text));
        out.push('\n');
        copied = end;
    }
    out.push_str(code.get(copied..)?);
    (copied > 0).then_some(out)
}

/// Programs longer than this are cut into statements. Shorter ones are parsed whole.
pub(crate) const LONG: usize = 8 * 1024;
/// Texts longer than this are taken out of a statement that is too long.
const LONG_TEXT: usize = 1024;

/// Behind the next `byte` from `at` on.
fn after(bytes: &[u8], at: usize, byte: u8) -> Option<usize> {
    let rest = bytes.get(at..)?;
    rest.iter().position(|other| *other == byte).map(|found| at + found + 1)
}

/// Returns where the statement ends that begins at `start`, if it is idle.
fn idle_end(bytes: &[u8], start: usize) -> Option<usize> {
    let rest = bytes.get(start..)?;
    let name = IDLE.into_iter().find(|name| {
        rest.strip_prefix(name.as_bytes())
            .is_some_and(|rest| matches!(rest.first(), None | Some(b' ' | b'\t' | b'\n' | b';')))
    })?;
    let mut at = start + name.len();
    let mut before = b' ';
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\n' => return Some(at + 1),
            b';' if bytes.get(at + 1) == Some(&b';') => return None,
            b';' => return Some(at + 1),
            b'\'' => at = after(bytes, at + 1, b'\'')?,
            b'"' => {
                let end = after(bytes, at + 1, b'"')?;
                let inner = bytes.get(at..end)?;
                if inner.iter().any(|byte| matches!(byte, b'$' | b'`' | b'\\' | b'!')) {
                    return None;
                }
                at = end;
            }
            b'#' | b'=' | b'-' if matches!(before, b' ' | b'\t') => return None,
            b'$' | b'`' | b'\\' | b'<' | b'>' | b'|' | b'&' | b'(' | b')' | b'{' | b'}' | b'*' | b'?'
            | b'[' | b'~' | b'!' | b'^' | 0 | b'\r' => return None,
            _ => at += 1,
        }
        before = byte;
    }
    Some(at)
}

/// Finds the end of one statement.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Constructs that are open.
    depth: usize,
    /// The next word is a command.
    first: bool,
    /// An operator stands last, so that the statement goes on in the next line.
    goes_on: bool,
    /// The ends of here-documents whose text is still to come, and whether tabs may stand before them.
    documents: Vec<(Vec<u8>, bool)>,
    /// Where the texts of here-documents begin and end, and whether tabs in front of their lines count.
    bodies: Vec<(usize, usize, bool)>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, depth: 0, first: true, goes_on: false, documents: Vec::new(), bodies: Vec::new() }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Behind the end of the statement; `None` where it can't be told.
    fn end(&mut self) -> Option<usize> {
        while let Some(byte) = self.peek(0) {
            let is_end = match byte {
                b' ' | b'\t' => {
                    self.at += 1;
                    false
                }
                b'\n' => self.line_ends()?,
                b';' if self.peek(1) == Some(b';') => return None,
                b';' => {
                    self.at += 1;
                    self.operator(false);
                    self.depth == 0 && self.documents.is_empty()
                }
                b'&' => self.ampersand(),
                b'|' => {
                    self.at += if matches!(self.peek(1), Some(b'|' | b'&')) { 2 } else { 1 };
                    self.operator(true);
                    false
                }
                b'<' | b'>' => {
                    self.redirection()?;
                    false
                }
                b'(' => {
                    self.at = closed(self.bytes, self.at, 0)?;
                    self.operator(false);
                    false
                }
                b')' => return None,
                b'#' => {
                    self.at = after(self.bytes, self.at, b'\n').map_or(self.bytes.len(), |next| next - 1);
                    false
                }
                _ => {
                    self.word()?;
                    false
                }
            };
            if is_end {
                return Some(self.at);
            }
        }
        (self.depth == 0 && self.documents.is_empty()).then_some(self.at)
    }

    fn operator(&mut self, goes_on: bool) {
        self.first = true;
        self.goes_on = goes_on;
    }

    fn line_ends(&mut self) -> Option<bool> {
        self.at += 1;
        for (end, tabs) in std::mem::take(&mut self.documents) {
            let begin = self.at;
            loop {
                let next = after(self.bytes, self.at, b'\n');
                let line = self.bytes.get(self.at..next.map_or(self.bytes.len(), |next| next - 1))?;
                let indent = if tabs { line.iter().take_while(|byte| **byte == b'\t').count() } else { 0 };
                let is_end = line.get(indent..) == Some(&end);
                if is_end {
                    self.bodies.push((begin, self.at, tabs));
                }
                self.at = next.unwrap_or(self.bytes.len());
                if is_end {
                    break;
                }
                // A document that never ends is for the parser to judge.
                next?;
            }
        }
        self.first = true;
        Some(self.depth == 0 && !self.goes_on)
    }

    fn ampersand(&mut self) -> bool {
        match self.peek(1) {
            Some(b'&') => {
                self.at += 2;
                self.operator(true);
                false
            }
            Some(b'>') => {
                self.at += 1;
                false
            }
            _ => {
                self.at += 1;
                self.operator(false);
                self.depth == 0 && self.documents.is_empty()
            }
        }
    }

    fn redirection(&mut self) -> Option<()> {
        self.goes_on = false;
        let rest = self.bytes.get(self.at..)?;
        if rest.starts_with(b"<<<") {
            self.at += 3;
        } else if rest.starts_with(b"<<") {
            let tabs = self.peek(2) == Some(b'-');
            self.at += if tabs { 3 } else { 2 };
            while matches!(self.peek(0), Some(b' ' | b'\t')) {
                self.at += 1;
            }
            let start = self.at;
            self.word()?;
            let word = self.bytes.get(start..self.at)?;
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            let end: Vec<u8> = match word {
                [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner.to_vec(),
                plain => plain.to_vec(),
            };
            (!end.is_empty() && end.iter().all(is_plain)).then_some(())?;
            self.documents.push((end, tabs));
        } else if rest.starts_with(b"<(") || rest.starts_with(b">(") {
            self.at = closed(self.bytes, self.at + 1, 0)?;
        } else {
            self.at += if matches!(rest.get(1), Some(b'>' | b'&' | b'|')) { 2 } else { 1 };
        }
        Some(())
    }

    /// Reads one word, and what it opens or closes if it stands where a command does.
    fn word(&mut self) -> Option<()> {
        let start = self.at;
        loop {
            self.at = behind_plain(self.bytes, self.at);
            match self.peek(0) {
                None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')') => break,
                Some(_) => self.at = part_end(self.bytes, self.at, 0)?,
            }
        }
        self.goes_on = false;
        if !self.first {
            return Some(());
        }
        self.first = false;
        match self.bytes.get(start..self.at)? {
            b"if" | b"while" | b"until" | b"{" => {
                self.depth += 1;
                self.first = true;
            }
            b"for" | b"select" => self.depth += 1,
            b"fi" | b"done" | b"}" => self.depth = self.depth.checked_sub(1)?,
            b"then" | b"do" | b"else" | b"elif" | b"!" | b"time" => self.first = true,
            b"case" | b"function" | b"coproc" => return None,
            _ => {}
        }
        Some(())
    }
}

/// Behind the bytes from `at` on that stand for themselves wherever they are, which most bytes do.
fn behind_plain(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':' | b'=');
    at + rest.iter().position(|byte| !plain(byte)).unwrap_or(rest.len())
}

/// Behind the part of a word that begins at `at`, in so many substitutions: a character, or what is quoted or expanded.
fn part_end(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'\\' => Some((at + 2).min(bytes.len())),
        b'\'' => after(bytes, at + 1, b'\''),
        b'"' => {
            let mut at = at + 1;
            loop {
                match bytes.get(at)? {
                    b'"' => return Some(at + 1),
                    b'\'' => at += 1,
                    _ => at = part_end(bytes, at, depth)?,
                }
            }
        }
        b'`' => {
            let end = after(bytes, at + 1, b'`')?;
            // Quotes and escapes in there are read twice.
            let is_plain = !bytes.get(at..end)?.iter().any(|byte| matches!(byte, b'\\' | b'\'' | b'"'));
            is_plain.then_some(end)
        }
        b'$' => match bytes.get(at + 1) {
            Some(b'(') => closed(bytes, at + 1, depth + 1),
            Some(b'{') => {
                let end = after(bytes, at, b'}')?;
                let is_plain = |byte: &u8| !matches!(byte, b'\'' | b'"' | b'`' | b'\\' | b'$' | b'{');
                bytes.get(at + 2..end)?.iter().all(is_plain).then_some(end)
            }
            // In these a backslash escapes the quote.
            Some(b'\'') => {
                let end = after(bytes, at + 2, b'\'')?;
                (!bytes.get(at..end)?.contains(&b'\\')).then_some(end)
            }
            _ => Some(at + 1),
        },
        _ => Some(at + 1),
    }
}

/// Behind the parenthesis that closes the one at `at`, in so many substitutions.
fn closed(bytes: &[u8], at: usize, depth: usize) -> Option<usize> {
    let mut open = 1;
    let mut at = at + 1;
    while open > 0 {
        if open + depth > MOST_OPEN {
            return None;
        }
        match bytes.get(at)? {
            b'(' => {
                open += 1;
                at += 1;
            }
            b')' => {
                open -= 1;
                at += 1;
            }
            // What these mean depends on where they stand.
            b'<' if bytes.get(at + 1) == Some(&b'<') => return None,
            b'#' => return None,
            b'c' if bytes.get(at..)?.starts_with(b"case") => return None,
            _ => at = part_end(bytes, at, depth)?,
        }
    }
    Some(at)
}

/// Parentheses inside of one another that are followed.
const MOST_OPEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<&str> {
        cut(text)
            .into_iter()
            .map(|statement| match statement {
                Statement::Idle(_) => "idle",
                Statement::Code(code) => code.trim(),
            })
            .collect()
    }

    #[test]
    fn statements_end_where_a_shell_ends_them() {
        for (text, wanted) in [
            ("a; b\nc", &["a;", "b", "c"][..]),
            ("a && b\nc & d", &["a && b", "c &", "d"]),
            ("a &&\nb |\nc\nd", &["a &&\nb |\nc", "d"]),
            ("if a; then b; fi; c", &["if a; then b; fi;", "c"]),
            ("for x in a b\ndo c; done\nd", &["for x in a b\ndo c; done", "d"]),
            ("{ a; b; }; c", &["{ a; b; };", "c"]),
            ("f() { a; }\nf", &["f() { a; }", "f"]),
            ("(a; b); c", &["(a; b);", "c"]),
            ("x=$(a; b); c \"$(d; e)\"; f", &["x=$(a; b);", "c \"$(d; e)\";", "f"]),
            ("a 'x; y' \"z; w\" \\; b; c", &["a 'x; y' \"z; w\" \\; b;", "c"]),
            ("a > b 2>&1; c &> d; e", &["a > b 2>&1;", "c &> d;", "e"]),
            ("cat <<E > f; b\nx; y\nE\nc", &["cat <<E > f; b\nx; y\nE", "c"]),
            ("cat <<'E' <<-F\nx\nE\ny\n\tF\nc", &["cat <<'E' <<-F\nx\nE\ny\n\tF", "c"]),
            ("a ${x:-y}; b `c`; d", &["a ${x:-y};", "b `c`;", "d"]),
            ("a # b; c\nd", &["a # b; c", "d"]),
            ("# a\n  # b\nc", &["c"]),
            ("echo a 'b; c'; printf \"d\ne\"\ntrue\n: x;rm y", &["idle", "idle", "idle", "idle", "rm y"]),
        ] {
            assert_eq!(parts(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_can_t_be_told_is_not_cut() {
        for text in [
            "case a in b) c;; esac; d",
            "x=$(cat <<E\n)\nE\n); c",
            "a 'b; c",
            "a \"b; c",
            "if a; then b; c",
            "a <<E\nb; c",
            "echo `a 'b`'; c",
            "a $'b\\'; c'; d",
            "a ); b",
            "function f { a; }; b",
            "x ${a:-\"b;\"}; c",
        ] {
            assert_eq!(parts(text), [text], "{text}");
        }
    }

    #[test]
    fn what_opens_and_never_closes_is_not_followed_to_its_end() {
        // Deep enough to overflow the stack of a test, were each one followed before they are counted.
        for open in ["$(", "(", "\"$(", "<("] {
            let text = format!("echo {}; b", open.repeat(200_000));
            assert_eq!(parts(&text).len(), 1, "{open}");
        }
    }

    #[test]
    fn what_means_nothing_is_squeezed_out() {
        let squeezed = |code: &str| squeezed(code).unwrap_or_else(|| code.to_owned());
        for (code, wanted) in [
            ("ls    -l \t  a", "ls -l a"),
            ("l''''\"\"s '' ''''", "ls '' ''"),
            ("ls \\\n\\\n  a \\  b", "ls a \\  b"),
            ("echo 'a  \\\n b' \"c  ''\" $(d  e)", "echo 'a  \\\n b' \"c  ''\" $(d  e)"),
            ("cat <<E\na  b\nE\n", "cat <<E\na  b\nE\n"),
            ("echo \"''\"''  é''x", "echo \"''\" éx"),
            ("ls \\é''  é", "ls \\é é"),
        ] {
            assert_eq!(squeezed(code), wanted);
        }
    }

    #[test]
    fn long_texts_are_taken_out_where_nothing_in_them_is_expanded() {
        let long = "some; text ".repeat(200);
        let shown = |code: &str| abridged(code).map(|code| code.replace(HOLE, "…"));
        assert_eq!(
            shown(&format!("A='{long}' b \"{long}\" 'c'; d")).as_deref(),
            Some("A='…' b \"…\" 'c'; d")
        );
        for code in [format!("a \"$x{long}\""), "a 'b'".to_owned(), format!("a '{long}")] {
            assert_eq!(shown(&code), None, "{code}");
        }
    }

    #[test]
    fn long_documents_are_taken_out_as_they_are() {
        let long = "some; $text\n".repeat(800);
        let mut kept = Vec::new();
        let code = format!("{{ cat <<'E' <<-F | sh\n{long}E\n\t{long}\tF\n}}\ncat <<E\nshort\nE\n");
        let short = without_documents(&code, |text| {
            kept.push(text);
            kept.len().to_string()
        });
        assert_eq!(short.as_deref(), Some("{ cat <<'E' <<-F | sh\n1\nE\n2\n\tF\n}\ncat <<E\nshort\nE\n"));
        assert_eq!(kept, [long.clone(), long]);
        assert_eq!(without_documents("cat <<E\nshort\nE\n", |text| text), None);
    }

    #[test]
    fn only_words_that_stand_for_themselves_are_idle() {
        for text in [
            "echo $x",
            "echo `x`",
            "echo \"$x\"",
            "echo a > b",
            "echo a | b",
            "echo a && b",
            "echo *",
            "echo ~",
            "echo {a,b}",
            "printf -v x y",
            "echo =ls",
            "echo a &",
            "echoes a",
            "echo a\\\nb",
            "echo() { a; }",
        ] {
            assert!(matches!(cut(text).as_slice(), [Statement::Code(_)]), "{text}");
        }
        let words: Vec<String> = idle_words(" echo a 'b  c'\"d\" ''  é ''").collect();
        assert_eq!(words, ["echo", "a", "b  cd", "", "é", ""]);
    }
}
