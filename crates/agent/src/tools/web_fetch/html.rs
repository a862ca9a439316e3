//! The readable text of an HTML page.
//!
//! Not a browser: tags are dropped, scripts and styles with their contents, block elements become lines, entities
//! characters. It runs once over the text and never fails; of markup that is not closed the rest is dropped, as
//! browsers do.

/// Elements whose contents are not text.
const OPAQUE: [&str; 6] = ["script", "style", "template", "noscript", "svg", "iframe"];

/// Elements before and after which a line ends.
const BLOCKS: [&str; 34] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
    "ul",
    "option",
];

const ENTITIES: [(&str, char); 18] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("laquo", '«'),
    ("raquo", '»'),
    ("copy", '©'),
    ("times", '×'),
    ("bull", '•'),
];

const MAX_ENTITY_BYTES: usize = 10;

/// What a reader of `html` would see.
pub(super) fn to_text(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    while let Some((text, markup)) = rest.split_once('<') {
        page.text(text);
        if let Some(comment) = markup.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(first) = markup.chars().next() else {
            rest = "";
            page.text("<");
            continue;
        };
        if !(first.is_ascii_alphabetic() || matches!(first, '/' | '!' | '?')) {
            page.text("<");
            rest = markup;
            continue;
        }
        let (tag, after) = split_tag(markup);
        let closing = tag.starts_with('/');
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .take(16)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        rest = match OPAQUE.contains(&name.as_str()) && !closing && !tag.ends_with('/') {
            true => skip_to_end_of(&name, after),
            false => after,
        };
        page.tag(&name, closing);
    }
    page.text(rest);
    page.finish()
}

/// The tag up to its `>`, which may stand in quotes, and what follows.
fn split_tag(markup: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, c) in markup.char_indices() {
        match (quote, c) {
            (None, '>') => {
                let (tag, after) = markup.split_at(at);
                return (tag, after.strip_prefix('>').unwrap_or_default());
            }
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    (markup, "")
}

fn skip_to_end_of<'a>(name: &str, text: &'a str) -> &'a str {
    for (at, _) in text.match_indices("</") {
        let end = text.get(at..).unwrap_or_default();
        let found = end.get(2..2 + name.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(name));
        if found {
            return end;
        }
    }
    ""
}

#[derive(Default)]
struct Page {
    out: String,
    /// A space or line break that is due before the next word.
    gap: Gap,
    preformatted: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Gap {
    #[default]
    None,
    Space,
    Line,
    Paragraph,
}

impl Page {
    fn tag(&mut self, name: &str, closing: bool) {
        match name {
            "pre" if closing => self.preformatted = self.preformatted.saturating_sub(1),
            "pre" => self.preformatted += 1,
            _ => {}
        }
        let gap = match name {
            "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "pre" | "ul" | "ol" | "table" | "title" => {
                Gap::Paragraph
            }
            "td" | "th" => Gap::Space,
            name if BLOCKS.contains(&name) => Gap::Line,
            _ => return,
        };
        self.gap = self.gap.max(gap);
        if name == "li" && !closing {
            self.close_gap();
            self.out.push_str("- ");
        }
    }

    fn text(&mut self, text: &str) {
        let text = decode_entities(text);
        for c in text.chars() {
            if self.preformatted > 0 && !c.is_control()
                || matches!((self.preformatted, c), (1.., '\n' | '\t'))
            {
                self.close_gap();
                self.out.push(c);
            } else if c.is_whitespace() {
                self.gap = self.gap.max(Gap::Space);
            } else if !c.is_control() {
                self.close_gap();
                self.out.push(c);
            }
        }
    }

    fn close_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        if self.out.is_empty() {
            return;
        }
        match gap {
            Gap::None => {}
            Gap::Space if self.out.ends_with([' ', '\n']) => {}
            Gap::Space => self.out.push(' '),
            Gap::Line => self.out.push('\n'),
            Gap::Paragraph => self.out.push_str("\n\n"),
        }
    }

    fn finish(self) -> String {
        self.out.trim_end().to_owned()
    }
}

fn decode_entities(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, entity)) = rest.split_once('&') {
        decoded.push_str(before);
        match entity_at(entity) {
            Some((c, after)) => {
                decoded.push(c);
                rest = after;
            }
            None => {
                decoded.push('&');
                rest = entity;
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

fn entity_at(text: &str) -> Option<(char, &str)> {
    let end = text.bytes().take(MAX_ENTITY_BYTES).position(|byte| byte == b';')?;
    let (name, after) = (text.get(..end)?, text.get(end + 1..)?);
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let c = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(hex) => number(hex, 16)?,
            None => number(digits, 10)?,
        },
        None => ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c)?,
    };
    Some((c, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_becomes_its_text() {
        let html = "<!DOCTYPE html><html><head><title>The page</title><style>p { color: red }</style></head>\
            <body><h1>Head&shy; &amp; <em>shoulders</em></h1><p>One\n  two<br>three &#8212; &#x41;</p>\
            <ul><li>first</li><li>second</li></ul><script>if (a < b) { alert('</p>') }</script>\
            <!-- <p>hidden</p> --><pre>a\n  b</pre>1 < 2 && x</body></html>";
        assert_eq!(
            to_text(html),
            "The page\n\nHead&shy; & shoulders\n\nOne two\nthree — A\n\n- first\n- second\n\na\n  b\n\n1 < 2 && x"
        );
    }

    #[test]
    fn quoted_angle_brackets_do_not_end_a_tag() {
        assert_eq!(to_text("<a title=\"a > b\">link</a>"), "link");
    }

    #[test]
    fn unclosed_markup_hides_the_rest() {
        assert_eq!(to_text("shown<script>hidden"), "shown");
        assert_eq!(to_text("shown<!-- hidden"), "shown");
        assert_eq!(to_text("shown<a href='hidden"), "shown");
    }

    #[test]
    fn many_unclosed_quotes_take_no_more_than_linear_time() {
        let html = "<a \">".repeat(400_001);
        let started = std::time::Instant::now();
        to_text(&html);
        assert!(started.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn never_panics_and_never_shows_a_script(before in "[ a-z<>&;/!'\"-]{0,40}", junk in any::<String>()) {
            to_text(&junk);
            to_text(&before);
            prop_assert!(!to_text("<script>SECRET</script>").contains("SECRET"));
        }
    }
}
