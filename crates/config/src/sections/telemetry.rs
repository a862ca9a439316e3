//! `telemetry`: what is told of what goes on here, and to whom. Only the operator can set it: a repository that could set it could send
//! the names of agents, models and tools elsewhere, or switch off that anybody sees them.

use crate::config_value::{Entries, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, Text};
use crate::values::{Millis, Name, Ratio, Whole};

use super::providers::Address;

/// The most headers, and the most attributes of the resource.
const MOST_ENTRIES: usize = 32;
/// The longest value of an attribute of the resource.
const LONGEST_VALUE: usize = 256;
/// Headers that the protocol sets itself.
const OF_PROTOCOL: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

section! {
    /// What is told of what goes on here, and to whom.
    pub struct Telemetry {
        /// Traces, which are sent to a collector of OpenTelemetry's.
        traces ("traces"): Traces, OperatorOnly;
    }
}

section! {
    /// Traces: a span for each request, model call, tool call and dispatch, without anything that people or models wrote.
    pub struct Traces {
        /// Where they are sent, by OTLP over HTTP with protobuf: usually `https://<collector>/v1/traces`. Without it, there are none.
        endpoint ("endpoint"): Option<Spanned<Text>>, OperatorOnly;
        /// Headers that are sent along, such as `authorization`.
        headers ("headers"): Entries<Name, Spanned<Secret>>, OperatorOnly;
        /// A file with the certificates of the authorities that vouch for the collector, in place of the system's.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// Which part of all traces is recorded, from 0 to 1. What a client or an agent says of sampling does not count.
        sample ("sample"): Setting<Ratio> = Ratio::ALL, OperatorOnly;
        /// What this service is called (`service.name`). Without it, `backstop`.
        service ("service"): Option<Spanned<Name>>, OperatorOnly;
        /// What else is said of it, such as `deployment.environment.name`.
        resource ("resource"): Entries<Name, Spanned<Text>>, OperatorOnly;
        /// How long the collector may take for an answer, in milliseconds.
        timeout ("timeoutMs"): Setting<Millis> = Millis::clamped(10_000), OperatorOnly;
        /// The most spans that wait to be sent. Those beyond are dropped and counted.
        queue ("queue"): Setting<Whole<1, 65_536>> = Whole::clamped(4_096), OperatorOnly;
    }
}

impl Telemetry {
    /// Checks what looks at several keys together.
    pub(crate) fn check(&self, cx: &mut Reader<'_>) {
        cx.in_key("traces", |cx| self.traces.check(cx));
    }
}

impl Traces {
    fn check(&self, cx: &mut Reader<'_>) {
        for problem in
            [self.check_endpoint(), self.check_headers(), self.check_resource()].into_iter().flatten()
        {
            cx.report(problem);
        }
    }

    fn check_endpoint(&self) -> Option<Problem> {
        let wrong = |at: &crate::place::Place, message: &str, hint: &str| {
            Some(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint))
        };
        let Some(endpoint) = &self.endpoint else {
            let (name, _) = self.headers.iter().next()?;
            let message = "`headers` are for `endpoint`, which is not there";
            return wrong(&name.at, message, "without an endpoint there are no traces");
        };
        let at = &endpoint.at;
        let url = endpoint.value.expose();
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/')).map(|(_, path)| path);
        match Address::parse(url) {
            None => wrong(
                at,
                "`endpoint` must be an address",
                "for example `https://collector.example/v1/traces`",
            ),
            Some(address) if address.has_user => {
                wrong(at, "`endpoint` must not hold a user or a password", "put the secret into `headers`")
            }
            Some(address) if !address.is_private => wrong(
                at,
                "traces would travel unencrypted to `endpoint`",
                "use `https://`; plain `http://` is for this machine only",
            ),
            Some(_) if path.is_none_or(str::is_empty) => {
                wrong(at, "`endpoint` has no path", "collectors usually take traces at `/v1/traces`")
            }
            Some(_) if url.contains('#') => {
                wrong(at, "`endpoint` has a fragment, which is never sent", "leave out what begins with `#`")
            }
            Some(_) => None,
        }
    }

    fn check_headers(&self) -> Option<Problem> {
        let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let is_value = |value: &str| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        for (index, (name, value)) in self.headers.iter().enumerate() {
            let (text, at) = (name.value.as_str(), &name.at);
            let wrong = |message: String| Some(Problem::new(ProblemKind::BadValue, at.clone(), message));
            if index >= MOST_ENTRIES {
                return wrong(format!("there are more than {MOST_ENTRIES} headers"));
            }
            if !text.bytes().all(is_sign) {
                return wrong(format!("`{text}` is no name of a header"));
            }
            if OF_PROTOCOL.iter().any(|own| own.eq_ignore_ascii_case(text)) {
                return wrong(format!("the header `{text}` is set by the protocol itself"));
            }
            if !is_value(value.value.expose()) {
                return wrong(format!(
                    "the value of the header `{text}` holds a sign that no header can hold"
                ));
            }
        }
        None
    }

    fn check_resource(&self) -> Option<Problem> {
        for (index, (name, value)) in self.resource.iter().enumerate() {
            let wrong = |message: String| Problem::new(ProblemKind::BadValue, name.at.clone(), message);
            if index >= MOST_ENTRIES {
                return Some(wrong(format!("there are more than {MOST_ENTRIES} attributes")));
            }
            match name.value.as_str() {
                "service.name" => {
                    return Some(
                        wrong("`service.name` is what `service` says".to_owned()).with_hint("use `service`"),
                    );
                }
                "service.version"
                | "telemetry.sdk.name"
                | "telemetry.sdk.language"
                | "telemetry.sdk.version" => {
                    return Some(wrong(format!("`{}` is said by Backstop itself", name.value.as_str())));
                }
                _ if value.value.expose().len() > LONGEST_VALUE => {
                    return Some(wrong(format!("the value has more than {LONGEST_VALUE} bytes")));
                }
                _ => {}
            }
        }
        None
    }
}
