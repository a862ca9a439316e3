//! Streamed answers.

mod decoder;
mod encoder;
mod event;
mod item;

pub(crate) use decoder::StreamDecoder;
pub(crate) use encoder::StreamEncoder;
pub(crate) use event::{Change, Piece, Place};
