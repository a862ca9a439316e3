//! `cargo xtask bench`: the benchmarks, and only them.

use serde_json::Value;

use crate::error::Error;
use crate::step::execute;
use crate::workspace::{cargo, packages};

/// Runs all benchmarks, or the one with this name.
pub(crate) fn run(name: Option<&str>) -> Result<(), Error> {
    let benches = benches()?;
    let chosen: Vec<_> = benches.iter().filter(|(_, bench)| name.is_none_or(|name| name == bench)).collect();
    if chosen.is_empty() {
        let benches = benches.into_iter().map(|(_, bench)| bench).collect();
        return Err(Error::UnknownBench { name: name.unwrap_or("*").to_owned(), benches });
    }
    for (package, bench) in chosen {
        execute(cargo(["bench", "--package", package, "--bench", bench]))?;
    }
    Ok(())
}

/// Package and name of each benchmark.
fn benches() -> Result<Vec<(String, String)>, Error> {
    let name = |value: &Value| value.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let items =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    Ok(packages()?
        .iter()
        .flat_map(|package| items(package, "targets").into_iter().map(move |target| (name(package), target)))
        .filter(|(_, target)| items(target, "kind").iter().any(|kind| kind == "bench"))
        .map(|(package, target)| (package, name(&target)))
        .collect())
}
