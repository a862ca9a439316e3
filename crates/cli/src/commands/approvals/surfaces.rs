//! `backstop approvals surfaces`: where people are told away from this machine, and whether that works.

use backstop::store::Timestamp;
use backstop::surfaces::{Ceiling, QuietHours, Surface, Surfaces, surfaces};
use serde_json::{Value, json};

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{one_line, table};
use crate::session::{Surroundings, environment};

/// Lists the surfaces, or tests the one of this name.
pub(super) async fn run(test: Option<&str>, surroundings: &Surroundings) -> Result<Exit, Error> {
    let loaded = surroundings.load()?;
    let Surfaces { all, quiet, .. } = surfaces(&loaded, &environment)?;
    let Some(name) = test else {
        return list(&all.iter().map(AsRef::as_ref).collect::<Vec<_>>(), quiet.as_ref(), surroundings);
    };
    let Some(surface) = all.iter().find(|surface| surface.name().as_str() == name) else {
        let known: Vec<&str> = all.iter().map(|surface| surface.name().as_str()).collect();
        let hint = match known.as_slice() {
            [] => "`approvals.surfaces` has none".to_owned(),
            known => format!("there are `{}`", known.join("`, `")),
        };
        return Err(Error::Failed(format!("no surface is called `{}`\nhint: {hint}", one_line(name, 64))));
    };
    let output = &surroundings.output;
    let (mut exit, mut told) = (Exit::Success, Vec::new());
    for place in surface.places().iter() {
        let sent = surface.test(place).await;
        let shown = if place.is_empty() { name } else { place };
        match &sent {
            Ok(reference) if !output.is_json() => {
                output.text(&format!("{}: sent, {reference}", one_line(shown, 80)))?;
            }
            Err(error) if !output.is_json() => {
                output.say(&format!("error: {}: {error}", one_line(shown, 80)));
            }
            Ok(_) | Err(_) => {}
        }
        if sent.is_err() {
            exit = Exit::Failed;
        }
        told.push(match sent {
            Ok(reference) => json!({ "place": place, "sent": reference }),
            Err(error) => json!({ "place": place, "error": error.to_string() }),
        });
    }
    if output.is_json() {
        output.json(&json!({ "surface": name, "kind": surface.kind(), "places": told }))?;
    }
    Ok(exit)
}

fn list(
    all: &[&dyn Surface],
    quiet: Option<&QuietHours>,
    surroundings: &Surroundings,
) -> Result<Exit, Error> {
    let (output, now) = (&surroundings.output, Timestamp::now());
    let answers = |surface: &dyn Surface| match surface.ceiling() {
        Ceiling::Notice => "none",
        Ceiling::Deny => "deny",
        Ceiling::Once => "once",
    };
    if output.is_json() {
        let quiet_until = quiet.and_then(|quiet| Some(now.after(quiet.left(now)?)));
        let listed: Vec<Value> = all
            .iter()
            .map(|surface| {
                json!({
                    "surface": surface.name().as_str(),
                    "kind": surface.kind(),
                    "answers": answers(*surface),
                    "places": surface.places(),
                    "quietUntil": quiet_until,
                })
            })
            .collect();
        output.json(&listed)?;
        return Ok(Exit::Success);
    }
    if all.is_empty() {
        output.say("no surfaces are configured; docs/surfaces.md says how");
        return Ok(Exit::Success);
    }
    let mut rows = vec![["surface", "kind", "answers", "told"].map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|surface| {
        let places = surface.places();
        let places = places.iter().filter(|place| !place.is_empty());
        let places = places.map(|place| one_line(place, 40)).collect::<Vec<_>>().join(", ");
        vec![surface.name().to_string(), surface.kind().to_owned(), answers(*surface).to_owned(), places]
    }));
    output.text(&table(&rows))?;
    if let Some(quiet) = quiet {
        output.say(&quiet.in_words(now));
    }
    Ok(Exit::Success)
}
