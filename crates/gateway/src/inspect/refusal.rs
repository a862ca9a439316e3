//! Requests that are refused whatever they say.

use async_trait::async_trait;
use bytes::Bytes;

use crate::exchange::{Answered, Body, Exchange, Outgoing, Reply, Requested, Step, Watch};

/// A request that is refused whatever it says.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) Reply);

#[async_trait]
impl Exchange for Refusal {
    async fn request(&mut self, _: &Body<'_>) -> Requested {
        Requested::Reply(self.0.clone())
    }

    fn response(&mut self, _: &Answered<'_>) -> Watch {
        Watch::Opaque
    }

    fn chunk(&mut self, _: Bytes, _: &mut Outgoing) -> Step {
        Step::End
    }

    fn finish(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }

    async fn decide(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }
}
