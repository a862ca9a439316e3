//! `backstop scan`.

use backstop::guards::scan::Class;

use crate::commands::scan::{Form, Settings};
use crate::error::Error;

/// Finds secrets, personal data and hidden text in what stdin holds, without saying what they are worth.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "One answer per text: {\"spans\": [{\"class\": \"secret|pii|hidden\", \"kind\": ..., \"start\": 0, \"end\": 0, \"confidence\": 0.9}]}. Offsets are bytes of the text as UTF-8; the value itself is never printed."
)]
pub(super) struct ScanArgs {
    /// Scan lines of {"text": ...} from stdin, one line out per line in, in order
    #[arg(long)]
    jsonl: bool,
    /// Print the text with what was found taken out; per line {"text": ...} with `--jsonl`
    #[arg(long)]
    redact: bool,
    /// Look for this class only; may be given more than once
    #[arg(long, value_name = "CLASS")]
    class: Vec<ClassName>,
    /// Leave out what is less sure, from 0 to 1; below 0.5 a value only has the shape of its kind [default: 0, with `--redact` 0.5]
    #[arg(long, value_name = "SHARE")]
    min_confidence: Option<f32>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ClassName {
    Secret,
    Pii,
    Hidden,
}

impl From<ClassName> for Class {
    fn from(name: ClassName) -> Self {
        match name {
            ClassName::Secret => Self::Secret,
            ClassName::Pii => Self::Pii,
            ClassName::Hidden => Self::Hidden,
        }
    }
}

impl ScanArgs {
    pub(super) fn lower(self) -> Result<Settings, Error> {
        if self.min_confidence.is_some_and(|least| !(0.0..=1.0).contains(&least)) {
            return Err(Error::Usage("`--min-confidence` is a number from 0 to 1".to_owned()));
        }
        let all = [Class::Secret, Class::Pii, Class::Hidden];
        let classes = if self.class.is_empty() {
            all.to_vec()
        } else {
            self.class.into_iter().map(Class::from).collect()
        };
        Ok(Settings {
            form: if self.jsonl { Form::Lines } else { Form::Text },
            redact: self.redact,
            classes,
            min_confidence: self.min_confidence,
        })
    }
}
