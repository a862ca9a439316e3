//! `guards.secrets`, `guards.personal_data` and `guards.hidden_text` as the redactor's hooks.

use std::sync::Arc;

use backstop_config::{
    ArgumentAction, Entries, Guards, HiddenAction, Loaded, Name, Pack, Problem, ProblemKind, Setting,
    SpanAction, Spanned,
};
use backstop_engine::Snapshot;
use backstop_guards::hooks::{ArgumentActions, InArguments, RedactionSettings, register_redaction};
use backstop_scan::{Action, Catalogue, Class, Policy, Scanner, Source};

use super::guards::{builtin, text_of};
use crate::locations::from_operator;

pub(super) fn register(loaded: &Loaded, catalogue: Arc<Catalogue>, snapshot: &mut Snapshot) -> Vec<Problem> {
    let guards = &loaded.config.guards;
    let known = |class, kind| unknown_kind(&catalogue, class, kind);
    let problems: Vec<_> =
        [(Class::Secret, &guards.secrets.kinds), (Class::Pii, &guards.personal_data.kinds)]
            .into_iter()
            .flat_map(|(class, kinds)| kinds.iter().filter_map(move |(kind, _)| known(class, kind)))
            .chain(unused_tools(guards))
            .collect();
    if !problems.is_empty() {
        return problems;
    }
    let registered = register_redaction(snapshot, &RedactionSettings { catalogue, ..settings(guards) });
    registered.err().map(|error| builtin(&error)).into_iter().collect()
}

/// What the operator added to what is looked for, or every problem with it.
pub(super) fn catalogue(loaded: &Loaded) -> Result<Catalogue, Vec<Problem>> {
    let guards = &loaded.config.guards;
    let lists = [(Class::Secret, &guards.secrets.formats), (Class::Pii, &guards.personal_data.formats)];
    let (mut files, mut entries, mut problems) = (Vec::new(), Vec::new(), Vec::new());
    for (class, pack) in
        lists.into_iter().flat_map(|(class, packs)| packs.iter().map(move |pack| (class, pack)))
    {
        match pack {
            Pack::Inline(options) => entries.push((class, options.expose_node())),
            Pack::File(path) => {
                let file = from_operator(loaded, path.value.expose());
                match text_of(loaded, &file, "catalogue", &path.at) {
                    Ok(text) => files.push((class, file.to_string_lossy().into_owned(), text)),
                    Err(found) => problems.extend(found),
                }
            }
        }
    }
    let files = files.iter().map(|(class, name, text)| Source::file(*class, name, text));
    let sources: Vec<Source<'_>> =
        files.chain(entries.iter().map(|(class, entry)| Source::entry(*class, entry))).collect();
    match Catalogue::read(&sources) {
        Ok(catalogue) if problems.is_empty() => Ok(catalogue),
        Ok(_) => Err(problems),
        Err(found) => Err(problems.into_iter().chain(found).collect()),
    }
}

fn settings(guards: &Guards) -> RedactionSettings {
    let Guards { secrets, personal_data: personal, hidden_text: hidden, .. } = guards;
    let policy = |secret: &Setting<SpanAction>, pii: &Setting<SpanAction>, shown: &Setting<HiddenAction>| {
        let policy = Policy::new(Action::Ignore);
        let policy = with_class(policy, Class::Secret, secrets.enabled.value, secret.value, &secrets.kinds);
        let policy = with_class(policy, Class::Pii, personal.enabled.value, pii.value, &personal.kinds);
        let shown = if hidden.enabled.value { hidden_action(shown.value) } else { Action::Ignore };
        policy.class(Class::Hidden, shown)
    };
    let restored_in = secrets.restore_in.as_ref().map(|tools| tools.value.names()).unwrap_or_default();
    RedactionSettings {
        results: policy(&secrets.results, &personal.results, &hidden.results),
        answers: policy(&secrets.answers, &personal.answers, &hidden.answers),
        prompts: policy(&secrets.prompts, &personal.prompts, &hidden.prompts),
        withdraws_tools: hidden.enabled.value && hidden.tools.value >= HiddenAction::Strip,
        reports_tools: hidden.enabled.value && hidden.tools.value == HiddenAction::Report,
        restored_in: restored_in.iter().map(|tool| tool.canonical().to_owned()).collect(),
        arguments: ArgumentActions {
            secrets: in_arguments(&secrets.enabled, &secrets.arguments),
            personal_data: in_arguments(&personal.enabled, &personal.arguments),
            hidden: in_arguments(&hidden.enabled, &hidden.arguments),
        },
        catalogue: Arc::default(),
    }
}

fn with_class(
    policy: Policy,
    class: Class,
    enabled: bool,
    action: SpanAction,
    kinds: &Entries<Name, Spanned<SpanAction>>,
) -> Policy {
    if !enabled {
        return policy.class(class, Action::Ignore);
    }
    let policy = policy.class(class, span_action(action));
    kinds
        .iter()
        .fold(policy, |policy, (kind, action)| policy.kind(kind.value.as_str(), span_action(action.value)))
}

fn span_action(action: SpanAction) -> Action {
    match action {
        SpanAction::Off => Action::Ignore,
        SpanAction::Report => Action::Report,
        SpanAction::Placeholder => Action::Placeholder,
        SpanAction::Mask => Action::Mask,
        SpanAction::Hash => Action::Hash,
        SpanAction::Redact => Action::Redact,
        SpanAction::Block => Action::Block,
    }
}

fn in_arguments(enabled: &Setting<bool>, action: &Setting<ArgumentAction>) -> Option<InArguments> {
    match action.value {
        _ if !enabled.value => None,
        ArgumentAction::Off => None,
        ArgumentAction::Report => Some(InArguments::Report),
        ArgumentAction::Ask => Some(InArguments::Ask),
        ArgumentAction::Block => Some(InArguments::Block),
    }
}

fn hidden_action(action: HiddenAction) -> Action {
    match action {
        HiddenAction::Off => Action::Ignore,
        HiddenAction::Report => Action::Report,
        HiddenAction::Strip => Action::Remove,
        HiddenAction::Block => Action::Block,
    }
}

/// An action for a kind that nothing finds would be an action for nothing.
fn unknown_kind(catalogue: &Catalogue, class: Class, kind: &Spanned<Name>) -> Option<Problem> {
    let mut known = Scanner::kinds(class);
    known.extend(catalogue.kinds(class));
    let name = kind.value.as_str();
    if known.contains(name) {
        return None;
    }
    let what = if class == Class::Pii { "personal data" } else { "secret" };
    let message = format!("no kind of {what} is called `{name}`");
    let names: Vec<_> = known.into_iter().collect();
    let hint = format!("the kinds are {}", names.join(", "));
    Some(Problem::new(ProblemKind::UnknownName, kind.at.clone(), message).with_hint(hint))
}

/// Tools that could be given values although nothing is ever kept for them.
fn unused_tools(guards: &Guards) -> Option<Problem> {
    let tools = guards.secrets.restore_in.as_ref().filter(|tools| !tools.value.names().is_empty())?;
    let settings = settings(guards);
    let policies = [&settings.results, &settings.answers, &settings.prompts];
    if policies.iter().any(|policy| policy.uses_placeholders()) {
        return None;
    }
    let message = "`restore_in` has no effect: nothing is written as a placeholder";
    let hint = "set `results`, `prompts` or a kind to `placeholder`, or remove `restore_in`";
    Some(Problem::new(ProblemKind::Conflict, tools.at.clone(), message).with_hint(hint))
}
