//! `guards.*` as hooks.
//!
//! A guard is on unless the operator wrote `enabled: false`, in its own section or in `plugins.entries`
//! under its id.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backstop_config::{
    AllowCommand, CommandSafety, ExpiryDate, Loaded, Node, Pack, Place, Problem, ProblemKind, Profile,
    SensitiveFiles, Spanned, Unknown,
};
use backstop_engine::Snapshot;
use backstop_guards::hooks::{
    COMMAND_SAFETY_ID, CommandSafety as CommandHooks, FilePatterns, REDACTOR_ID, RulesInShadow,
    SECURITY_AUDIT_ID, SecurityAudit, mask_for_people, register_command_safety_in, register_rules_in_shadow,
    register_security_audit_in,
};
use backstop_guards::programs::{Programs, programs_of, read_programs};
use backstop_guards::{
    AllowEntry, GuardSettings, PathGuard, Profile as GuardProfile, Rule, RuleSet, UNKNOWN_READER,
    UNSEEN_INPUT, UnknownPolicy, read_pack, real_path, rules_of,
};
use backstop_hooks::OwnerId;
use backstop_store::SqliteStore;

use super::operator::mode;
use super::secrets::secret_files;
use super::{problem, redaction};
use crate::locations::{from_operator, kept_key_file};

/// The built-in guards, which the configuration may name also where they are switched off.
pub(super) const IDS: [&str; 3] = [COMMAND_SAFETY_ID, SECURITY_AUDIT_ID, REDACTOR_ID];

/// The largest rule pack or catalogue: the most YAML that is read.
const MAX_PACK_BYTES: u64 = 1024 * 1024;

pub(super) fn register(loaded: &Loaded, home: Option<&str>, snapshot: &mut Snapshot) -> Vec<Problem> {
    let mut problems = Vec::new();
    let commands = &loaded.config.guards.command_safety;
    if commands.enabled.value && is_on(snapshot, COMMAND_SAFETY_ID) {
        match command_settings(loaded, commands) {
            Ok(settings) => {
                let make = |guard| CommandHooks::new(guard, home).reading_files();
                let (counting, shadow) = RulesInShadow::split(settings, make);
                let mode = mode(commands.mode.value);
                let stands = match shadow {
                    None => register_command_safety_in(snapshot, &counting, mode),
                    // All of it is in shadow.
                    Some(rules) if mode.is_shadow() => {
                        register_command_safety_in(snapshot, &rules.whole(), mode)
                    }
                    Some(rules) => register_command_safety_in(snapshot, &counting, mode)
                        .and_then(|()| register_rules_in_shadow(snapshot, &rules)),
                };
                problems.extend(stands.err().map(|error| builtin(&error)));
            }
            Err(found) => problems.extend(found),
        }
    }
    let files = &loaded.config.guards.sensitive_files;
    if files.enabled.value && is_on(snapshot, SECURITY_AUDIT_ID) {
        match file_guard(loaded, files, profile(commands.profile.value), home) {
            Ok(hooks) => {
                let stands = register_security_audit_in(snapshot, &hooks, mode(files.mode.value));
                problems.extend(stands.err().map(|error| builtin(&error)));
            }
            Err(found) => problems.extend(found),
        }
    }
    match redaction::catalogue(loaded).map(Arc::new) {
        Ok(catalogue) => {
            // Whoever is asked reads no secrets, whatever is done with secrets elsewhere.
            mask_for_people(snapshot, Arc::clone(&catalogue));
            if is_on(snapshot, REDACTOR_ID) {
                problems.extend(redaction::register(loaded, catalogue, snapshot));
            }
        }
        Err(found) => problems.extend(found),
    }
    problems
}

fn is_on(snapshot: &Snapshot, id: &str) -> bool {
    snapshot.settings().owner(&OwnerId::new(id)).and_then(|settings| settings.enabled) != Some(false)
}

pub(super) fn builtin(error: &impl ToString) -> Problem {
    problem(&Place::file_only("built-in guards"), error)
}

// ==== commands ====

fn command_settings(loaded: &Loaded, section: &CommandSafety) -> Result<GuardSettings, Vec<Problem>> {
    let profile = profile(section.profile.value);
    let unknown = match section.unknown.value {
        // The default is to do what the profile is about.
        Unknown::Ask if section.unknown.is_built_in() => None,
        Unknown::Ask if profile == GuardProfile::Strict => Some(UnknownPolicy::AskAll),
        Unknown::Ask => Some(UnknownPolicy::AskCarriers),
        Unknown::Pass => Some(UnknownPolicy::PassAll),
        Unknown::Block if profile == GuardProfile::Strict => Some(UnknownPolicy::BlockAll),
        Unknown::Block => Some(UnknownPolicy::BlockCarriers),
    };
    let programs = programs(loaded, &section.programs)?;
    let rules = rules(loaded, &section.packs, &programs)?;
    let mut problems = Vec::new();
    let mut take = |entry: Result<AllowEntry, Problem>| entry.map_err(|problem| problems.push(problem)).ok();
    let allow = section.allow.iter().filter_map(|entry| take(allow_entry(entry, &rules))).collect();
    let in_shadow = section.shadow.iter().filter_map(|rule| rule_in_shadow(rule, &rules).err());
    problems.extend(in_shadow);
    let without = section.shadow.iter().map(|rule| rule.value.as_str().to_owned()).collect();
    match problems.is_empty() {
        true => Ok(GuardSettings {
            profile,
            rules,
            programs,
            allow,
            without,
            unknown,
            ..GuardSettings::default()
        }),
        false => Err(problems),
    }
}

