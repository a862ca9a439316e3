//! `backstop audit witness`, and what witnesses say when the trail is verified.

use backstop::store::Store;
use backstop::{Stamps, WitnessError, Witnesses};
use serde_json::{Value, json};

use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style};

/// What witnesses have of the trail.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The checkpoints that they keep.
    pub(super) kept: Vec<String>,
    /// How many each keeps, by its name.
    known: Vec<(String, usize)>,
    /// What authorities stamped, by their names.
    stamped: Vec<(String, Stamps)>,
    /// Those that have nothing to say of it, and why.
    pub(super) silent: Vec<(String, WitnessError)>,
}

impl Heard {
    /// Asks all. One that has seen more or other entries than there are ends it.
    pub(super) async fn from(witnesses: &Witnesses, store: &dyn Store) -> Result<Self, Error> {
        let mut heard = Self::default();
        for (name, found) in witnesses.kept(store).await {
            match found {
                Ok(kept) => {
                    heard.known.push((name, kept.len()));
                    heard.kept.extend(kept);
                }
                Err(source) if source.is_tampering() => return Err(Error::Witness { name, source }),
                Err(source) => heard.silent.push((name, source)),
            }
        }
        for (name, found) in witnesses.stamps(store).await {
            match found {
                Ok(stamps) => {
                    if stamps.unreadable > 0 {
                        heard.silent.push((name.clone(), WitnessError::Unreadable(stamps.unreadable)));
                    }
                    heard.stamped.push((name, stamps));
                }
                Err(source) if source.is_tampering() => return Err(Error::Witness { name, source }),
                Err(source) => heard.silent.push((name, source)),
            }
        }
        Ok(heard)
    }

    pub(super) fn json(&self) -> Value {
        let known = self.known.iter().map(|(name, kept)| json!({ "witness": name, "checkpoints": kept }));
        let silent =
            self.silent.iter().map(|(name, why)| json!({ "witness": name, "error": why.to_string() }));
        let stamped = self.stamped.iter().map(|(name, stamps)| json!({ "witness": name, "stamps": stamps }));
        known.chain(stamped).chain(silent).collect()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let line = |(name, kept): &(String, usize)| {
            format!("it is the trail of which the witness {name} keeps {kept} {}", checkpoints(*kept))
        };
        let stamped = self.stamped.iter().flat_map(|(name, stamps)| {
            let Stamps { count, entries, at, check, .. } = stamps;
            [
                format!("{name} stamped {count} {}, the newest at {at}, of {entries} entries", checkpoints(*count)),
                format!("its signature is not checked here; with the certificate of the authority as CA.pem: {check}"),
            ]
        });
        self.known.iter().map(line).chain(stamped).collect()
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        let warning = |(name, why): &(String, WitnessError)| {
            format!("warning: the witness {name} proves nothing: {why}")
        };
        self.silent.iter().map(warning).collect()
    }
}

fn checkpoints(count: usize) -> &'static str {
    if count == 1 { "checkpoint" } else { "checkpoints" }
}

/// Hands the newest checkpoint to all. Ends with 3 where one did not take it, and with 1 where one knows another trail.
pub(super) async fn tell(witnesses: &Witnesses, store: &dyn Store, output: &Output) -> Result<Exit, Error> {
    if witnesses.is_empty() {
        return Err(Error::Failed(
            "there is no witness\nhint: `audit.witness` in the configuration names folders and servers that keep checkpoints".to_owned(),
        ));
    }
    let told = witnesses.tell(store).await;
    if output.is_json() {
        let rows = told.iter().map(|(name, found)| match found {
            Ok(found) => json!({ "witness": name, "has": found }),
            Err(why) => json!({ "witness": name, "error": why.to_string(), "tampering": why.is_tampering() }),
        });
        output.json(&rows.collect::<Value>())?;
    }
    let (mut exit, paint) = (Exit::Success, output.paint());
    for (name, found) in told {
        match found {
            Ok(found) if !output.is_json() => {
                let has =
                    paint.with(Style::Good, format!("{name} has a checkpoint of {} entries", found.entries));
                output.text(&has)?;
            }
            Ok(_) => {}
            Err(source) if source.is_tampering() => return Err(Error::Witness { name, source }),
            Err(why) => {
                let has = match why.is_beside() {
                    true => "has a checkpoint of this moment, and not all is well there",
                    false => "has no checkpoint of this moment",
                };
                output.say(&format!("warning: the witness {name} {has}: {why}"));
                exit = Exit::Incomplete;
            }
        }
    }
    Ok(exit)
}
