//! Names that somebody else chose, where people, models and logs read them.
//!
//! A model names the tools that it calls and their arguments, a provider the types of its blocks: such a name may be a sentence, a
//! secret, or hide text from its reader. It is quoted in reasons and notices that leave although the call does not.
//!
//! The law: *blocked is gone*, so only a plain word is written as it is, and everything else as a stand-in that tells names apart and
//! says nothing. The shape of a plain word has little room for a token, and none for a mail address, the number of a card, or anything but
//! ASCII.
//!
//! Limits: a token of another kind whose random part happens to be a word is shown; a few plain words joined by `_` can be read as a sentence, and a digest of a guessed name is that of the name.

use std::fmt;

use crate::digest::Digest;

/// Longer names are no words. OpenAI and Gemini take no longer ones for functions (OpenAI API reference, `tools[].function.name`:
/// "a maximum length of 64"; Gemini API, `FunctionDeclaration.name`: "maximum length of 64").
const LONGEST: usize = 64;
/// Longer pieces between separators are no words: tokens that people can't read have longer ones, as a rule.
const LONGEST_PIECE: usize = 32;
/// A piece of letters and digits (`k8s`, `base64`, `context7`) is no longer, and there is one in a word at most.
const LONGEST_MIXED_PIECE: usize = 8;
/// A piece begins a word in its middle (`createIssueComment`) no more often.
const MOST_HUMPS: usize = 4;
/// A date has as many digits (`web_search_20250305`); what identifies people, cards and telephones has more.
const MOST_DIGITS: usize = 8;
/// More capitals in a row are no word.
const MOST_CAPITALS: usize = 12;
/// Capitals between small letters are a short name (`HTTP`) and the beginning of the next word.
const MOST_CAPITALS_BETWEEN: usize = 6;
/// What may stand in front with a colon, which elsewhere is how a password is written behind its name: the tools of servers in
/// Cursor, and where Gemini's models see functions.
const FRONTS: [&str; 2] = ["MCP:", "default_api:"];
/// How tokens begin of which so little is random that it may be letters alone, in which nobody tells a token from a word. Their sources are in
/// the catalogue of `backstop-scan`.
const TOKENS: [&str; 16] = [
    "flb_live_",
    "github_pat_",
    "glpat-",
    "rk_live_",
    "rk_prod_",
    "rk_test_",
    "rzp_live_",
    "sgp_",
    "sk_live_",
    "sk_prod_",
    "sk_test_",
    "sm_aat_",
    "sm_pat_",
    "sm_sat_",
    "tskey-",
    "unkey_",
];
/// How a stand-in begins.
const STAND_IN: &str = "unprintable-";

/// A name as it is shown: itself if it is a plain word, otherwise `unprintable-` and a digest of it.
///
/// ```
/// use backstop_hooks::ShownName;
/// assert_eq!(ShownName::new("mcp__shop__buy").to_string(), "mcp__shop__buy");
/// assert!(ShownName::new("say `this`").to_string().starts_with("unprintable-"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShownName<'a>(&'a str);

impl<'a> ShownName<'a> {
    /// A name, whoever chose it.
    pub fn new(name: &'a str) -> Self {
        Self(name)
    }

    /// Whether it is shown as it is.
    pub fn is_plain(self) -> bool {
        // All tools of a server.
        let name = self.0.strip_suffix('*').unwrap_or(self.0);
        let name = FRONTS.iter().find_map(|front| name.strip_prefix(front)).unwrap_or(name);
        let digits = name.bytes().filter(u8::is_ascii_digit).count();
        let pieces = || name.split(['_', '.', '-']);
        let is_number = |piece: &&str| !piece.is_empty() && piece.bytes().all(|byte| byte.is_ascii_digit());
        let has_digits = |piece: &&str| piece.bytes().any(|byte| byte.is_ascii_digit());
        self.0.len() <= LONGEST
            && digits <= MOST_DIGITS
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && !name.starts_with(STAND_IN)
            && !TOKENS.iter().any(|token| name.starts_with(token))
            && pieces().all(is_word)
            && pieces().filter(is_number).count() <= 1
            && pieces().filter(|piece| has_digits(piece) && !is_number(piece)).count() <= 1
    }
}

