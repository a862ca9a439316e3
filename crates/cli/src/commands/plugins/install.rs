//! Installing: fetched, looked at, judged by what is installed already, shown, consented to, put in place.
//!
//! The hooks at `before_install` are asked before a person is: what they stop costs nobody a look. They are those of every plugin that is
//! on and of the program; whoever can't be asked has failed, and nothing is installed (law 5). Nobody else can be asked there: a
//! request for approval is no answer at this point, and so a failure.

use backstop::Backstop;
use backstop::config::Loaded;
use backstop::engine::Blocked;
use backstop::hooks::points::{
    BeforeInstall, BeforeInstallEvent, FindingSeverity, InstallTarget, SourcePathKind,
};
use backstop::hooks::{CallContext, Params, ToolName};
use backstop::plugins::{FindingKind, Home, Manifest, NoSource, Purpose, Source, Staged};
use serde_json::{Value, json};

use super::{About, Consent, Deed, Records, agree, done, now};
use crate::error::Error;
use crate::output::plain;
use crate::session::{Surroundings, builder, environment};

/// Where the plugin is to be had, if this is no id of one that is installed.
///
/// # Errors
///
/// What is wrong with a place, which no plugin has as its id.
pub(super) fn place(name: &str) -> Result<Option<Source>, NoSource> {
    let is_archive = [".tgz", ".tar.gz", ".tar"].iter().any(|end| name.ends_with(end));
    let is_place = name.contains(['/', ':']) || name == "." || is_archive;
    is_place.then(|| name.parse()).transpose()
}

pub(super) async fn run(
    home: &Home,
    source: &Source,
    consent: &Consent,
    surroundings: &Surroundings,
) -> Result<(), Error> {
    let staged = home.fetch(source, Purpose::Install, &environment).await?;
    let loaded = surroundings.load_with(&tools(&staged.manifest))?;
    let mut told = About::of_staged(&staged, &loaded)?;
    let missing = not_installed(home, &staged, &loaded)?;
    if !missing.is_empty() {
        told.add("configuredAndNotInstalled", &json!(missing), []);
        told.last.extend(missing.iter().map(|line| plain(line)));
    }
    let found = judged(home, source, &staged, &loaded, surroundings).await?;
    if !found.is_empty() {
        told.add(
            "foundByHooks",
            &json!(found),
            std::iter::once("found by hooks:".to_owned()).chain(found.iter().map(|line| format!("  {line}"))),
        );
    }
    let hash = staged.package.hash;
    let records = Records::at(Deed::Installed, Ok(loaded), surroundings).await?;
    agree(consent, &told, hash, &surroundings.output)?;
    let words = staged.origin.words.clone();
    let installed = home.install(staged, hash, &words, now())?;
    records.tell(&installed, &surroundings.output).await?;
    done(&surroundings.output, &installed.id, Deed::Installed)
}

/// The tools that a manifest names, of which the configuration may speak before the plugin is installed.
pub(super) fn tools(manifest: &Manifest) -> Vec<ToolName> {
    manifest.contracts.tools.iter().map(|name| ToolName::new(name)).collect()
}

/// What the configuration says of plugins that are not installed, this one among them. Everybody else refuses such a configuration; who installs
/// must not, or nothing could be configured before it is there.
fn not_installed(home: &Home, staged: &Staged, loaded: &Loaded) -> Result<Vec<String>, Error> {
    let installed = home.installed()?;
    let entries = loaded.config.plugins.entries.iter().map(|(id, _)| id);
    let missing = entries.filter(|id| !installed.iter().any(|other| other.id.as_str() == id.value.as_str()));
    let said = missing.map(|id| match id.value.as_str() == staged.manifest.id.as_str() {
        true => format!("the configuration has `plugins.entries.{}` for it already ({})", id.value.as_str(), id.at),
        false => format!(
            "`plugins.entries.{}` ({}) is of a plugin that is not installed: nothing else starts before it is",
            id.value.as_str(), id.at
        ),
    });
    Ok(said.collect())
}

