//! Rewrites syntax that the parser does not know into syntax that it knows.
//!
//! The law: *the meaning of a text stays the same*. Nine constructs are rewritten wherever a shell would read them
//! as code. In quotes, comments and here-documents only substituted commands are rewritten:
//!
//! - patterns of `case` inside parentheses get the opening parenthesis, because the parser looks for the closing one
//!   without knowing about `case`;
//! - `select x in ...` becomes the loop that it is, over words of which the user chooses one;
//! - `${:-word}`, which names no parameter, gets the name of one that is not set;
//! - `coproc { ...; }` gets its default name, which the parser would otherwise look for in what follows;
//! - a named descriptor, `{name}<`, becomes a number of its own (see [`Names`]), because the parser would read it as a
//!   word;
//! - `<(...)` joined to a word, which the parser reads as another word, becomes a command substitution that says what it
//!   is;
//! - so does `=(...)`, the file with a command's output, which one shell knows;
//! - and `${ ...; }` and `${| ...; }`, whose commands the shell runs itself (ksh, mksh, bash from 5.3 on);
//! - `${x~~}`, which the parser does not know, is written with the operator for upper case, and a mark.

use std::borrow::Cow;

/// In front of the text of a substitution that was written `<(...)`.
pub(crate) const READS: char = '\u{F8E5}';
/// The same for `>(...)`.
pub(crate) const WRITES: char = '\u{F8E6}';

/// In front of the pattern of `${x^^pattern}` that was written `${x~~pattern}`.
pub(crate) const TOGGLES: char = '\u{F8E8}';
/// In front of commands that were written `${ ...; }`.
pub(crate) const HERE: char = '\u{F8E9}';
/// In front of commands that were written `${| ...; }`: what they leave in `REPLY` is the value.
pub(crate) const REPLIES: char = '\u{F8EA}';

/// The first word of a list of which somebody chooses: that of nothing.
pub(crate) const NONE_CHOSEN: &str = "''";

/// A parameter that is never set, for `${:-word}`, which one shell knows.
const NO_PARAMETER: &str = "99999";

/// The number of the first descriptor with a name; no system opens as many.
const FIRST: i32 = 1_900_000_000;

/// The names that descriptors were given, each with a number by which the parser knows it.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        let known = self.0.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    /// Returns the name of a descriptor, if it has one.
    pub(crate) fn of(&self, number: i32) -> Option<&str> {
        let at = usize::try_from(number.checked_sub(FIRST)?).ok()?;
        self.0.get(at).map(String::as_str)
    }
}

/// Returns the text as the parser can read it.
pub(crate) fn parsable<'t>(text: &'t str, names: &mut Names) -> Cow<'t, str> {
    if !has_any(text) {
        return Cow::Borrowed(text);
    }
    let mut scanner = Scanner {
        rest: text,
        out: String::with_capacity(text.len() + 16),
        names,
        documents: Vec::new(),
        choosing: false,
        depth: 0,
    };
    scanner.code(None);
    Cow::Owned(scanner.out)
}

/// Returns whether there may be something to spell differently.
fn has_any(text: &str) -> bool {
    let glued =
        |pair: &[u8]| matches!(pair, [before, b'<' | b'>', b'('] if !is_boundary(char::from(*before)));
    text.contains("coproc")
        || text.contains("select ")
        || ["${:", "${ ", "${\t", "${\n", "${|", "=("].iter().any(|sign| text.contains(sign))
        || text.contains('~') && text.contains("${")
        || text.contains("}<")
        || text.contains("}>")
        || text.contains("esac") && text.contains('(')
        || text.contains("<(") && text.as_bytes().windows(3).any(glued)
        || text.contains(">(") && text.as_bytes().windows(3).any(glued)
}

/// Returns whether words end at this character.
fn is_boundary(c: char) -> bool {
    c.is_whitespace() || ";&|()<>".contains(c)
}

/// A here-document whose text begins on the next line.
struct Document {
    end: String,
    /// Its text is taken as it stands.
    literal: bool,
    /// Tabs in front of its end do not count.
    indented: bool,
}

/// How far a `case` was read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Word,
    Body,
}