/// A rule that does not exist would be tried in vain, and what is no rule of a pack can't be taken out of the guard.
fn rule_in_shadow(rule: &Spanned<backstop_config::Name>, rules: &RuleSet) -> Result<(), Problem> {
    let name = rule.value.as_str();
    if rules.rules().any(|known| known.id == name) {
        return Ok(());
    }
    let message = format!("no rule of the command guard is called `{name}`, so it can't be in shadow");
    let hint = match name {
        "*" => "`guards.command_safety.mode: shadow` is for the guard as a whole",
        _ => {
            "`backstop explain` names the rules of packs; what the guard asks about without one stays as it is"
        }
    };
    Err(Problem::new(ProblemKind::UnknownName, rule.at.clone(), message).with_hint(hint))
}

fn profile(profile: Profile) -> GuardProfile {
    match profile {
        Profile::Core => GuardProfile::Core,
        Profile::Standard => GuardProfile::Standard,
        Profile::Strict => GuardProfile::Strict,
    }
}

fn allow_entry(entry: &AllowCommand, rules: &RuleSet) -> Result<AllowEntry, Problem> {
    let rule = match &entry.rule {
        Some(rule) => {
            known_rule(rule, rules)?;
            rule.value.as_str().to_owned()
        }
        None => "*".to_owned(),
    };
    Ok(AllowEntry {
        rule,
        command: entry.command.as_ref().map(|command| command.value.expose().to_owned()),
        reason: entry.reason.value.expose().to_owned(),
        expires_at: entry.expires.as_ref().map(|expires| end_of(expires.value)),
    })
}

/// An exception for a rule that does not exist would be an exception for nothing.
fn known_rule(rule: &Spanned<backstop_config::Name>, rules: &RuleSet) -> Result<(), Problem> {
    let name = rule.value.as_str();
    let named = ["*", UNSEEN_INPUT, UNKNOWN_READER].contains(&name);
    if named || rules.rules().any(|known| known.id == name) {
        return Ok(());
    }
    let message = format!("no rule of the command guard is called `{name}`");
    Err(Problem::new(ProblemKind::UnknownName, rule.at.clone(), message)
        .with_hint("`backstop explain` names the rule that stops a command"))
}

/// The end of that day, in seconds since 1970 (UTC).
fn end_of(date: ExpiryDate) -> u64 {
    let next = date.0.saturating_add(jiff::Span::new().days(1));
    let midnight = next.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp().as_second());
    u64::try_from(midnight.unwrap_or_default()).unwrap_or_default()
}

fn rules(loaded: &Loaded, packs: &[Pack], programs: &Arc<Programs>) -> Result<Arc<RuleSet>, Vec<Problem>> {
    if packs.is_empty() {
        return Ok(RuleSet::built_in());
    }
    let rules: Vec<Spanned<Rule>> = gathered(loaded, packs, "rule pack", read_pack, rules_of)?;
    let places: Vec<(String, Place)> =
        rules.iter().map(|rule| (rule.value.id.clone(), rule.at.clone())).collect();
    let rules = rules.into_iter().map(|rule| rule.value).collect();
    RuleSet::with_programs(rules, programs).map(Arc::new).map_err(|error| {
        // The last one of a name is the one too many.
        let at = places.iter().rfind(|(id, _)| id == error.id()).map(|(_, at)| at);
        vec![at.map_or_else(|| builtin(&error), |at| problem(at, &error))]
    })
}

fn programs(loaded: &Loaded, catalogues: &[Pack]) -> Result<Arc<Programs>, Vec<Problem>> {
    if catalogues.is_empty() {
        return Ok(Programs::built_in());
    }
    let entries = gathered(loaded, catalogues, "catalogue", read_programs, programs_of)?;
    Programs::with(entries).map(Arc::new).map_err(|problem| vec![problem])
}

/// What a file lists, each with its place, or every problem with it.
type Listed<T> = Result<Vec<Spanned<T>>, Vec<Problem>>;

