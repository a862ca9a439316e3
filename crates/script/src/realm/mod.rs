//! A realm: one runtime with one context, in which one script lives.
//!
//! A realm belongs to a worker's thread and is driven by it in *slices*: the worker sets the clock, lets the
//! script run until it gives the thread back, runs the jobs that this left behind (with the clock in its hand,
//! as jobs alone never trip the interrupt handler), and looks which calls have an answer now.
//!
//! What a realm knows of a script is in JavaScript's own tables (`prelude.js`); here are only the functions that
//! drive them. All of it is dropped before the runtime is.

mod answer;
mod clock;
mod errors;
mod host;
mod outside;
mod timers;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::function::Args;
use rquickjs::{Context, Ctx, Function, Module, Object, Persistent, Promise, Runtime, Value};

pub(crate) use clock::{Clock, after};
pub(crate) use host::{HostScope, Outbox, error_text};
pub(crate) use outside::Held;

pub(crate) use self::errors::{Failure, place_in};
use crate::call::{Answer, Argument, Callee, LazyEvent};
use crate::error::{Ended, ScriptError};
use crate::limits::Limits;
use crate::modules::{self, Modules};
use crate::node;
use crate::source::ScriptSource;

const PRELUDE: &str = include_str!("prelude.js");
const PRELUDE_NAME: &str = "backstop:prelude";
const BOOT_NAME: &str = "backstop:boot";
/// What is evaluated for a script that has no boot module.
const PLAIN_BOOT: &str = "import * as entry from \"script:entry\"; export { entry };";

/// The functions of the prelude.
struct Tools {
    invoke: Persistent<Function<'static>>,
    invoke_function: Persistent<Function<'static>>,
    keep: Persistent<Function<'static>>,
    release: Persistent<Function<'static>>,
    settle: Persistent<Function<'static>>,
    fire: Persistent<Function<'static>>,
    signal: Persistent<Function<'static>>,
    over: Persistent<Function<'static>>,
    shape: Persistent<Function<'static>>,
    parse: Persistent<Function<'static>>,
    describe: Persistent<Function<'static>>,
    is_plain: Persistent<Function<'static>>,
    home: Persistent<Object<'static>>,
}

