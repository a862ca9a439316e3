//! TypeScript as JavaScript, by blanking.
//!
//! Types are replaced by blanks where they stand, so every line and column of an error is that of the source as its
//! author wrote it. What has a meaning at run time is rewritten in place: parameter properties, `enum` and
//! `namespace`. Imports that are used as types only are dropped, as the compiler does, because a module need not
//! export at run time what is a type.
//!
//! **Limits.** Decorators, JSX, `import x = require(..)` and `export =` are refused, with their place. Uses are
//! counted by name, not by scope: a type's name that a local variable shares keeps its import. Sources whose code is
//! nested deeper than [`depth::MOST_DEPTH`] are refused before they are parsed, as the parser is recursive.
//!
//! This folder is the only place that knows the syntax tree of `oxc`.

mod depth;
mod edits;
mod enums;
mod imports;
mod visitor;

use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_ast_visit::Visit as _;
use oxc_parser::Parser;
use oxc_span::SourceType;

pub(crate) use self::imports::{Exports, Imports};

/// Bytes of native stack for parsing: enough for [`depth::MOST_DEPTH`], without optimisation as well.
const STACK: usize = 256 << 20;

/// Why a source is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Bytes from the start of the source.
    pub(crate) offset: usize,
    /// What is wrong.
    pub(crate) message: String,
}

impl Problem {
    fn new(offset: usize, message: impl Into<String>) -> Self {
        Self { offset, message: message.into() }
    }

    /// Line and column, both from 1, the column in characters.
    pub(crate) fn place(&self, source: &str) -> (u32, u32) {
        let before = source.get(..self.offset.min(source.len())).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

/// The JavaScript of a TypeScript module.
pub(crate) fn strip(source: &str) -> Result<String, Problem> {
    depth::check(source)?;
    // Parsing is recursive, and what is loaded may be hostile: it gets a stack that is deep enough for what
    // `depth` lets pass.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("backstop-typescript".to_owned())
            .stack_size(STACK)
            .spawn_scoped(scope, || strip_here(source));
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(stripped)) => stripped,
            Ok(Err(_)) => Err(Problem::new(0, "the parser failed on it")),
            Err(error) => Err(Problem::new(0, format!("no thread to parse it ({error})"))),
        }
    })
}

/// The first thing that is wrong with the syntax of an ES module, as the parser of this crate sees it.
pub(crate) fn wrong(source: &str) -> Option<Problem> {
    if let Err(problem) = depth::check(source) {
        return Some(problem);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
            let allocator = Allocator::default();
            let parsed = Parser::new(&allocator, source, SourceType::mjs()).parse();
            let error = parsed.diagnostics.errors().next()?;
            let offset = error.labels.first().map_or(0, |label| label.span().start as usize);
            Some(Problem::new(offset, error.message.to_string()))
        });
        thread.ok().and_then(|thread| thread.join().ok()).flatten()
    })
}

/// The names that a module takes from each module that it imports from, in JavaScript. Nothing, if it can't be read.
pub(crate) fn imports(source: &str) -> Imports {
    parsed(source, imports::imports_of).unwrap_or_default()
}

/// Where a module in JavaScript imports from `specifier` in a statement: line and column, from 1.
pub(crate) fn import_at(source: &str, specifier: &str) -> Option<(u32, u32)> {
    let offset = parsed(source, |program| imports::place_of(program, specifier))??;
    Some(Problem::new(offset, "").place(source))
}

/// The names that a module in JavaScript exports. Nothing, if it can't be read.
pub(crate) fn exports(source: &str) -> Exports {
    parsed(source, imports::exports_of).unwrap_or_default()
}

fn parsed<T: Send>(source: &str, look: impl FnOnce(&Program<'_>) -> T + Send) -> Option<T> {
    depth::check(source).ok()?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
            let allocator = Allocator::default();
            look(&Parser::new(&allocator, source, SourceType::mjs()).parse().program)
        });
        thread.ok()?.join().ok()
    })
}

fn strip_here(source: &str) -> Result<String, Problem> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    if let Some(error) = parsed.diagnostics.errors().next() {
        let offset = error.labels.first().map_or(0, |label| label.span().start as usize);
        return Err(Problem::new(offset, error.message.to_string()));
    }
    let mut visitor = visitor::Blanker::new(source);
    visitor.visit_program(&parsed.program);
    visitor.finish(&parsed.program)
}
