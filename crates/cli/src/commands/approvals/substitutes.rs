//! What a person puts in the place of a call, read from files and stdin, and how it is shown.

use std::io::Read as _;
use std::path::Path;

use backstop::hooks::Params;
use backstop::store::{ApprovalRecord, Given, MAX_RESULT_BYTES, MAX_WHOLE_BYTES, NewApproval};

use crate::error::Error;
use crate::output::{one_line, plain};

/// Reads changed arguments: all of them, as one JSON object. `-` is stdin.
pub(super) fn arguments(from: &Path) -> Result<Given, Error> {
    // A file may be laid out with more spaces than are kept.
    let text = read(from, MAX_WHOLE_BYTES.saturating_mul(4))?;
    let value = serde_json::from_str(&text)
        .map_err(|error| Error::Usage(format!("`{}` holds no JSON: {error}", from.display())))?;
    let arguments = Params::from_value(value).ok_or_else(|| {
        Error::Usage(format!("`{}` holds no JSON object\nhint: it is all arguments of the call, as `backstop approvals show` has them", from.display()))
    })?;
    Ok(Given::Edit { arguments })
}

/// Returns a result; `-` is stdin.
pub(super) fn result(text: String) -> Result<Given, Error> {
    let text = match text.as_str() {
        "-" => read(Path::new("-"), MAX_RESULT_BYTES)?,
        _ => text,
    };
    Ok(Given::Respond { result: text.into() })
}

fn read(from: &Path, most: usize) -> Result<String, Error> {
    let failed = |source| Error::File { path: from.to_path_buf(), what: "read", source };
    let bound = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    let mut text = String::new();
    match from.as_os_str() == "-" {
        true => std::io::stdin().lock().take(bound).read_to_string(&mut text),
        false => std::fs::File::open(from).and_then(|file| file.take(bound).read_to_string(&mut text)),
    }
    .map_err(failed)?;
    if text.len() > most {
        return Err(Error::Usage(format!("`{}` holds more than {most} bytes", from.display())));
    }
    Ok(text)
}

/// Returns it as it is written out: what a person gave is typed by hand, and nothing in it is masked.
pub(super) fn without_given(record: &ApprovalRecord) -> ApprovalRecord {
    let mut without = record.clone();
    without.request.given = None;
    without
}

/// Of which call this one came, as far as that is kept.
pub(super) fn told(request: &NewApproval) -> String {
    let mut text = String::new();
    if let Some(parent) = &request.edited_from {
        let by = one_line(&parent.by, 160);
        text.push_str(&format!("  changed by: {by}, from the call of {}\n", parent.approval));
        if !parent.shown.is_null() {
            let shown = serde_json::to_string_pretty(&parent.shown).unwrap_or_default();
            text.push_str("  it was:\n");
            text.extend(plain(&shown).lines().map(|line| format!("    {line}\n")));
        }
    }
    text
}
