//! How often an editor looks something up, reads something or writes something: as often as there are things in an answer or
//! a request, times a constant. Counted in tests alone, since a clock would say something else each time.
//!
//! Counted are the bytes of JSON that are measured for the sake of an edit ([`Node`](super::span::Node)), those of texts that
//! are written anew, frames that are asked whether they may leave, lookups of what was decided, splices, and the rounds of
//! each loop over what an answer or a request has many of.

/// One more step.
pub(crate) fn step() {
    steps(1);
}

/// So many more.
#[cfg_attr(not(test), expect(unused_variables, reason = "nobody counts them"))]
pub(crate) fn steps(more: usize) {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + more));
}

#[cfg(test)]
mod answers;
#[cfg(test)]
mod requests;

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The steps that something takes.
#[cfg(test)]
fn counted(work: impl FnOnce()) -> usize {
    STEPS.with(|steps| steps.set(0));
    work();
    STEPS.with(std::cell::Cell::get)
}

/// What is wrong if twice as many things take more than twice the steps, and a little for what there is once.
#[cfg(test)]
fn beyond_linear(what: &str, count: usize, steps: impl Fn(usize) -> usize) -> Option<String> {
    let counts = [count, 2 * count, 4 * count].map(steps);
    let is_beyond = |pair: &[usize]| matches!(pair, [less, more] if *more > 22 * less / 10 + 1024);
    let is_wrong = counts[0] <= count || counts.windows(2).any(is_beyond);
    is_wrong.then(|| format!("{what}: {count} things, twice and four times as many took {counts:?} steps"))
}
