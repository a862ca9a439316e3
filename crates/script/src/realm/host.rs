//! The functions of the worker that the prelude is given, and what they put out: timers, requests, log lines.
//!
//! They run inside of the script's code, so they never wait: a request is noted in the realm's [`Outbox`], which the
//! worker empties after the slice, and a timer in its [`Timers`].
//!
//! **Bounds.** Everything of the host that a script can make grow, and what holds it:
//!
//! | what grows | its bound |
//! | --- | --- |
//! | timers (`timers.rs`) | [`Limits::timers`], set, refreshed or cleared however often |
//! | requests to the host, in the outbox and under way (`outside.rs`) | [`Limits::pending`] |
//! | bytes of requests, of answers, of what programs write, and parcels that nobody took yet (`outside.rs`) | [`Limits::outside`] |
//! | labels of kept functions | [`Limits::functions`] in the life of a runtime, each of [`MOST_LABEL`] bytes |
//! | answers that wait for their turn (`workers/thread.rs`) | one for each request |
//! | modules, names that are resolved, files of packages that are remembered (`modules`) | [`Limits::modules`], and a size for each |
//! | open files (`node/files/open.rs`), log lines, shapes of events | a number each |
//! | what the embedding program collects of calls | the embedding program's |

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::{Ctx, Exception, Function, Object, Runtime, Value};

use super::Clock;
use super::outside::{Held, Ledger};
use super::timers::Timers;
use crate::bridge::{Bridge, CallScope, HostError, LogLevel};
use crate::error::{Place, bounded};
use crate::json::JsonText;
use crate::limits::Limits;
use crate::permissions::Permissions;

/// A future that answers a request.
pub(crate) type Answering = std::pin::Pin<Box<dyn Future<Output = Result<JsonText, HostError>> + Send>>;

/// Bytes of the label of a kept function; what goes beyond is cut.
const MOST_LABEL: usize = 512;

/// What a slice left for the worker to do.
#[derive(Default)]
pub(crate) struct Outbox {
    /// Requests to begin: which, and what answers it.
    pub(crate) requests: Vec<(u64, Answering)>,
    /// Functions that were kept, with their labels.
    pub(crate) kept: Vec<(u32, String)>,
}

/// What host functions know of the script that calls them.
pub(crate) struct HostScope {
    /// On whose behalf.
    pub(crate) scope: CallScope,
    /// What the script may reach. Host functions ask it at each call.
    pub(crate) permissions: Arc<Permissions>,
    /// The embedding program.
    pub(crate) bridge: Arc<dyn Bridge>,
    /// The bounds.
    pub(crate) limits: Limits,
    /// Timers that are set.
    pub(crate) timers: Timers,
    /// Bytes outside of the runtime's heap.
    pub(crate) bytes: Arc<Ledger>,
    requests: Arc<Ledger>,
    labels: AtomicUsize,
    outbox: Mutex<Outbox>,
    log: Mutex<LogWindow>,
    /// Where code was interrupted whose promise took the blame.
    interrupted: Mutex<Option<Place>>,
}

struct LogWindow {
    since: Instant,
    lines: u32,
    dropped: u32,
}

impl HostScope {
    pub(crate) fn new(
        scope: CallScope,
        permissions: Arc<Permissions>,
        bridge: Arc<dyn Bridge>,
        limits: Limits,
    ) -> Self {
        Self {
            scope,
            permissions,
            bridge,
            limits,
            timers: Timers::new(limits.timers),
            bytes: Ledger::new(limits.outside, "bytes of requests and answers"),
            requests: Ledger::new(limits.pending, "requests under way"),
            labels: AtomicUsize::new(0),
            outbox: Mutex::default(),
            interrupted: Mutex::default(),
            log: Mutex::new(LogWindow { since: Instant::now(), lines: 0, dropped: 0 }),
        }
    }

