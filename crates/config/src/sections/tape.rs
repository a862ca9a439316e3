//! `tape`: a recording of the tool calls that were judged, which only the holder of a key can read. Only the operator can set it: a
//! repository that could would have the calls of others recorded for itself.

use crate::config_value::section;
use crate::place::{Setting, Spanned};
use crate::sections::{Days, Most};
use crate::text::Text;

section! {
    /// A recording of the tool calls that were judged, with their secrets masked, for `backstop replay` and `backstop suggest`. Without a `recipient`, nothing is
    /// recorded.
    pub struct Tape {
        /// Who can read it: the public key that `backstop tape keygen` prints, which begins with `age1`.
        recipient ("recipient"): Option<Spanned<Text>>, OperatorOnly;
        /// The folder of the recording, which must end in `backstop/tape`. Without it, the one of that name in the user's data folder.
        path ("path"): Option<Spanned<Text>>, OperatorOnly;
        /// How long a recording is kept, in days.
        days ("days"): Setting<Days> = Days::clamped(30), OperatorOnly;
        /// How many bytes of recordings are kept; the oldest go first.
        bytes ("max_bytes"): Setting<Most> = Most::clamped(1_073_741_824), OperatorOnly;
    }
}
