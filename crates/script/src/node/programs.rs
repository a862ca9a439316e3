//! Programs: which of them a script may run, where, and with what environment. Running them is the bridge's.
//!
//! A program is granted by its path. The name alone finds it among the granted ones and nowhere else: there is no
//! `PATH`. It gets the variables that were granted, and of what the script adds only those: a variable can make a
//! program load another's code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rquickjs::{Ctx, Function, Object};
use serde_json::json;

use super::bytes::from_binary;
use super::fault::Fault;
use super::permits::{Permits, plain};
use super::underway::Underway;
use crate::bridge::HostError;
use crate::json::JsonText;
use crate::outside::ProgramRequest;

/// Bytes of a program's arguments and input together.
const MOST_INPUT: usize = 16 << 20;
/// Bytes of its output, and of its errors.
const MOST_OUTPUT: usize = 8 << 20;

/// What JavaScript asks for.
struct Wanted {
    file: String,
    arguments: Vec<String>,
    directory: Option<String>,
    /// Names and values in turn.
    environment: Option<Vec<String>>,
    input: Vec<u8>,
    timeout: Option<Duration>,
}

impl Permits {
    /// The granted program that `file` means.
    fn program(&self, file: &str) -> Result<PathBuf, Fault> {
        let programs = &self.all().programs;
        let found = if file.contains('/') {
            let path = plain(Path::new(file));
            programs.iter().find(|granted| file.starts_with('/') && plain(granted) == path)
        } else {
            programs.iter().find(|granted| granted.file_name().is_some_and(|name| name == file))
        };
        found.filter(|_| !file.contains('\0')).cloned().ok_or_else(|| {
            let mut fault =
                self.deny("EACCES", &format!("EACCES: spawn {file}"), &format!("programs: {file}"));
            fault.errno = Some(-13);
            fault
        })
    }

    fn environment(&self, wanted: Option<&[String]>) -> Result<BTreeMap<String, String>, Fault> {
        let granted = &self.all().env;
        let Some(wanted) = wanted else { return Ok(granted.clone()) };
        let mut environment = BTreeMap::new();
        for pair in wanted.chunks_exact(2) {
            let [name, value] = pair else { continue };
            if !granted.contains_key(name) {
                return Err(self.deny(
                    "ERR_ACCESS_DENIED",
                    &format!("the variable {name} for a program"),
                    &format!("env: {name}"),
                ));
            }
            environment.insert(name.clone(), value.clone());
        }
        Ok(environment)
    }

    fn directory(&self, wanted: Option<&str>) -> Result<PathBuf, Fault> {
        let Some(wanted) = wanted else { return Ok(self.cwd()) };
        let path = self.absolute(wanted);
        // Where it really is has to be inside as well.
        let real = path.canonicalize().ok();
        let inside = |path: &Path| {
            self.all().files.iter().any(|grant| {
                path.starts_with(plain(&grant.root))
                    || grant.root.canonicalize().is_ok_and(|root| path.starts_with(root))
            })
        };
        match real {
            Some(real) if inside(&real) => Ok(real),
            _ => {
                let grant = format!("files: read {}", path.display());
                Err(self.deny("EACCES", &format!("the folder {wanted} for a program"), &grant))
            }
        }
    }

    fn request(&self, wanted: Wanted) -> Result<ProgramRequest, Fault> {
        let program = self.program(&wanted.file)?;
        let size = wanted.arguments.iter().map(String::len).sum::<usize>() + wanted.input.len();
        if size > MOST_INPUT {
            return Err(Fault::new(
                "E2BIG",
                format!("arguments and input have {size} bytes; the most is {MOST_INPUT}"),
            ));
        }
        if wanted.arguments.iter().any(|argument| argument.contains('\0')) {
            return Err(Fault::new(
                "ERR_INVALID_ARG_VALUE",
                "an argument must be a string without null bytes",
            ));
        }
        Ok(ProgramRequest {
            program,
            arguments: wanted.arguments,
            directory: self.directory(wanted.directory.as_deref())?,
            environment: self.environment(wanted.environment.as_deref())?,
            input: wanted.input,
            timeout: wanted.timeout,
            most_output: MOST_OUTPUT,
        })
    }
}

/// Puts `startProgram` and `stopProgram` on `host`.
pub(super) fn install<'js>(
    ctx: &Ctx<'js>,
    host: &Object<'js>,
    permits: &Permits,
    underway: &Arc<Underway>,
) -> rquickjs::Result<()> {
    let permits = permits.clone();
    let underway = Arc::clone(underway);
    let start = move |ctx: Ctx<'js>,
                      id: u64,
                      file: String,
                      arguments: Vec<String>,
                      rest: rquickjs::function::Rest<rquickjs::Value<'js>>|
          -> rquickjs::Result<()> {
        let mut rest = rest.0.into_iter();
        let mut next = || rest.next().unwrap_or_else(|| rquickjs::Value::new_undefined(ctx.clone()));
        let wanted = Wanted {
            file,
            arguments,
            directory: next().get()?,
            environment: next().get()?,
            input: from_binary(&next().get::<String>()?),
            timeout: Some(next().get::<f64>()?)
                .filter(|millis| *millis > 0.0)
                .and_then(|millis| Duration::try_from_secs_f64(millis / 1000.0).ok()),
        };
        let request = permits.request(wanted).map_err(|fault| fault.throw(&ctx))?;
        let scope = Arc::clone(permits.scope());
        let refused = |error: HostError| Fault::from(error).throw(&ctx);
        let place = scope.one_more().map_err(refused)?;
        let input = request.input.len() + request.arguments.iter().map(String::len).sum::<usize>();
        let sent = scope.bytes.hold(input).map_err(refused)?;
        // It may write that much, so that much is counted from the beginning.
        let output = || scope.bytes.hold(request.most_output).map_err(refused);
        let (out, err) = (output()?, output()?);
        let underway = Arc::clone(&underway);
        let running = Arc::clone(&scope);
        let bridge = async move { running.bridge.run_program(running.scope.clone(), request).await };
        let output = Arc::clone(&underway).run(id, bridge);
        let work = async move {
            let output = output.await?;
            drop(sent);
            let told = json!({
                "code": output.code,
                "signal": output.signal,
                "stdout": underway.keep(output.stdout, out),
                "stderr": underway.keep(output.stderr, err),
            });
            Ok(JsonText::from_text(told.to_string()))
        };
        permits.scope().answer_later(id, place, Box::pin(work));
        Ok(())
    };
    host.set("startProgram", Function::new(ctx.clone(), start)?)
}