/// Has the hooks at `before_install` judge it; what they found, a line each.
async fn judged(
    home: &Home,
    source: &Source,
    staged: &Staged,
    loaded: &Loaded,
    surroundings: &Surroundings,
) -> Result<Vec<String>, Error> {
    let named = loaded.config.plugins.entries.iter().map(|(id, _)| id.value.as_str().to_owned());
    let builder = builder(loaded.clone(), surroundings)
        .hook_types(surroundings.types_with(&tools(&staged.manifest)))
        .awaiting(named)
        .store(surroundings.store(loaded)?);
    let backstop = builder.hosts(backstop::all_hosts()).build().await?;
    let asked = ask(&backstop, event(home, source, staged)?).await;
    let is_kept = backstop.shut_down().await;
    let found = asked?;
    match is_kept {
        true => Ok(found),
        false => Err(Error::Failed("the audit trail is not complete, so nothing is installed".to_owned())),
    }
}

async fn ask(backstop: &Backstop, event: BeforeInstallEvent) -> Result<Vec<String>, Error> {
    let decided = backstop.engine().decide::<BeforeInstall>(event, &CallContext::default()).await;
    let found: Vec<String> = (decided.outcome().findings.iter().flatten())
        .map(|finding| {
            let severity = match finding.severity {
                FindingSeverity::Info => "info",
                FindingSeverity::Warn => "warn",
                FindingSeverity::Critical => "critical",
            };
            let place = match (&finding.file, finding.line) {
                (Some(file), Some(line)) => format!(" ({file}:{line})"),
                (Some(file), None) => format!(" ({file})"),
                (None, _) => String::new(),
            };
            format!("{severity}: {}: {}{place}", finding.rule_id, finding.message.as_str())
        })
        .collect();
    match decided.permit() {
        Ok(_) => Ok(found),
        Err(blocked) => Err(Error::Failed(refusal(&blocked, &found))),
    }
}

fn refusal(blocked: &Blocked, found: &[String]) -> String {
    let hook = blocked.hook.as_ref().map_or("a hook", |hook| hook.as_str());
    let reason = blocked.reason.as_ref().map(ToString::to_string).unwrap_or_default();
    let reason = if reason.is_empty() { "it gives no reason".to_owned() } else { reason };
    let found: String = found.iter().map(|line| format!("\n  {line}")).collect();
    plain_lines(&format!(
        "`{hook}` stops the installation: {reason}{found}\nhint: `backstop plugins disable` switches the plugin off that it belongs to; nothing was changed"
    ))
}

fn plain_lines(text: &str) -> String {
    text.lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// What the hooks are told, under the names that OpenClaw's installer has for it.
fn event(home: &Home, source: &Source, staged: &Staged) -> Result<BeforeInstallEvent, Error> {
    let manifest = &staged.manifest;
    let is_update = home.installed()?.iter().any(|other| other.id == manifest.id);
    let findings: Vec<Value> = (staged.package.findings.iter())
        .flat_map(|finding| {
            finding.places.iter().map(|place| {
                json!({ "ruleId": finding.kind, "severity": severity(finding.kind), "file": place, "message": finding.kind.sentence() })
            })
        })
        .collect();
    let count =
        |word: &str| findings.iter().filter(|finding| finding.get("severity") == Some(&json!(word))).count();
    let scan = json!({
        "status": "ok", "scannedFiles": staged.package.entries, "critical": count("critical"), "warn": count("warn"), "info": count("info"),
        "findings": findings,
    });
    let request = json!({
        "kind": source.kind(), "mode": if is_update { "update" } else { "install" }, "requestedSpecifier": source.to_string(),
    });
    let plugin = json!({
        "pluginId": manifest.id, "manifestId": manifest.id, "contentType": "package", "version": manifest.version,
        "kind": manifest.kind.as_str(), "contentHash": staged.package.hash,
        "permissions": manifest.asked.as_ref().map(backstop::plugins::Permissions::sentences),
    });
    let place = staged.folder().display().to_string();
    let event = BeforeInstallEvent::new(InstallTarget::Plugin, manifest.id.as_str(), place, params(request));
    Ok(event
        .source_path_kind(SourcePathKind::Directory)
        .origin(staged.origin.words.clone())
        .builtin_scan(params(scan))
        .plugin(params(plugin)))
}

fn params(value: Value) -> Params {
    Params::from_value(value).unwrap_or_default()
}

/// How grave a finding is, as far as a word can say it.
const fn severity(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::HiddenText | FindingKind::Obfuscated => "critical",
        FindingKind::Minified
        | FindingKind::Unreadable
        | FindingKind::NativeCode
        | FindingKind::InstallScript
        | FindingKind::LookAlike => "warn",
        FindingKind::Network => "info",
    }
}