/// The names of a kind of events, and the function that makes one.
type Shape = (Arc<[Arc<str>]>, Persistent<Function<'static>>);

/// What came of starting something in a realm.
pub(crate) enum Started {
    /// It has ended.
    Done(Result<Option<Answer>, Failure>),
    /// It waits for this.
    Waits(Persistent<Promise<'static>>),
}

/// See the module.
pub(crate) struct Realm {
    // INVARIANT: whatever holds a value of the runtime is taken out in `drop`, before the runtime goes.
    tools: Option<Tools>,
    exports: Option<Persistent<Object<'static>>>,
    shapes: Vec<Shape>,
    context: Context,
    runtime: Runtime,
    clock: Arc<Clock>,
    scope: Arc<HostScope>,
    modules: Rc<Modules>,
    limits: Limits,
    /// How long what runs may keep the thread.
    held: Cell<Duration>,
}

impl Drop for Realm {
    fn drop(&mut self) {
        self.modules.forget_host();
        self.shapes.clear();
        self.exports = None;
        self.tools = None;
    }
}

impl Realm {
    /// Makes a runtime with nothing of the script in it yet.
    pub(crate) fn new(
        source: &ScriptSource,
        limits: Limits,
        scope: Arc<HostScope>,
        abandoned: Arc<AtomicBool>,
    ) -> Result<Self, ScriptError> {
        let broken = |error: rquickjs::Error| ScriptError::Runtime { reason: error.to_string() };
        let runtime = Runtime::new().map_err(broken)?;
        runtime.set_memory_limit(limits.memory);
        runtime.set_max_stack_size(limits.stack.min(Limits::MOST_STACK));
        let clock = Arc::new(Clock::new(abandoned));
        let handler = Arc::clone(&clock);
        runtime.set_interrupt_handler(Some(Box::new(move || handler.is_over())));
        let modules = Rc::new(Modules::new(source, limits, Arc::clone(&scope))?);
        runtime.set_loader(modules::Resolve(Rc::clone(&modules)), modules::Load(Rc::clone(&modules)));
        host::track_rejections(&runtime, &scope, &clock);
        let context = Context::full(&runtime).map_err(broken)?;
        let mut realm = Self {
            tools: None,
            exports: None,
            shapes: Vec::new(),
            context,
            runtime,
            clock,
            scope,
            modules,
            limits,
            held: Cell::new(limits.load),
        };
        let tools = realm.context.with(|ctx| {
            realm.begin(&ctx).map_err(|error| ScriptError::Runtime {
                reason: errors::failure(&ctx, &realm.clock, error).error.to_string(),
            })
        })?;
        realm.tools = Some(tools);
        Ok(realm)
    }

    fn begin(&self, ctx: &Ctx<'_>) -> rquickjs::Result<Tools> {
        self.clock.start(after(Instant::now(), self.limits.load), None);
        let native = host::functions(ctx, &self.scope, &self.clock)?;
        let mut options = EvalOptions::default();
        options.filename = Some(PRELUDE_NAME.to_owned());
        let prelude: Function<'_> = ctx.eval_with_options(PRELUDE, options)?;
        let made: Object<'_> = prelude.call((native,))?;
        let internals: Object<'_> = made.get("internals")?;
        node::install(ctx, &internals, &self.scope)?;
        self.modules.begin(ctx, internals)?;
        let function =
            |name: &str| made.get::<_, Function<'_>>(name).map(|function| Persistent::save(ctx, function));
        Ok(Tools {
            invoke: function("invoke")?,
            invoke_function: function("invokeFunction")?,
            keep: function("keep")?,
            release: function("release")?,
            settle: function("settle")?,
            fire: function("fire")?,
            signal: function("signal")?,
            over: function("over")?,
            shape: function("shape")?,
            parse: function("parse")?,
            describe: function("describe")?,
            is_plain: function("isPlain")?,
            home: Persistent::save(ctx, made.get::<_, Object<'_>>("home")?),
        })
    }

    /// Evaluates the script.
    pub(crate) fn load(&mut self, boot: Option<&str>, until: Instant) -> Started {
        self.clock.start(until, None);
        let boot_source = boot.unwrap_or(PLAIN_BOOT);
        let loaded = self.context.with(|ctx| {
            let run = || -> rquickjs::Result<_> {
                let module = Module::declare(ctx.clone(), BOOT_NAME, boot_source)?;
                self.modules.mark_ours(&module)?;
                let (module, promise) = module.eval()?;
                let exports = Persistent::save(&ctx, module.namespace()?);
                Ok((exports, Persistent::save(&ctx, promise)))
            };
            run().map_err(|error| self.explain(self.failure(&ctx, error)))
        });
        match loaded {
            Ok((exports, promise)) => {
                self.exports = Some(exports);
                Started::Waits(promise)
            }
            Err(failure) => Started::Done(Err(failure)),
        }
    }

    /// The load has ended well: from now on exported functions are those of the boot module, or of the entry.
    pub(crate) fn loaded(&mut self, has_boot: bool) -> Result<(), Failure> {
        if has_boot {
            return Ok(());
        }
        let Some(exports) = self.exports.clone() else { return Ok(()) };
        let entry = self.context.with(|ctx| {
            let run = || -> rquickjs::Result<_> {
                let entry: Object<'_> = exports.restore(&ctx)?.get("entry")?;
                Ok(Persistent::save(&ctx, entry))
            };
            run().map_err(|error| self.failure(&ctx, error))
        })?;
        self.exports = Some(entry);
        Ok(())
    }

    /// A failure of loading, said with the place that the loader noted.
    fn explain(&self, mut failure: Failure) -> Failure {
        if let Some(noted) = self.modules.take_failure(&failure.error) {
            failure.error = noted;
        } else if let Some(placed) = self.modules.lacking_export(&failure.error) {
            failure.error = placed;
        }
        failure
    }

    /// Takes the exception that `error` stands for out of the context. What is called and is no function is named as the source has it,
    /// which the engine does not.
    fn failure(&self, ctx: &Ctx<'_>, error: rquickjs::Error) -> Failure {
        let mut failure = errors::failure(ctx, &self.clock, error);
        if let ScriptError::Thrown { message, place: Some(place), .. } = &mut failure.error
            && message == errors::NO_FUNCTION
            && let Some(name) = self.modules.called_at(place)
        {
            *message = format!("TypeError: `{name}` is not a function");
        }
        failure
    }

    /// Calls a function and runs until it gives the thread back.
    pub(crate) fn call(
        &mut self,
        call: u64,
        callee: &Callee,
        arguments: &[Argument],
        keep: &[String],
        until: Instant,
        cancelled: Arc<AtomicBool>,
    ) -> Started {
        self.clock.start(until, Some(cancelled));
        for argument in arguments {
            if let Argument::Lazy(event) = argument
                && let Err(failure) = self.learn_shape(event)
            {
                return Started::Done(Err(failure));
            }
        }
        let Some(tools) = &self.tools else { return Started::Done(Err(Failure::plain(ScriptError::Gone))) };
        self.context.with(|ctx| {
            let run = || -> rquickjs::Result<Result<Value<'_>, ScriptError>> {
                let mut args = Args::new(ctx.clone(), arguments.len() + 1);
                let function = match callee {
                    Callee::Kept(id) => {
                        args.push_arg(id.number())?;
                        tools.invoke.clone().restore(&ctx)?
                    }
                    Callee::Export(name) => {
                        let exported = match &self.exports {
                            Some(exports) => {
                                exports.clone().restore(&ctx)?.get::<_, Value<'_>>(name.as_str())?
                            }
                            None => Value::new_undefined(ctx.clone()),
                        };
                        if !exported.is_function() {
                            return Ok(Err(ScriptError::NoFunction {
                                name: format!("`{name}` among its exports"),
                            }));
                        }
                        args.push_arg(exported)?;
                        tools.invoke_function.clone().restore(&ctx)?
                    }
                };
                for argument in arguments {
                    args.push_arg(self.argument(&ctx, tools, call, argument)?)?;
                }
                function.call_arg::<Value<'_>>(args).map(Ok)
            };
            let value = match run() {
                Ok(Ok(value)) if !self.clock.has_tripped() => value,
                Ok(Ok(_)) => return Started::Done(Err(Failure::interrupted(None))),
                Ok(Err(error)) => return Started::Done(Err(Failure::plain(error))),
                Err(error) => return Started::Done(Err(self.failure(&ctx, error))),
            };
            if value.is_undefined() || value.is_null() {
                return Started::Done(Ok(None));
            }
            match Promise::from_value(value.clone()) {
                Ok(promise) => Started::Waits(Persistent::save(&ctx, promise)),
                Err(_) => Started::Done(self.read(&ctx, tools, &value, keep)),
            }
        })
    }

    fn argument<'js>(
        &self,
        ctx: &Ctx<'js>,
        tools: &Tools,
        call: u64,
        argument: &Argument,
    ) -> rquickjs::Result<Value<'js>> {
        match argument {
            Argument::Json(text) => tools.parse.clone().restore(ctx)?.call((text.as_str(),)),
            Argument::Signal => tools.signal.clone().restore(ctx)?.call((call,)),
            Argument::Lazy(event) => {
                let maker = self.shapes.iter().find(|(names, _)| Arc::ptr_eq(names, event.names()));
                let Some((_, maker)) = maker else { return Ok(Value::new_undefined(ctx.clone())) };
                let mut args = Args::new(ctx.clone(), event.texts().len());
                for text in event.texts() {
                    args.push_arg(text.as_str())?;
                }
                maker.clone().restore(ctx)?.call_arg(args)
            }
        }
    }

    /// Makes the function that makes events of this shape, unless it is there.
    fn learn_shape(&mut self, event: &LazyEvent) -> Result<(), Failure> {
        /// Shapes are the embedding program's, one for each kind of event; more than these are a mistake of
        /// it, and forgotten one by one.
        const MOST_SHAPES: usize = 128;
        if self.shapes.iter().any(|(names, _)| Arc::ptr_eq(names, event.names())) {
            return Ok(());
        }
        let Some(tools) = &self.tools else { return Err(Failure::plain(ScriptError::Gone)) };
        let maker = self.context.with(|ctx| {
            let run = || -> rquickjs::Result<_> {
                let mut args = Args::new(ctx.clone(), event.names().len());
                for name in event.names().iter() {
                    args.push_arg(&**name)?;
                }
                let maker: Function<'_> = tools.shape.clone().restore(&ctx)?.call_arg(args)?;
                Ok(Persistent::save(&ctx, maker))
            };
            run().map_err(|error| self.failure(&ctx, error))
        })?;
        if self.shapes.len() >= MOST_SHAPES {
            self.shapes.remove(0);
        }
        self.shapes.push((Arc::clone(event.names()), maker));
        Ok(())
    }

    fn read<'js>(
        &self,
        ctx: &Ctx<'js>,
        tools: &Tools,
        value: &Value<'js>,
        keep: &[String],
    ) -> Result<Option<Answer>, Failure> {
        let reader = answer::Reader::new(ctx, tools, &self.limits, keep);
        match reader.and_then(|reader| reader.read(value)) {
            Ok(_) if self.clock.has_tripped() => Err(Failure::interrupted(None)),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(Failure::plain(error)),
            Err(error) => Err(self.failure(ctx, error)),
        }
    }

    /// What a promise came to, if it is settled.
    pub(crate) fn look(
        &self,
        promise: &Persistent<Promise<'static>>,
        keep: Option<&[String]>,
    ) -> Option<Result<Option<Answer>, Failure>> {
        let tools = self.tools.as_ref()?;
        self.context.with(|ctx| {
            let promise = match promise.clone().restore(&ctx) {
                Ok(promise) => promise,
                Err(error) => return Some(Err(self.failure(&ctx, error))),
            };
            match promise.result::<Value<'_>>()? {
                Ok(value) if value.is_undefined() || value.is_null() => Some(Ok(None)),
                Ok(value) => Some(match keep {
                    Some(keep) => self.read(&ctx, tools, &value, keep),
                    None => Ok(None),
                }),
                Err(error) => Some(Err(self.explain(self.failure(&ctx, error)))),
            }
        })
    }

    /// Runs jobs until none is left. Jobs alone never trip the interrupt handler, so the clock is looked at
    /// between them.
    pub(crate) fn run_jobs(&self) -> Result<(), Ended> {
        let mut longest = Duration::ZERO;
        while self.runtime.is_job_pending() {
            if self.clock.is_over() {
                return Err(self.endless(longest, Failure::interrupted(self.scope.take_interrupted())));
            }
            let began = Instant::now();
            let ran = self.runtime.execute_pending_job();
            longest = longest.max(began.elapsed());
            if let Err(job) = ran {
                let failure =
                    job.0.with(|ctx| errors::failure(&ctx, &self.clock, rquickjs::Error::Exception));
                if failure.out_of_memory {
                    return Err(self.ended(failure));
                }
                if self.clock.has_tripped() {
                    return Err(self.endless(longest, failure));
                }
            }
        }
        Ok(())
    }

    /// The time of jobs is up, of which the longest took this: it was one job that did not end, or there was always another.
    /// The code of a job that was interrupted may have left that to a promise.
    fn endless(&self, longest: Duration, failure: Failure) -> Ended {
        match longest * 2 > self.held.get() {
            true => self.ended(failure),
            false => Ended::EndlessJobs { within: self.held.get() },
        }
    }

    /// What a failure means for the runtime that a job or a timer had.
    fn ended(&self, failure: Failure) -> Ended {
        let at = failure.at.map(|at| *at);
        match failure.out_of_memory {
            true => Ended::OutOfMemory { most: self.limits.memory, at },
            false => Ended::SliceOver { within: self.held.get(), at },
        }
    }

    /// Begins a slice that belongs to no call, which may take `held` in all.
    pub(crate) fn start_clock(&self, until: Instant, held: Duration) {
        self.held.set(held);
        self.clock.start(until, None);
    }

    fn drive(
        &self,
        run: impl for<'js> FnOnce(&Ctx<'js>, &Tools) -> rquickjs::Result<()>,
    ) -> Result<(), Ended> {
        let Some(tools) = &self.tools else { return Ok(()) };
        self.context.with(|ctx| {
            let Err(error) = run(&ctx, tools) else {
                let over = || self.ended(Failure::interrupted(self.scope.take_interrupted()));
                return if self.clock.has_tripped() { Err(over()) } else { Ok(()) };
            };
            let failure = self.failure(&ctx, error);
            if failure.out_of_memory || failure.interrupted {
                return Err(self.ended(failure));
            }
            self.scope.warn(&format!("uncaught: {}", failure.error));
            Ok(())
        })
    }

    /// A timer is due.
    pub(crate) fn fire(&self, timer: u64) -> Result<(), Ended> {
        self.drive(|ctx, tools| tools.fire.clone().restore(ctx)?.call((timer,)))
    }

    /// The host has answered a request.
    pub(crate) fn settle(&self, request: u64, ok: bool, text: &str) -> Result<(), Ended> {
        self.drive(|ctx, tools| tools.settle.clone().restore(ctx)?.call((request, ok, text)))
    }

    /// A call has ended, or nobody waits for it any more.
    pub(crate) fn over(&self, call: u64, cancelled: bool) -> Result<(), Ended> {
        self.drive(|ctx, tools| tools.over.clone().restore(ctx)?.call((call, cancelled)))
    }

    /// A kept function is not needed any more.
    pub(crate) fn release(&self, function: u32) -> Result<(), Ended> {
        self.drive(|ctx, tools| tools.release.clone().restore(ctx)?.call((function,)))
    }

    /// When the script's next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.scope.timers.next()
    }

    /// Takes the first timer that is due by `now`.
    pub(crate) fn take_due(&self, now: Instant) -> Option<u64> {
        self.scope.timers.take_due(now)
    }

    /// What came together for the worker to do.
    pub(crate) fn take_outbox(&self) -> Outbox {
        self.scope.take_outbox()
    }

    /// Bytes of the heap in use.
    pub(crate) fn heap(&self) -> u64 {
        u64::try_from(self.runtime.memory_usage().malloc_size).unwrap_or_default()
    }
}
