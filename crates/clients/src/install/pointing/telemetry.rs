//! Telemetry of Gemini CLI and Qwen Code: whether there is any, and where it goes, is for the person who starts them.
//!
//! Their settings have `telemetry` with an address and `logPrompts`, by which a repository has every prompt sent to whoever
//! wrote it (seen with Gemini CLI 0.61.0 and Qwen Code 0.24.4). Variables beat the settings of every file, and those that are
//! set beat `.env`. So each of these variables is set: to what the person says, in the environment or in their own settings,
//! and to nothing otherwise.
//!
//! In Gemini CLI that is not enough: its manager of extensions starts telemetry by the settings alone, before the variables are
//! asked. Nothing of the command line undoes that, so a repository that says anything of telemetry but that it is off is an error.
//!
//! Limits: statistics of use, which hold no prompts, are another setting; Gemini CLI has no variable for that.

use std::ffi::OsString;
use std::path::Path;

use serde_json::{Value, json};

use super::{PointingError, Surroundings, settings_in};
use crate::client::Client;
use crate::install::once::Once;
use crate::install::switches::user_folder;

/// A variable, the field of `telemetry` that it beats, and what it is where the person says nothing.
type Field = (&'static str, &'static str, &'static str);

const GEMINI: &[Field] = &[
    ("GEMINI_TELEMETRY_ENABLED", "enabled", "false"),
    ("GEMINI_TELEMETRY_TRACES_ENABLED", "traces", "false"),
    ("GEMINI_TELEMETRY_TARGET", "target", "local"),
    ("GEMINI_TELEMETRY_OTLP_ENDPOINT", "otlpEndpoint", NOWHERE),
    ("GEMINI_TELEMETRY_OTLP_PROTOCOL", "otlpProtocol", "grpc"),
    ("GEMINI_TELEMETRY_LOG_PROMPTS", "logPrompts", "false"),
    ("GEMINI_TELEMETRY_OUTFILE", "outfile", ""),
    ("GEMINI_TELEMETRY_USE_COLLECTOR", "useCollector", "false"),
    ("GEMINI_TELEMETRY_USE_CLI_AUTH", "useCliAuth", "false"),
];
const QWEN: &[Field] = &[
    ("QWEN_TELEMETRY_ENABLED", "enabled", "false"),
    ("QWEN_TELEMETRY_TARGET", "target", "local"),
    ("QWEN_TELEMETRY_OTLP_ENDPOINT", "otlpEndpoint", NOWHERE),
    ("QWEN_TELEMETRY_OTLP_TRACES_ENDPOINT", "otlpTracesEndpoint", ""),
    ("QWEN_TELEMETRY_OTLP_LOGS_ENDPOINT", "otlpLogsEndpoint", ""),
    ("QWEN_TELEMETRY_OTLP_METRICS_ENDPOINT", "otlpMetricsEndpoint", ""),
    ("QWEN_TELEMETRY_OTLP_PROTOCOL", "otlpProtocol", "grpc"),
    ("QWEN_TELEMETRY_LOG_PROMPTS", "logPrompts", "false"),
    ("QWEN_TELEMETRY_INCLUDE_SENSITIVE_SPAN_ATTRIBUTES", "includeSensitiveSpanAttributes", "false"),
    ("QWEN_TELEMETRY_OUTFILE", "outfile", ""),
];
/// Where both send telemetry by themselves: to a collector on this machine.
const NOWHERE: &str = "http://localhost:4317";
/// What both read in place of an address of their own.
const OF_ALL_PROGRAMS: [(&str, &str); 4] = [
    ("otlpEndpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otlpTracesEndpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    ("otlpLogsEndpoint", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"),
    ("otlpMetricsEndpoint", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
];
/// Qwen Code's variable for statistics of use, which go to its maker.
const STATISTICS: &str = "QWEN_USAGE_STATISTICS_ENABLED";

/// Sets the variables that `client` has for telemetry.
pub(super) fn settle(client: Client, once: &mut Once, given: Surroundings<'_>) -> Result<(), PointingError> {
    if client == Client::Gemini {
        given.folders.files_around(&[".gemini/settings.json"]).try_for_each(|file| judge(&file))?;
    }
    let of_user = settings_in(&user_folder(client, given.folders).join("settings.json"))?;
    let said = of_user.get("telemetry");
    let fields = if client == Client::Qwen { QWEN } else { GEMINI };
    let mut set = |name: &'static str, value: OsString| once.variables.push((name, value));
    for &(name, field, otherwise) in fields {
        let of_all = OF_ALL_PROGRAMS.iter().find(|(known, _)| *known == field);
        let inherited = given.variable(name).or_else(|| given.variable(of_all?.1));
        let in_settings = said.and_then(|said| said.get(field)).and_then(text);
        set(name, inherited.or(in_settings).unwrap_or_else(|| otherwise.into()));
    }
    if client == Client::Qwen {
        let in_settings = of_user.pointer("/privacy/usageStatisticsEnabled").and_then(text);
        set(STATISTICS, given.variable(STATISTICS).or(in_settings).unwrap_or_else(|| "false".into()));
    }
    Ok(())
}

/// Whether a repository's settings leave telemetry off.
fn judge(file: &Path) -> Result<(), PointingError> {
    let off = json!({ "enabled": false });
    match settings_in(file)?.get("telemetry") {
        Some(said) if *said != off && *said != json!({}) => Err(PointingError::OfProject {
            what: "`telemetry`".to_owned(),
            file: file.display().to_string(),
            instead: "no option or variable of Gemini CLI beats it".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// A value of the settings, as a variable has it.
fn text(value: &Value) -> Option<OsString> {
    match value {
        Value::Bool(value) => Some(value.to_string().into()),
        Value::String(value) => Some(value.into()),
        _ => None,
    }
}
