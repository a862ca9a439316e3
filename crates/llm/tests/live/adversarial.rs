//! The corpus of adversarial answers, past a host that denies every call and takes the secret out of every text.

#[path = "../adversarial/corpus.rs"]
mod corpus;

use std::collections::BTreeMap;

use backstop_llm::live::{self, AnswerEditor, PartKey, TextEdit};
use backstop_llm::{Api, ProviderError, ProviderErrorKind, WireError};
use serde_json::Value;

use self::corpus::{Adverse, FILES, SECRET, Written, corpus, tells};
use super::support::{read_stream, request};

fn editor(answer: &Adverse) -> Box<dyn AnswerEditor> {
    match answer.form {
        Written::Events => live::stream_editor(answer.api, &request()),
        Written::Whole => live::whole_editor(answer.api, &request()),
        Written::Array => live::array_editor(&request()),
    }
}

/// A host that tells a client nothing of the secret, or one that lets everything pass.
struct Judge {
    editor: Box<dyn AnswerEditor>,
    denies: bool,
    decided: bool,
    /// The texts so far, and up to where they are settled.
    texts: BTreeMap<PartKey, (String, usize)>,
    sent: Vec<u8>,
}

impl Judge {
    fn new(editor: Box<dyn AnswerEditor>, denies: bool) -> Self {
        Self { editor, denies, decided: false, texts: BTreeMap::new(), sent: Vec::new() }
    }

    /// Passes an answer in pieces, to its end or to the first error.
    fn pass<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(), WireError> {
        for piece in pieces {
            self.editor.push(piece)?;
            self.round()?;
        }
        self.editor.finish()?;
        self.round()
    }

    fn round(&mut self) -> Result<(), WireError> {
        for fresh in self.editor.fresh() {
            let (text, settled) = self.texts.entry(fresh.part).or_default();
            text.push_str(&fresh.text);
            // What may still become the secret waits.
            let mut up_to = if fresh.last { text.len() } else { text.len().saturating_sub(SECRET.len()) };
            while !text.is_char_boundary(up_to) {
                up_to -= 1;
            }
            let from = *settled;
            let secrets = text.match_indices(SECRET).map(|(at, _)| at..at + SECRET.len());
            let secrets: Vec<_> = secrets.filter(|span| self.denies && span.start >= from).collect();
            let up_to = secrets.iter().map(|span| span.end).fold(up_to.max(from), usize::max);
            let edit = |span| TextEdit { span, replacement: "[gone]".into() };
            *settled = up_to;
            self.editor.settle(fresh.part, up_to, secrets.into_iter().map(edit).collect());
        }
        for result in self.editor.results() {
            let cleaned = result.value.to_string().replace(SECRET, "[gone]");
            let cleaned: Value = serde_json::from_str(&cleaned).unwrap();
            self.editor.settle_result(result.key, self.denies.then_some(&cleaned));
        }
        if self.editor.is_whole() && !self.decided {
            self.decided = true;
            let calls: Vec<usize> =
                self.editor.responses().iter().map(|said| said.message.tool_calls().count()).collect();
            let of = |(choice, count): (usize, &usize)| (0..*count).map(move |call| (choice, call));
            let all = calls.iter().enumerate().flat_map(of);
            // What can't be taken out ends the answer.
            let part = |(choice, call)| self.editor.call_part(u32::try_from(choice).unwrap(), call);
            let parts: Option<Vec<PartKey>> = all.map(part).collect();
            let parts = parts.ok_or(WireError::Truncated)?;
            let removed = if self.denies { parts } else { Vec::new() };
            self.editor.keep_calls(&removed, Some("A call was withheld."));
        }
        self.take();
        Ok(())
    }

    fn take(&mut self) {
        let taken = self.editor.take();
        self.sent.extend_from_slice(&taken);
    }

    /// Ends the answer with an error; answers what that adds.
    fn fail(&mut self) -> Vec<u8> {
        let error = ProviderError::new(ProviderErrorKind::Server, 502, None, "it makes no sense");
        let before = self.sent.len();
        self.editor.fail(&error);
        self.take();
        self.sent[before..].to_vec()
    }
}

/// Judges an answer in these pieces; answers whether it made sense, or what is wrong with what left.
fn check(answer: &Adverse, pieces: &[&[u8]]) -> Result<bool, String> {
    let mut judge = Judge::new(editor(answer), true);
    let made_sense = judge.pass(pieces.iter().copied()).is_ok();
    let end = if made_sense { Vec::new() } else { judge.fail() };
    let sent = String::from_utf8_lossy(&judge.sent);
    if tells(&judge.sent) {
        return Err(format!("{} in {} tells it: {sent}", answer.name, pieces.len()));
    }
    // Nothing can stand behind an array that the client has whole.
    let is_closed = answer.form == Written::Array && end.is_empty() && sent.trim_end().ends_with(']');
    // Nor behind the end of a stream that has left.
    let is_over = end.is_empty() && judge.editor.has_ended();
    if !made_sense && !is_closed && !is_over && !is_error(answer, &end) {
        return Err(format!("{} ends strangely: {}", answer.name, String::from_utf8_lossy(&end)));
    }
    Ok(made_sense)
}

