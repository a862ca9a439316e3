//! The word that something ends now: everything, because the gateway stops, or what one token has opened.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

use crate::access::TokenLife;
use crate::auth::AuthError;
use crate::error::Failure;

/// Why something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The gateway stops.
    Stopping,
    /// The token that opened it has ended.
    Token,
}

impl Ended {
    /// What the client is told.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Stopping => Failure::Stopping,
            Self::Token => Failure::Refused(AuthError::Ended),
        }
    }
}

/// Hears the word.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    stopping: watch::Receiver<bool>,
    token: Option<TokenLife>,
}

impl Ending {
    /// The word that was not said yet, and what says it.
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (word, heard) = watch::channel(false);
        (word, Self { stopping: heard, token: None })
    }

    /// The same for what a token has opened, which ends with the token, too.
    pub(crate) fn with(&self, token: Option<&TokenLife>) -> Self {
        Self { token: token.cloned(), ..self.clone() }
    }

    /// Waits for the word, and returns why it was said; for good, if nobody is left to say it.
    pub(crate) async fn heard(mut self) -> Ended {
        let token = async {
            match self.token {
                Some(token) => token.over().await,
                None => pending().await,
            }
        };
        let stopping = async {
            if self.stopping.wait_for(|is_said| *is_said).await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = stopping => Ended::Stopping,
            () = token => Ended::Token,
        }
    }

    /// For bodies, which are polled.
    pub(crate) fn watch(&self) -> EndWatch {
        EndWatch::Waiting(Box::pin(self.clone().heard()))
    }
}

/// Waits for the word.
pub(crate) enum EndWatch {
    /// Until it is said.
    Waiting(Pin<Box<dyn Future<Output = Ended> + Send>>),
    /// Once it was.
    Over(Ended),
}

impl EndWatch {
    /// Why the word was said, if it was. If not, the task is woken when it is.
    pub(crate) fn over(&mut self, cx: &mut Context<'_>) -> Option<Ended> {
        match self {
            Self::Over(ended) => Some(*ended),
            Self::Waiting(waiting) => match waiting.as_mut().poll(cx) {
                Poll::Ready(ended) => {
                    *self = Self::Over(ended);
                    Some(ended)
                }
                Poll::Pending => None,
            },
        }
    }
}

impl fmt::Debug for EndWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(_) => f.write_str("Waiting"),
            Self::Over(ended) => f.debug_tuple("Over").field(ended).finish(),
        }
    }
}
