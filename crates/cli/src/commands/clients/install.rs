//! `backstop install` and `backstop uninstall`.

use backstop::clients::Client;
use backstop::clients::install::{
    Change, Folders, Plan, PlanError, Program, Scope, is_trusted, plan_install, plan_uninstall,
};
use serde_json::{Value, json};

use super::recorded::Trail;
use super::{Chosen, entry_program, folders, guide, scope_name};
use crate::commands::config;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, plain};
use crate::session::Surroundings;

/// What is to be written.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) chosen: Chosen,
    pub(crate) scope: Scope,
    /// Show it, and write nothing.
    pub(crate) dry_run: bool,
    /// Take our entries out instead of putting them in.
    pub(crate) remove: bool,
}

pub(in crate::commands) async fn run(
    settings: &Settings,
    surroundings: &Surroundings,
) -> Result<Exit, Error> {
    if !settings.remove && surroundings.explicit_config().is_some() {
        // Taken for granted and left out, it would leave the hooks with another policy than the user believes.
        return Err(Error::Usage(
            "hooks read the operator's file in the user's configuration folder, so `--config` has no effect on them\nhint: `backstop config show` says which files are read; `backstop run --config` takes any file for one run".to_owned(),
        ));
    }
    let folders = folders()?;
    let program = entry_program(settings.scope, surroundings)?;
    let output = &surroundings.output;
    let clients = match (&settings.chosen, settings.remove) {
        (Chosen::All, true) => Client::ALL.to_vec(),
        (Chosen::All, false) => {
            let mut found = settings.chosen.clients(&folders);
            found.retain(|client| client.layout().path(settings.scope, &folders).is_some());
            found
        }
        (chosen, _) => chosen.clients(&folders),
    };
    if clients.is_empty() {
        output.say("no client was found; name those that are meant, as in `backstop install claude`");
    }
    let mut exit = Exit::Success;
    if !settings.remove && !settings.dry_run && settings.scope == Scope::User && !clients.is_empty() {
        // Before any entry demands it.
        if let Some(untold) = config::pin(surroundings).await? {
            // Hooks that are there judge, also where the trail does not tell of it.
            output.say(&format!("error: {untold}"));
            exit = Exit::Failed;
        }
    }
    let trail = if settings.dry_run { Trail::Unwanted } else { Trail::of(surroundings) };
    let mut told = Vec::new();
    let mut done_for = Vec::new();
    for client in clients {
        let plan = if settings.remove { plan_uninstall } else { plan_install };
        let planned = plan(client, settings.scope, &folders, program.clone()).map_err(Error::from);
        if let (Ok(plan), false) = (&planned, output.is_json()) {
            show(plan, settings, output)?;
        }
        // One client's file that can't be edited is no reason to leave the others open.
        let done = match planned {
            Ok(plan) if !settings.dry_run => {
                let (done, is_told) = carry_out(&plan, &trail, settings, output).await;
                if !is_told {
                    exit = Exit::Failed;
                }
                done.map(|()| plan)
            }
            planned => planned,
        };
        match done {
            Ok(plan) => {
                done_for.push(plan.client);
                told.push(report(&plan, settings));
            }
            Err(error) => {
                exit = Exit::Failed;
                output.say(&error.report());
                told.push(json!({ "client": client.name(), "error": error.to_string() }));
            }
        }
    }
    if output.is_json() {
        output.json(&told)?;
    } else if settings.dry_run {
        output.say("nothing was written");
    }
    if !settings.remove && !settings.dry_run {
        steps_left(&done_for, &folders, &program, output)?;
    }
    Ok(exit)
}

/// Carries a plan out as far as that goes, and has the trail tell what was changed. Returns besides whether the trail tells.
async fn carry_out(
    plan: &Plan,
    trail: &Trail,
    settings: &Settings,
    output: &Output,
) -> (Result<(), Error>, bool) {
    let (made, done) = plan.apply_counting();
    let failed_after = done.is_err().then_some(made);
    let done = done.map_err(Error::from);
    if made > 0
        && let Err(error) = trail.tell(plan, failed_after, settings, output).await
    {
        output.say(&error.report());
        return (done, false);
    }
    (done, true)
}

/// What only the user can do, said last and loudest: without it the client runs none of what was installed.
fn steps_left(
    clients: &[Client],
    folders: &Folders,
    program: &Program,
    output: &Output,
) -> Result<(), Error> {
    for client in clients {
        if is_trusted(*client, folders, program.clone()).map_err(PlanError::from)? == Some(false) {
            let step = format!(
                "ONE STEP IS LEFT: start `{client}` and enter `/hooks` to trust these hooks. Until then {} runs none of them and says nothing.",
                client.title()
            );
            output.say(&format!("\n{}", output.talk_paint().with(Style::Bad, step)));
        }
    }
    Ok(())
}

fn show(plan: &Plan, settings: &Settings, output: &Output) -> Result<(), Error> {
    let mut text = String::new();
    if settings.remove {
        text.push_str(plan.client.title());
        text.push('\n');
    } else {
        text.push_str(&guide::for_terminal(plan.client));
    }
    if plan.is_empty() {
        let nothing = if settings.remove { "nothing of ours is there" } else { "is installed already" };
        text.push_str(&format!("  {nothing}\n"));
    }
    for change in &plan.changes {
        let path = plain(&change.path.display().to_string());
        text.push_str(&format!("  {} {path}\n", output.paint().with(Style::Name, verb(change))));
        if let Some(backup) = &change.backup {
            text.push_str(&format!("    as it was: {}\n", plain(&backup.display().to_string())));
        }
    }
    Ok(output.text(&text)?)
}

/// What is done with a file.
pub(super) fn verb(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "creates",
        (Some(_), None) => "removes",
        (Some(_), Some(_)) => "changes",
    }
}

fn report(plan: &Plan, settings: &Settings) -> Value {
    let change = |change: &Change| {
        json!({
            "path": change.path, "action": verb(change), "backup": change.backup,
        })
    };
    json!({
        "client": plan.client.name(),
        "scope": scope_name(settings.scope),
        "written": !settings.dry_run && !plan.is_empty(),
        "changes": plan.changes.iter().map(change).collect::<Vec<_>>(),
        "capabilities": guide::for_programs(plan.client),
    })
}
