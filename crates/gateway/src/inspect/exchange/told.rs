//! What is told of an answer: to those who watch, in a log, and to a client that gets none.

use backstop_engine::{BlockCause, Blocked};
use backstop_hooks::Text;
use backstop_hooks::conversation::Message;
use backstop_hooks::points::LlmOutputEvent;
use backstop_llm::live::AnswerEditor;
use backstop_llm::{ModelResponse, ProviderError, ProviderErrorKind, WireError};
use http::StatusCode;

use super::super::identity::Identity;
use super::super::judge::JudgeError;

/// Feeds a chunk of an answer that nobody judges to the decoder that reads it for hooks that watch. Returns whether the
/// answer is valid so far and stays within `limit` bytes.
pub(super) fn feed_watcher(editor: &mut dyn AnswerEditor, chunk: &[u8], limit: usize) -> bool {
    let read = editor.push(chunk).is_ok();
    // The text is read from the complete responses; taking it here keeps it from piling up.
    drop(editor.fresh());
    read && editor.held_bytes().saturating_add(editor.kept_bytes()) <= limit
}

pub(super) fn output(
    identity: &Identity,
    provider: &str,
    model: &str,
    response: &ModelResponse,
) -> LlmOutputEvent {
    let message: &Message = &response.message;
    let text = message.has_text().then(|| Text::from(message.visible_text()));
    LlmOutputEvent::new(
        identity.run.clone(),
        identity.session.clone(),
        provider.to_owned(),
        model.to_owned(),
        text.into_iter().collect(),
    )
    .last_assistant(message.clone())
    .usage(response.usage)
}

/// What is told of an answer whose oddity can't be told.
pub(super) const UNREADABLE: &str =
    "backstop: the provider's answer can't be used, and what is wrong with it may not be shown";

/// What a log says of an error of which this is `told`: nothing that the provider wrote, which may repeat what was held back.
pub(super) fn logged(error: &JudgeError, told: &ProviderError) -> String {
    match error {
        JudgeError::Wire(WireError::Provider(error)) => {
            format!("the provider reported an error of status {}", error.status)
        }
        _ => told.message.clone(),
    }
}

pub(in crate::inspect) fn provider_error(error: &JudgeError) -> ProviderError {
    match error {
        JudgeError::Wire(WireError::Provider(error)) => error.clone(),
        _ => ProviderError::new(
            ProviderErrorKind::Server,
            StatusCode::BAD_GATEWAY.as_u16(),
            None,
            &format!("backstop: the provider's answer can't be used: {error}"),
        ),
    }
}

/// What is told of an error that nobody can read.
pub(in crate::inspect) fn unread_error(status: StatusCode) -> ProviderError {
    let kind = match status.as_u16() {
        401 | 403 => ProviderErrorKind::Auth,
        429 => ProviderErrorKind::RateLimit,
        400..500 => ProviderErrorKind::InvalidRequest,
        _ => ProviderErrorKind::Server,
    };
    let told =
        "backstop: the provider answered with an error that can't be judged, so its words are left out";
    ProviderError::new(kind, status.as_u16(), None, told)
}

/// A hook wants of a document what it has no place for.
pub(super) fn unwritable() -> Blocked {
    let told = "a hook rewrote a document in a way that it can't be written";
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_repeats_nothing_that_a_provider_wrote() {
        let error = ProviderError::new(ProviderErrorKind::Server, 500, Some("said"), "said");
        let error = JudgeError::Wire(WireError::Provider(error));
        let logged = logged(&error, &provider_error(&error));
        assert!(logged.ends_with("status 500") && !logged.contains("said"), "{logged}");
    }
}