/// What all files hold and what is written in place, or every problem with it.
fn gathered<T>(
    loaded: &Loaded,
    packs: &[Pack],
    what: &str,
    of_text: fn(&str, &str) -> Listed<T>,
    of_node: fn(&Node) -> Listed<T>,
) -> Listed<T> {
    let (mut all, mut problems) = (Vec::new(), Vec::new());
    for pack in packs {
        let read = match pack {
            Pack::File(path) => {
                let file = from_operator(loaded, path.value.expose());
                text_of(loaded, &file, what, &path.at)
                    .and_then(|text| of_text(&file.to_string_lossy(), &text))
            }
            Pack::Inline(options) => of_node(&options.expose_node()),
        };
        match read {
            Ok(more) => all.extend(more),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(all) } else { Err(problems) }
}

/// Returns the text of a file that the configuration names, and notes that it was read.
pub(super) fn text_of(loaded: &Loaded, path: &Path, what: &str, at: &Place) -> Result<String, Vec<Problem>> {
    use std::io::Read as _;
    let unreadable = |why: &dyn std::fmt::Display| {
        let message = format!("the {what} `{}` can't be read: {why}", path.display());
        vec![Problem::new(ProblemKind::Unreadable, at.clone(), message)]
    };
    let file = std::fs::File::open(path).map_err(|error| unreadable(&error))?;
    let mut text = String::new();
    file.take(MAX_PACK_BYTES + 1).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    if text.len() as u64 > MAX_PACK_BYTES {
        return Err(unreadable(&format_args!("it is larger than {MAX_PACK_BYTES} bytes")));
    }
    loaded.readings.note_file(path, &text);
    Ok(text)
}

// ==== files ====

/// Returns the files with secrets of the configuration, as patterns: by their paths and by those to which these lead.
fn own_secrets(loaded: &Loaded) -> Vec<String> {
    // What has replaced the key of the trail may lie beside it, and what soon does.
    let beside = kept_key_file(loaded).into_iter().flat_map(|key| SqliteStore::keys_of_trail(&key));
    let files: BTreeSet<PathBuf> = secret_files(loaded).into_iter().chain(beside).collect();
    // A path that is no text is compared with none.
    let written = files.into_iter().filter_map(|path| path.into_os_string().into_string().ok());
    written
        .flat_map(|path| {
            let real = path.starts_with('/').then(|| real_path(&path)).flatten();
            let real = real.filter(|real| *real != path);
            [Some(path), real].into_iter().flatten().map(|path| FilePatterns::of_path(&path))
        })
        .collect()
}

fn file_guard(
    loaded: &Loaded,
    section: &SensitiveFiles,
    profile: GuardProfile,
    home: Option<&str>,
) -> Result<SecurityAudit, Vec<Problem>> {
    // Whether an exception is over is looked at for each call, as with commands: those of one end belong together.
    let mut written: BTreeMap<Option<u64>, Vec<(&Place, &str)>> = BTreeMap::new();
    for entry in &section.allow {
        let end = entry.expires.as_ref().map(|expires| end_of(expires.value));
        written.entry(end).or_default().push((&entry.path.at, entry.path.value.expose()));
    }
    let (mut allow, mut problems) = (Vec::new(), Vec::new());
    for (end, written) in written {
        match patterns(written.into_iter(), home) {
            Ok(patterns) => allow.push((patterns, end)),
            Err(found) => problems.extend(found),
        }
    }
    let (own, at) = (own_secrets(loaded), Place::file_only("secrets of the configuration"));
    let own = own.iter().map(|path| (&at, path.as_str()));
    let deny = section.deny.iter().map(|path| (&path.at, path.value.expose())).chain(own);
    match patterns(deny, home) {
        Ok(deny) if problems.is_empty() => {
            Ok(SecurityAudit::new(PathGuard::new(profile).resolving_symlinks(), allow, deny, home))
        }
        Ok(_) => Err(problems),
        Err(found) => {
            problems.extend(found);
            Err(problems)
        }
    }
}

fn patterns<'a>(
    written: impl Iterator<Item = (&'a Place, &'a str)>,
    home: Option<&str>,
) -> Result<FilePatterns, Vec<Problem>> {
    let written: Vec<_> = written.collect();
    let alone = |(at, pattern): &(&Place, &str)| {
        FilePatterns::new([*pattern], home).err().map(|error| problem(at, &error))
    };
    let problems: Vec<_> = written.iter().filter_map(alone).collect();
    if !problems.is_empty() {
        return Err(problems);
    }
    FilePatterns::new(written.iter().map(|(_, pattern)| *pattern), home)
        .map_err(|error| vec![written.first().map_or_else(|| builtin(&error), |(at, _)| problem(at, &error))])
}

#[cfg(test)]
mod tests {
    use backstop_config::{LayerKind, Source};

    use super::*;
    use crate::{HookTypes, load_sources};

    #[test]
    fn files_with_secrets_of_the_configuration_are_nobodys() {
        let text = "
audit: { key_file: '/nowhere/keys[1]/trail' }
gateway: { operators: { token_file: /nowhere/desk } }
";
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &|_: &str| None).unwrap();
        let mut patterns = own_secrets(&loaded);
        patterns.sort();
        let trail = "/nowhere/keys[[]1[]]/trail";
        let expected =
            ["/nowhere/desk".to_owned(), trail.to_owned(), format!("{trail}.next"), format!("{trail}.old")];
        assert_eq!(patterns, expected);
        let guard = file_guard(&loaded, &loaded.config.guards.sensitive_files, GuardProfile::Standard, None);
        assert!(guard.is_ok());
    }
}