    /// What came together since the last time.
    pub(crate) fn take_outbox(&self) -> Outbox {
        std::mem::take(&mut *self.outbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A place for one more request; it is given back when what is returned is dropped.
    ///
    /// # Errors
    ///
    /// That there are too many.
    pub(crate) fn one_more(&self) -> Result<Held, HostError> {
        self.requests.hold(1)
    }

    /// Has `answering` answer the request `id`, which the prelude's `later` gave out. It runs on the host's
    /// runtime, after the slice; `place` is kept as long as it does.
    pub(crate) fn answer_later(&self, id: u64, place: Held, answering: Answering) {
        let answering = Box::pin(async move {
            let _place = place;
            answering.await
        });
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).requests.push((id, answering));
    }

    fn note_kept(&self, id: u32, label: &str) -> Result<(), HostError> {
        let most = self.limits.functions;
        let more = |labels: usize| (labels < most).then_some(labels + 1);
        if self.labels.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return Err(HostError::new("ERR_OUT_OF_RANGE", format!("{most} functions were kept by a name")));
        }
        let label = bounded(label, MOST_LABEL);
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).kept.push((id, label));
        Ok(())
    }

    /// Hands a line to the bridge, within the bounds on lines.
    pub(crate) fn log(&self, level: LogLevel, line: &str) {
        let dropped = {
            let mut window = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            let mut dropped = 0;
            if window.since.elapsed() >= Duration::from_secs(1) {
                dropped = window.dropped;
                *window = LogWindow { since: Instant::now(), lines: 0, dropped: 0 };
            }
            if window.lines >= self.limits.log_lines {
                window.dropped = window.dropped.saturating_add(1);
                if window.dropped > 1 {
                    return;
                }
                drop(window);
                let line =
                    format!("more than {} lines in a second; the rest is left out", self.limits.log_lines);
                return self.bridge.log(&self.scope, LogLevel::Warn, &line);
            }
            window.lines += 1;
            dropped
        };
        if dropped > 0 {
            self.bridge.log(&self.scope, LogLevel::Warn, &format!("{dropped} lines were left out"));
        }
        self.bridge.log(&self.scope, level, &bounded(line, self.limits.log_bytes));
    }

    /// Where code was interrupted since this was asked last, if a promise took the blame.
    pub(crate) fn take_interrupted(&self) -> Option<Place> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A line that the runtime says about the script.
    pub(crate) fn warn(&self, line: &str) {
        self.log(LogLevel::Warn, line);
    }
}

/// A host's error as the text that the prelude's `makeError` reads.
pub(crate) fn error_text(error: &HostError) -> String {
    serde_json::json!({ "message": error.message, "code": error.code, "properties": error.properties })
        .to_string()
}

/// The function that makes a part of the prelude, compiled when it is first used: most scripts need none.
fn part<'js>(ctx: Ctx<'js>, name: String) -> rquickjs::Result<Function<'js>> {
    let (file, source) = match name.as_str() {
        "events" => ("backstop:events", include_str!("events.js")),
        _ => ("backstop:console", include_str!("console.js")),
    };
    let mut options = EvalOptions::default();
    options.filename = Some(file.to_owned());
    ctx.eval_with_options(source, options)
}

