//! What a script may use. Every bound has a number here, and what runs into it is told which.

use std::time::Duration;

/// Bounds of one script. All of them hold at once; none can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the heap of the script's runtime. What asks for more ends the runtime.
    pub memory: usize,
    /// Bytes of native stack for the script's calls. What goes deeper gets an error that it can catch. At most
    /// [`Limits::MOST_STACK`].
    pub stack: usize,
    /// The longest time from the start of a load to its end, with everything that it awaits.
    pub load: Duration,
    /// The longest time that the script may keep its thread without giving it back: a stretch of code between
    /// two awaits. While it is loaded, that is what is left of [`Limits::load`].
    pub slice: Duration,
    /// Bytes of the JSON of one answer, and of one argument of a host's function.
    pub answer_bytes: usize,
    /// How deep an answer may be nested.
    pub answer_depth: usize,
    /// Calls, and requests to the host, that may be under way at once.
    pub pending: usize,
    /// Bytes that requests, their answers and what programs write may have at once outside of the heap.
    pub outside: usize,
    /// Functions that may be kept at once, and kept by a name in the life of a runtime.
    pub functions: usize,
    /// Timers that may be set at once.
    pub timers: usize,
    /// Modules that may be loaded. Their names, and packages that are remembered, are bounded by it as well.
    pub modules: usize,
    /// Bytes of the source of one module.
    pub source_bytes: usize,
    /// Lines that the script may log in a second; what goes beyond is counted, and the count is logged.
    pub log_lines: u32,
    /// Bytes of one logged line; what goes beyond is cut, and the line says so.
    pub log_bytes: usize,
}

impl Limits {
    /// The largest stack that a worker's thread has room for, whatever is asked for.
    pub const MOST_STACK: usize = 1 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            stack: 256 << 10,
            load: Duration::from_secs(5),
            slice: Duration::from_secs(1),
            answer_bytes: 1 << 20,
            answer_depth: 64,
            pending: 256,
            outside: 128 << 20,
            functions: 4096,
            timers: 1024,
            modules: 4096,
            source_bytes: 8 << 20,
            log_lines: 200,
            log_bytes: 8 << 10,
        }
    }
}