struct Scanner<'t, 'n> {
    rest: &'t str,
    out: String,
    names: &'n mut Names,
    documents: Vec<Document>,
    /// The list of a `select` comes next.
    choosing: bool,
    /// Parentheses around what is read.
    depth: usize,
}

impl Scanner<'_, '_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    /// Leaves out some bytes.
    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Copies some bytes.
    fn copy(&mut self, bytes: usize) {
        let (head, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.out.push_str(head);
        self.rest = rest;
    }

    /// Copies a character, if there is one.
    fn copy_char(&mut self) {
        self.copy(self.peek().map_or(0, char::len_utf8));
    }

    fn copy_while(&mut self, is: impl Fn(char) -> bool) {
        let end = self.rest.find(|c| !is(c)).unwrap_or(self.rest.len());
        self.copy(end);
    }

    /// Returns whether a word begins here.
    fn begins_word(&self) -> bool {
        self.out.chars().next_back().is_none_or(is_boundary)
    }

    /// Returns whether the next character is a word by itself.
    fn stands_alone(&self) -> bool {
        self.begins_word() && self.rest.chars().nth(1).is_none_or(is_boundary)
    }

    /// Copies code up to the parenthesis or the brace that closes it, or to the end; says whether a brace did.
    fn code(&mut self, end: Option<char>) -> bool {
        let mut cases: Vec<Case> = Vec::new();
        // Whether a reserved word may stand here.
        let mut first = true;
        let mut groups = 0usize;
        while let Some(c) = self.peek() {
            match c {
                '}' if first && end == Some('}') && groups == 0 => {
                    self.skip(1);
                    return true;
                }
                '{' | '}' if first && self.stands_alone() => {
                    groups = if c == '{' { groups + 1 } else { groups.saturating_sub(1) };
                    first = self.word(first, &mut cases);
                }
                '=' if self.rest.starts_with("=(") && self.begins_word() => {
                    self.substituted(2, READS);
                    first = false;
                }
                '#' if self.begins_word() => self.copy_while(|c| c != '\n'),
                '\n' => {
                    self.copy(1);
                    self.read_documents();
                    first = true;
                }
                ';' if cases.last() == Some(&Case::Body)
                    && matches!(self.rest.get(..2), Some(";;" | ";&")) =>
                {
                    self.copy(if self.rest.starts_with(";;&") { 3 } else { 2 });
                    first = self.pattern(&mut cases);
                }
                ';' | '&' | '|' => {
                    self.copy(1);
                    first = true;
                }
                '(' => {
                    self.parentheses();
                    first = true;
                }
                ')' => {
                    self.copy(1);
                    if self.depth > 0 {
                        return false;
                    }
                    first = true;
                }
                '<' | '>' => self.redirection(),
                c if c.is_whitespace() => self.copy_char(),
                c if "\\'\"`$".contains(c) => {
                    self.quoting();
                    first = false;
                }
                _ => first = self.word(first, &mut cases),
            }
        }
        false
    }

    fn parentheses(&mut self) {
        if self.rest.starts_with("((") {
            return self.balanced();
        }
        self.copy(1);
        self.inside();
    }

    /// Copies what stands in parentheses, and the one that closes them.
    fn inside(&mut self) {
        self.depth += 1;
        self.code(Some(')'));
        self.depth -= 1;
    }

    /// Something with parentheses as the command substitution that says what it was.
    fn substituted(&mut self, opening: usize, mark: char) {
        self.skip(opening);
        self.out.push_str("$(");
        self.out.push(mark);
        self.inside();
    }

    /// The same for what ends with a brace.
    fn run_here(&mut self, opening: usize, mark: char) {
        self.skip(opening);
        self.out.push_str("$(");
        self.out.push(mark);
        self.out.push(' ');
        let outer = std::mem::take(&mut self.depth);
        if self.code(Some('}')) {
            self.out.push(')');
        }
        self.depth = outer;
    }

    /// `${x~~}` up to what is behind the signs, if it is that.
    fn toggled(&mut self) {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let bare = self.rest.strip_prefix('!').unwrap_or(self.rest);
        let behind = match bare.strip_prefix(['@', '*']) {
            Some(behind) => behind,
            None => bare.trim_start_matches(name),
        };
        let behind = match behind.strip_prefix('[').and_then(|index| index.split_once(']')) {
            Some((_, behind)) => behind,
            None => behind,
        };
        let Some(pattern) = behind.strip_prefix('~').filter(|_| behind.len() < bare.len()) else { return };
        self.copy(self.rest.len() - behind.len());
        let pattern = match pattern.strip_prefix('~') {
            Some(pattern) => {
                self.out.push_str("^^");
                pattern
            }
            None => {
                self.out.push('^');
                pattern
            }
        };
        self.out.push(TOGGLES);
        self.rest = pattern;
    }

    /// Copies arithmetic, in which `<<` is no document.
    fn balanced(&mut self) {
        let mut open = 0usize;
        while let Some(c) = self.peek() {
            match c {
                '$' if self.rest.starts_with("$(") && !self.rest.starts_with("$((") => {
                    self.quoting();
                    continue;
                }
                '(' => open += 1,
                ')' => open -= 1,
                _ => {}
            }
            self.copy_char();
            if open == 0 && c == ')' {
                return;
            }
        }
    }

    /// A word, or the part of one that is not quoted; the answer is whether a reserved word may follow.
    fn word(&mut self, first: bool, cases: &mut Vec<Case>) -> bool {
        let begins = self.begins_word();
        let ends = |c: char| is_boundary(c) || "\\'\"`$".contains(c);
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, behind) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        let whole = begins && behind.chars().next().is_none_or(is_boundary);
        if whole && behind.starts_with(['<', '>']) && !matches!(behind.get(1..2), Some("(")) && is_named(word)
        {
            let name = word.trim_matches(['{', '}']);
            let number = i64::from(FIRST) + i64::try_from(self.names.number(name)).unwrap_or(0);
            self.skip(end);
            self.out.push_str(&number.to_string());
            return first;
        }
        if whole && first && word == "select" {
            self.skip(end);
            self.out.push_str("for");
            self.choosing = true;
            return false;
        }
        self.copy(end);
        if !whole {
            return false;
        }
        match word {
            "case" if first => {
                cases.push(Case::Word);
                false
            }
            "in" if cases.last() == Some(&Case::Word) => self.pattern(cases),
            "in" if self.choosing => {
                // Whoever is asked may choose none of them.
                self.choosing = false;
                self.out.push(' ');
                self.out.push_str(NONE_CHOSEN);
                false
            }
            "esac" if first => {
                cases.pop();
                false
            }
            "coproc" if first => {
                if self.rest.trim_start_matches([' ', '\t']).starts_with('{') {
                    self.out.push_str(" COPROC");
                }
                true
            }
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "{" | "}" | "!" | "time" | "fi"
            | "done" => first || word == "do",
            _ => false,
        }
    }

    /// The pattern that begins a branch of a `case`, or the end of it; the answer is whether a reserved word may follow.
    fn pattern(&mut self, cases: &mut Vec<Case>) -> bool {
        loop {
            self.copy_while(char::is_whitespace);
            if self.peek() != Some('#') {
                break;
            }
            self.copy_while(|c| c != '\n');
        }
        let ended =
            self.rest.strip_prefix("esac").is_some_and(|rest| rest.chars().next().is_none_or(is_boundary));
        if ended || self.rest.is_empty() {
            self.copy(4.min(self.rest.len()));
            cases.pop();
            return false;
        }
        if self.rest.starts_with('(') {
            self.copy(1);
        } else if self.depth > 0 {
            self.out.push('(');
        }
        let mut open = 0usize;
        while let Some(c) = self.peek() {
            match c {
                ')' if open == 0 => {
                    self.copy(1);
                    break;
                }
                '(' => open += 1,
                ')' => open -= 1,
                c if "\\'\"`$".contains(c) => {
                    self.quoting();
                    continue;
                }
                _ => {}
            }
            self.copy_char();
        }
        if let Some(case) = cases.last_mut() {
            *case = Case::Body;
        }
        true
    }

    /// Quotes and expansions, outside of double quotes.
    fn quoting(&mut self) {
        match self.peek() {
            Some('\\') => {
                self.copy(1);
                self.copy_char();
            }
            Some('\'') => self.literal(),
            Some('"') => {
                self.copy(1);
                self.text(true);
            }
            Some('$') if self.rest.starts_with("$'") => {
                self.copy(2);
                self.escaped('\'');
            }
            Some('`') => {
                self.copy(1);
                self.escaped('`');
            }
            _ => self.expansion(),
        }
    }

    /// `'...'`
    fn literal(&mut self) {
        self.copy(1);
        self.copy_while(|c| c != '\'');
        self.copy_char();
    }

    /// Copies up to a character that has no backslash in front.
    fn escaped(&mut self, end: char) {
        while let Some(c) = self.peek() {
            self.copy_char();
            if c == '\\' {
                self.copy_char();
            } else if c == end {
                return;
            }
        }
    }

    /// `$(...)`, `$((...))`, `${...}`, or the dollar.
    fn expansion(&mut self) {
        if self.rest.starts_with("$((") {
            self.copy(1);
            self.balanced();
        } else if self.rest.starts_with("$(") {
            self.copy(2);
            self.inside();
        } else if self.rest.starts_with("${|") {
            self.run_here(3, REPLIES);
        } else if self.rest.starts_with("${")
            && matches!(self.rest.as_bytes().get(2), Some(b' ' | b'\t' | b'\n'))
        {
            self.run_here(2, HERE);
        } else if self.rest.starts_with("${") {
            self.copy(2);
            self.toggled();
            if self.rest.starts_with(':') {
                self.out.push_str(NO_PARAMETER);
            }
            while let Some(c) = self.peek() {
                match c {
                    '}' => return self.copy(1),
                    c if "\\\"`$".contains(c) => self.quoting(),
                    _ => self.copy_char(),
                }
            }
        } else {
            self.copy_char();
        }
    }

    /// Text in which commands are substituted: up to a double quote, or to the end.
    fn text(&mut self, quoted: bool) {
        while let Some(c) = self.peek() {
            match c {
                '"' if quoted => return self.copy(1),
                '\\' | '`' => self.quoting(),
                '$' => self.expansion(),
                _ => self.copy_char(),
            }
        }
    }

    fn redirection(&mut self) {
        let glued = !self.begins_word();
        match self.rest.get(..2) {
            Some(kind @ ("<(" | ">(")) if glued => {
                self.substituted(2, if kind == "<(" { READS } else { WRITES });
            }
            Some("<(" | ">(") => {
                self.copy(2);
                self.inside();
            }
            Some("<<") if self.rest.starts_with("<<<") => self.copy(3),
            Some("<<") => self.announced(),
            _ => self.copy(1),
        }
    }

    /// `<<END`: its text follows on the next line.
    fn announced(&mut self) {
        let indented = self.rest.starts_with("<<-");
        self.copy(if indented { 3 } else { 2 });
        self.copy_while(|c| matches!(c, ' ' | '\t'));
        let begin = self.out.len();
        while let Some(c) = self.peek().filter(|c| !is_boundary(*c)) {
            match c {
                '\\' | '\'' | '"' => self.quoting(),
                _ => self.copy_char(),
            }
        }
        let written = self.out.get(begin..).unwrap_or_default();
        let end: String = written.chars().filter(|c| !"\\'\"".contains(*c)).collect();
        let literal = end.len() != written.len();
        self.documents.push(Document { end, literal, indented });
    }

    fn read_documents(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut end = 0;
            let mut found = self.rest.len();
            for line in self.rest.split_inclusive('\n') {
                let bare = line.strip_suffix('\n').unwrap_or(line);
                if (if document.indented { bare.trim_start_matches('\t') } else { bare }) == document.end {
                    found = end;
                    break;
                }
                end += line.len();
            }
            if document.literal {
                self.copy(found);
            } else {
                let (body, behind) = self.rest.split_at_checked(found).unwrap_or((self.rest, ""));
                self.rest = body;
                self.text(false);
                self.rest = behind;
            }
            self.copy(self.rest.find('\n').map_or(self.rest.len(), |at| at + 1));
        }
    }
}

