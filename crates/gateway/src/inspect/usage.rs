//! What a document's answer says of its cost.
//!
//! Vectors, sounds and lists have no text to judge, and cost tokens all the same. Their bytes leave as they come; what is
//! read on the side is only the count of tokens, so that budgets are settled by it. An answer that says none, or is too long
//! to be kept for it, counts as what was asked.

use backstop_hooks::conversation::TokenUsage;
use serde::Deserialize;
use serde_json::Value;

/// Reads an answer that passes.
#[derive(Debug)]
pub(super) struct UsageReader {
    /// `None` once there is too much of it.
    body: Option<Vec<u8>>,
    limit: usize,
    asked: u64,
}

impl UsageReader {
    /// A reader that keeps `limit` bytes, of an answer to a request of about so many tokens.
    pub(super) fn new(limit: usize, asked: u64) -> Self {
        Self { body: Some(Vec::new()), limit, asked }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let fits = |body: &Vec<u8>| body.len().saturating_add(bytes.len()) <= self.limit;
        self.body = self.body.take().filter(fits);
        if let Some(body) = &mut self.body {
            body.extend_from_slice(bytes);
        }
    }

    /// The tokens of the whole answer.
    pub(super) fn usage(&self) -> TokenUsage {
        usage_of(self.body.as_deref().unwrap_or_default(), self.asked)
    }
}

/// The tokens that a document says it cost; as many as were `asked` if it says nothing.
pub(super) fn usage_of(body: &[u8], asked: u64) -> TokenUsage {
    #[derive(Deserialize)]
    struct Document {
        #[serde(alias = "usageMetadata")]
        usage: Option<Value>,
    }
    let told = serde_json::from_slice::<Document>(body).ok().and_then(|document| document.usage);
    let count = |names: &[&str]| {
        let told = told.as_ref()?;
        names.iter().find_map(|name| told.get(name)?.as_u64())
    };
    let input = count(&["prompt_tokens", "input_tokens", "promptTokenCount", "total_tokens"]);
    let output = count(&["completion_tokens", "output_tokens", "candidatesTokenCount"]);
    TokenUsage { input: input.unwrap_or(asked), output: output.unwrap_or_default(), ..TokenUsage::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_counts_as_it_says_or_as_it_was_asked() {
        for (body, input, output) in [
            (r#"{"object":"list","data":[],"usage":{"prompt_tokens":7,"total_tokens":7}}"#, 7, 0),
            (r#"{"usage":{"input_tokens":3,"output_tokens":900}}"#, 3, 900),
            (r#"{"embedding":{"values":[0.1]}}"#, 50, 0),
            ("RIFF", 50, 0),
        ] {
            let mut reader = UsageReader::new(1_000, 50);
            body.as_bytes().chunks(3).for_each(|piece| reader.push(piece));
            let used = reader.usage();
            assert_eq!((used.input, used.output), (input, output), "{body}");
        }
        let mut short = UsageReader::new(5, 50);
        short.push(br#"{"usage":{"input_tokens":3}}"#);
        assert_eq!(short.usage().input, 50);
    }
}