/// The `native` of the prelude.
pub(super) fn functions<'js>(
    ctx: &Ctx<'js>,
    scope: &Arc<HostScope>,
    clock: &Arc<Clock>,
) -> rquickjs::Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let limits = scope.limits;
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    native.set("mostFunctions", number(limits.functions))?;
    native.set("mostPending", number(limits.pending))?;
    native.set("mostTimers", number(limits.timers))?;
    native.set("isProxy", Function::new(ctx.clone(), |value: Value<'js>| value.is_proxy())?)?;
    native.set("isPromise", Function::new(ctx.clone(), |value: Value<'js>| value.is_promise())?)?;
    native.set("part", Function::new(ctx.clone(), part)?)?;
    let of = Arc::clone(clock);
    native.set("now", Function::new(ctx.clone(), move || of.millis())?)?;
    let to = Arc::clone(scope);
    let timer = move |ctx: Ctx<'js>, id: u64, delay: f64| -> rquickjs::Result<()> {
        // The prelude clamps: between one millisecond and what 31 bits hold.
        let delay = Duration::try_from_secs_f64(delay / 1000.0).unwrap_or(Duration::from_millis(1));
        match to.timers.set(id, super::after(Instant::now(), delay)) {
            true => Ok(()),
            false => Err(Exception::throw_range(&ctx, &format!("{} timers are set already", limits.timers))),
        }
    };
    native.set("timer", Function::new(ctx.clone(), timer)?)?;
    let to = Arc::clone(scope);
    native.set("clearTimer", Function::new(ctx.clone(), move |id: u64| to.timers.clear(id))?)?;
    let to = Arc::clone(scope);
    let kept = move |ctx: Ctx<'js>, id: u32, label: String| {
        to.note_kept(id, &label).map_err(|error| Exception::throw_range(&ctx, &error.message))
    };
    native.set("kept", Function::new(ctx.clone(), kept)?)?;
    let to = Arc::clone(scope);
    let log = move |level: u32, line: rquickjs::Coerced<String>| {
        let level = match level {
            0 => LogLevel::Debug,
            1 => LogLevel::Info,
            2 => LogLevel::Warn,
            _ => LogLevel::Error,
        };
        to.log(level, &line.0);
    };
    native.set("log", Function::new(ctx.clone(), log)?)?;
    let to = Arc::clone(scope);
    let call = move |ctx: Ctx<'js>, name: String, text: String| -> rquickjs::Result<Object<'js>> {
        let answer = within(&to.limits, &name, &text)
            .and_then(|()| to.bridge.call(&to.scope, &name, JsonText::from_text(text)));
        let told = Object::new(ctx)?;
        told.set("failed", answer.is_err())?;
        match &answer {
            Ok(text) => told.set("text", text.as_str())?,
            Err(error) => told.set("text", error_text(error))?,
        }
        Ok(told)
    };
    native.set("call", Function::new(ctx.clone(), call)?)?;
    let to = Arc::clone(scope);
    let request = move |ctx: Ctx<'js>, id: u64, name: String, text: String| -> rquickjs::Result<()> {
        let refused = |error: HostError| Exception::throw_range(&ctx, &error.message);
        within(&to.limits, &name, &text).map_err(refused)?;
        let place = to.one_more().map_err(refused)?;
        let (bridge, scope) = (Arc::clone(&to.bridge), to.scope.clone());
        let answering = async move { bridge.request(scope, name, JsonText::from_text(text)).await };
        to.answer_later(id, place, Box::pin(answering));
        Ok(())
    };
    native.set("request", Function::new(ctx.clone(), request)?)?;
    Ok(native)
}

fn within(limits: &Limits, name: &str, text: &str) -> Result<(), HostError> {
    if text.len() <= limits.answer_bytes {
        return Ok(());
    }
    let message =
        format!("the argument of `{name}` has {} bytes; the most is {}", text.len(), limits.answer_bytes);
    Err(HostError::new("ERR_OUT_OF_RANGE", message))
}

/// Logs rejections that nobody handles. One for an interruption is noted: it says where that was.
pub(super) fn track_rejections(runtime: &Runtime, scope: &Arc<HostScope>, clock: &Arc<Clock>) {
    let (scope, clock) = (Arc::clone(scope), Arc::clone(clock));
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, reason, handled| {
        if handled {
            return;
        }
        if clock.has_tripped()
            && let Some(stack) = reason.as_exception().and_then(Exception::stack)
        {
            let place = stack.lines().find_map(super::place_in);
            *scope.interrupted.lock().unwrap_or_else(PoisonError::into_inner) = place;
        }
        // No code of the script may run here, so what is said is read from plain own texts only.
        let text = reason
            .as_string()
            .and_then(|text| text.to_string().ok())
            .or_else(|| reason.as_exception().and_then(Exception::message))
            .unwrap_or_else(|| reason.type_name().to_owned());
        scope.log(LogLevel::Debug, &format!("a promise was rejected before anyone handled it: {text}"));
    })));
}