fn fail_on(faults: &[String]) {
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// Whether `end` is an error in the shape of the wire.
fn is_error(answer: &Adverse, end: &[u8]) -> bool {
    let text = String::from_utf8_lossy(end);
    let body = match answer.form {
        Written::Whole => text.trim(),
        Written::Array => text.trim().trim_start_matches(['[', ',']).trim_end_matches(']').trim(),
        Written::Events => text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default(),
    };
    let Ok(body) = serde_json::from_str::<Value>(body) else { return false };
    let message = match answer.api {
        Api::OpenAiResponses if answer.form == Written::Events => &body["message"],
        Api::BedrockConverse => &body["message"],
        _ => &body["error"]["message"],
    };
    message.as_str().is_some_and(|message| message.contains("no sense"))
}

fn in_pieces(answer: &Adverse, size: usize) -> Result<bool, String> {
    check(answer, &answer.bytes.chunks(size).collect::<Vec<_>>())
}

/// The answers of a file, each in chunks down to a byte; the same becomes of it in each.
fn check_file(file: &str, at_least: usize) -> Vec<Adverse> {
    let answers = corpus(file);
    assert!(answers.len() >= at_least, "{file}: {}", answers.len());
    let mut faults = Vec::new();
    for answer in &answers {
        let whole = in_pieces(answer, usize::MAX);
        for size in [1, 2, 7, 64] {
            match in_pieces(answer, size) {
                Ok(made_sense) if whole != Ok(made_sense) => {
                    faults.push(format!("{} in {size}", answer.name));
                }
                Ok(_) => {}
                Err(fault) => faults.push(fault),
            }
        }
        faults.extend(whole.err());
    }
    fail_on(&faults);
    answers
}

/// In two pieces, cut at the bytes that `is_place` names.
fn check_cuts(answers: &[Adverse], is_place: impl Fn(&[u8], usize) -> bool) {
    let mut faults = Vec::new();
    for answer in answers {
        let cuts = (0..=answer.bytes.len()).filter(|cut| is_place(&answer.bytes, *cut));
        let checked = cuts
            .map(|cut| answer.bytes.split_at(cut))
            .find_map(|(head, tail)| check(answer, &[head, tail]).err());
        faults.extend(checked);
    }
    fail_on(&faults);
}

/// Whether a line ends at `cut`: what stands between is one string to who reads lines.
fn is_in_grammar(bytes: &[u8], cut: usize) -> bool {
    let around = bytes.get(cut.saturating_sub(1)..bytes.len().min(cut + 1)).unwrap_or_default();
    around.iter().any(|byte| *byte < b' ')
}

#[test]
fn broken_grammar_tells_nothing() {
    check_file("grammar", 300);
}

#[test]
fn broken_grammar_tells_nothing_at_any_cut() {
    check_cuts(&corpus("grammar"), is_in_grammar);
}

#[test]
fn strange_encodings_tell_nothing() {
    check_file("encodings", 200);
}

#[test]
fn other_framings_tell_nothing_at_any_cut() {
    let answers = check_file("framing", 150);
    // What comes in one piece is read when it is whole.
    let streams: Vec<Adverse> = answers.into_iter().filter(|answer| answer.form != Written::Whole).collect();
    check_cuts(&streams, |_, _| true);
}

#[test]
fn strange_types_tell_nothing() {
    check_file("types", 200);
}

#[test]
fn an_answer_that_breaks_off_tells_nothing() {
    let mut faults = Vec::new();
    for answer in check_file("truncation", 20).into_iter().filter(|answer| answer.truncated) {
        for end in 0..answer.bytes.len() {
            let broken = Adverse { bytes: answer.bytes[..end].to_vec(), ..answer.clone() };
            faults.extend(in_pieces(&broken, usize::MAX).err());
        }
    }
    fail_on(&faults);
}

/// Without a judge the answers that nothing is strange about tell everything, and leave as they came.
#[test]
fn the_corpus_tells_its_secret_to_those_who_do_not_judge() {
    let plain = [("grammar", "nothing strange"), ("grammar", "a secret in a text"), ("framing", "one piece")];
    for (file, name) in plain {
        let answers = corpus(file).into_iter().filter(|answer| answer.name.contains(&format!(": {name} (")));
        let answers: Vec<Adverse> = answers.collect();
        assert_eq!(answers.len(), Api::ALL.len(), "{name}");
        for answer in answers {
            assert_eq!(in_pieces(&answer, 7), Ok(true), "{}", answer.name);
            let mut judge = Judge::new(editor(&answer), false);
            judge.pass([answer.bytes.as_slice()]).unwrap();
            assert_eq!(judge.sent, answer.bytes, "{}", answer.name);
            assert!(tells(&judge.sent), "{}", answer.name);
        }
    }
    assert!(FILES.iter().all(|file| !corpus(file).is_empty()));
}

/// What follows the end of a stream is an error of which its client hears nothing, or one that it can read.
#[test]
fn behind_an_end_that_has_left_nothing_unreadable_follows() {
    for api in Api::ALL {
        let plain = corpus::plain(api, Written::Events);
        let mut judge = Judge::new(live::stream_editor(api, &request()), false);
        judge.pass([plain.as_slice()]).unwrap();
        judge.sent.extend_from_slice(&judge.editor.take());
        let read = read_stream(api, &judge.sent).unwrap();
        assert_eq!(read.message.tool_calls().count(), 1, "{api}");
        let has_ended = judge.editor.has_ended();
        assert_eq!(has_ended, !matches!(api, Api::Gemini | Api::BedrockConverse), "{api}");
        let error = ProviderError::new(ProviderErrorKind::Server, 502, None, "it goes on");
        judge.editor.fail(&error);
        let more = judge.editor.take();
        assert_eq!(more.is_empty(), has_ended, "{api}");
        judge.sent.extend_from_slice(&more);
        assert!(matches!(read_stream(api, &judge.sent), Ok(_) | Err(WireError::Provider(_))), "{api}");
    }
}