/// Whether a piece between separators may stand in a plain word.
fn is_word(piece: &str) -> bool {
    let has_digits = piece.bytes().any(|byte| byte.is_ascii_digit());
    let longest = if has_digits { LONGEST_MIXED_PIECE } else { LONGEST_PIECE };
    let mut capitals = piece.split(|letter: char| !letter.is_ascii_uppercase()).map(str::len);
    let humps = piece.as_bytes().windows(2).filter(|two| matches!(two, [b'a'..=b'z', b'A'..=b'Z']));
    let numbers = piece.split(|letter: char| !letter.is_ascii_digit()).filter(|run| !run.is_empty()).count();
    let is_small = piece.bytes().skip(1).all(|byte| !byte.is_ascii_uppercase());
    piece.len() <= longest
        && (numbers == 0 || numbers == 1 && is_small)
        && humps.count() <= MOST_HUMPS
        && piece.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && capitals.all(|run| run <= MOST_CAPITALS)
        && is_in_camel_case(piece)
}

/// Whether a piece in letters of both cases is written as words are that stand behind each other: one short name in capitals at most
/// (`getHTTPServer`), and no word of a single small letter. Letters by chance are not.
fn is_in_camel_case(piece: &str) -> bool {
    let is_capital = |letter: char| letter.is_ascii_uppercase();
    let is_small = |letter: char| letter.is_ascii_lowercase();
    if !(piece.contains(is_capital) && piece.contains(is_small)) {
        return true;
    }
    let mut capitals = piece.split(|letter| !is_capital(letter)).map(str::len).filter(|run| *run > 1);
    let mut words = piece.split(|letter| !is_small(letter)).map(str::len).filter(|run| *run > 0);
    capitals.next().is_none_or(|run| run <= MOST_CAPITALS_BETWEEN)
        && capitals.next().is_none()
        && words.all(|run| run > 1)
}

impl fmt::Display for ShownName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_plain() {
            f.write_str(self.0)
        } else {
            write!(f, "{STAND_IN}{}", Digest::of_text("name", self.0).short())
        }
    }
}

impl fmt::Debug for ShownName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_tools_are_plain_words() {
        let known = crate::tool_name::known_tools();
        let spelled = crate::tool_name::SPELLINGS.iter().flat_map(|(_, spellings)| spellings.iter().copied());
        let others = [
            "mcp__GitHub__createPullRequestReviewComment",
            "mcp__plugin_playwright_playwright__browser_take_screenshot",
            "mcp__shop__*",
            "web_search_20250305",
            "MCP:k8s_get.pods",
            "_private",
            "default_api:weather",
        ];
        for name in known.chain(spelled).chain(others) {
            assert_eq!(ShownName::new(name).to_string(), name);
        }
    }

    #[test]
    fn anything_else_has_a_stand_in() {
        let words = |word: &str, count| vec![word; count].join("_");
        for name in [
            "",
            "*",
            "a b",
            "a`b",
            "a\nb",
            "a@b.example",
            "a/b",
            "a:b",
            "caf\u{e9}",
            "a\u{200b}b",
            "10.0.0.1",
            "unprintable-0123456789ab",
            &["ghp", &"aB3d".repeat(9)].join("_"),
            &["AKIA", "QWERTYUIOPASDFGH"].concat(),
            &["card", "4111", "1111", "1111", "1111"].join("-"),
            &words("abcdefg", 9),
        ] {
            let shown = ShownName::new(name).to_string();
            assert!(shown.starts_with(STAND_IN) && shown.len() == STAND_IN.len() + 12, "{name} {shown}");
            assert_eq!(format!("{:?}", ShownName::new(name)), format!("\"{shown}\""));
        }
        assert_ne!(ShownName::new("a b").to_string(), ShownName::new("a c").to_string());
    }

    proptest! {
        /// Adding to a name never makes it plain, but for what a separator cuts.
        #[test]
        fn what_is_shown_is_a_word(name in "\\PC{0,80}", inner in "[ -~\u{80}-\u{ff}\u{200b}]{0,8}") {
            for name in [name.clone(), format!("tool_{inner}"), format!("{name}{inner}")] {
                let shown = ShownName::new(&name).to_string();
                let letters = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-*".contains(&byte);
                prop_assert!(shown.len() <= LONGEST && shown.bytes().all(letters));
                prop_assert!(shown == name || shown.starts_with(STAND_IN));
            }
        }
    }
}