/// `{name}`
fn is_named(word: &str) -> bool {
    word.strip_prefix('{').and_then(|word| word.strip_suffix('}')).is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respelled(text: &str) -> String {
        parsable(text, &mut Names::default()).into_owned()
    }

    #[test]
    fn patterns_inside_parentheses_are_opened() {
        for (text, wanted) in [
            ("echo $(case x in x) ls;; esac)", "echo $(case x in (x) ls;; esac)"),
            ("echo \"$(case x in (x) ls;; *)\n: ;; esac)\"", "echo \"$(case x in (x) ls;; (*)\n: ;; esac)\""),
            ("cat <<E\n$(case x in a|b) ls;& esac)\nE\n", "cat <<E\n$(case x in (a|b) ls;& esac)\nE\n"),
            ("cat <<'E'\n$(case x in a) ls;; esac)\nE\n", "cat <<'E'\n$(case x in a) ls;; esac)\nE\n"),
            ("case x in x) (ls) ;; esac", "case x in x) (ls) ;; esac"),
            ("(echo esac; case y in esac)", "(echo esac; case y in esac)"),
        ] {
            assert_eq!(respelled(text), wanted);
        }
    }

    #[test]
    fn coprocesses_and_descriptors_get_what_the_parser_needs() {
        assert_eq!(respelled("coproc { (ls); }"), "coproc COPROC { (ls); }");
        assert_eq!(respelled("coproc cat; echo coproc {"), "coproc cat; echo coproc {");
        let mut names = Names::default();
        let text = "exec {log}>f {in}< g; echo '{log}>' \"{log}>\" x{log}>f {log} >f {log}<(ls)";
        let first = format!(
            "exec {FIRST}>f {}< g; echo '{{log}}>' \"{{log}}>\" x{{log}}>f {{log}} >f {{log}}",
            FIRST + 1
        );
        assert_eq!(parsable(text, &mut names), format!("{first}$({READS}ls)"));
        assert_eq!(names.of(FIRST), Some("log"));
        assert_eq!(names.of(3), None);
    }

    #[test]
    fn processes_glued_to_a_word_are_substituted() {
        assert_eq!(respelled("A=<(ls) x -d@<(cat a)b"), format!("A=$({READS}ls) x -d@$({READS}cat a)b"));
        assert_eq!(respelled("x --log=>(cat)"), format!("x --log=$({WRITES}cat)"));
        assert_eq!(respelled("diff <(ls) <(ls b) > >(cat)"), "diff <(ls) <(ls b) > >(cat)");
    }

    #[test]
    fn what_one_shell_knows_is_written_as_what_the_parser_knows() {
        for (text, wanted) in [
            ("x ${ ls; }/y", format!("x $({HERE}  ls; )/y")),
            ("\"${| { a; }; REPLY=b; }\"", format!("\"$({REPLIES}  {{ a; }}; REPLY=b; )\"")),
            ("cat <<E\n${ ls\n}\nE\n", format!("cat <<E\n$({HERE}  ls\n)\nE\n")),
            ("sh =(ls) -=(x) a=(b)", format!("sh $({READS}ls) -=(x) a=(b)")),
            (
                "${x~~} \"${!y~[a-c]}\" ${@~} '${x~}' ${x%~}",
                format!("${{x^^{TOGGLES}}} \"${{!y^{TOGGLES}[a-c]}}\" ${{@^{TOGGLES}}} '${{x~}}' ${{x%~}}"),
            ),
        ] {
            assert_eq!(respelled(text), wanted);
        }
        // What is not closed stays open.
        assert!(!respelled("x ${ ls").contains(')'));
    }

    #[test]
    fn all_other_text_stays() {
        for text in [
            "for ((i=0; i<<2; i++)); do coproc_x=1; done",
            "cat <<-\"A B\" <<C\n\tcoproc { \n\tA B\n$((1<<2))\nC\necho coproc",
            "x=${y:-$(echo ')')} # coproc {",
            "echo `echo \\`coproc {\\`` $'it\\'s coproc { '",
            "f() { coproc_; }; a=(b c) ; echo \\( coproc",
        ] {
            assert_eq!(respelled(text), text);
        }
    }
}
