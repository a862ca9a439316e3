//! `approvals.surfaces` as surfaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use backstop_config::{
    ApiCallback, EmailSurface, Loaded, MailEncryption, Name, NtfySurface, QuietUnless,
    Secret as ConfigSecret, SlackSurface, Spanned, SurfaceAnswers, TelegramSurface, Text, WEB_PUSH,
    WebPushSurface, WebhookSurface,
};
use backstop_gateway::Proxies;
use backstop_hooks::{Secret, Severity};
use backstop_surfaces::signature::SigningSecret;
use backstop_surfaces::{
    Callback, CallbackSettings, Ceiling, Egress, Email, EmailSettings, Encryption, Ntfy, Pace, QuietHours,
    SLACK_API, Slack, SlackAnswers, SlackSettings, Surface, SurfaceName, TELEGRAM_API, Telegram, Trust,
    WebPush, WebPushSettings, Webhook, WebhookSettings,
};
use jiff::tz::TimeZone;
use url::Url;

use super::small_file;
use crate::error::NoDataFolder;
use crate::locations::{from_operator, store_path};

/// The longest secret, in bytes.
const LONGEST: u64 = 4_096;
/// What tokens of apps at Slack begin with (docs.slack.dev, "Tokens"); those of bots begin with `xoxb-`.
const APP_TOKEN: &str = "xapp-";

/// Why a surface can't be used. It holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` can't be used: {why}")]
pub struct SurfaceConfigError {
    key: String,
    why: String,
}

/// Where people are told of questions, and answer them.
#[derive(Debug, Default)]
pub struct Surfaces {
    /// Each surface.
    pub all: Vec<Arc<dyn Surface>>,
    /// Where people open the console.
    pub console: Option<Url>,
    /// When nobody is told of new questions.
    pub quiet: Option<QuietHours>,
    /// Servers that programs at the API can have called, by name.
    pub callbacks: BTreeMap<String, Arc<Callback>>,
}

/// A surface, or why it can't be used.
pub type MadeSurface = Result<Arc<dyn Surface>, SurfaceConfigError>;

/// Returns the surfaces of the configuration. Secrets are read now.
///
/// # Errors
///
/// [`SurfaceConfigError`] if a secret can't be read, or nobody knows the time zone of quiet hours.
pub fn surfaces(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Surfaces, SurfaceConfigError> {
    let each = each_surface(loaded, environment).into_iter().map(|(_, made)| made);
    let all = each.collect::<Result<Vec<_>, _>>()?;
    let console = &loaded.config.approvals.surfaces.console;
    let unusable = |_| unusable("console", "it is no address");
    let console = console.as_ref().map(|console| Url::parse(console.value.expose()).map_err(unusable));
    let quiet = quiet(&loaded.config.approvals.surfaces.quiet_hours)?;
    let callbacks = callbacks(loaded, environment)?;
    Ok(Surfaces { all, console: console.transpose()?, quiet, callbacks })
}

fn unusable(key: &str, why: impl Into<String>) -> SurfaceConfigError {
    SurfaceConfigError { key: format!("approvals.surfaces.{key}"), why: why.into() }
}

/// Returns the servers that programs at the API can have called. INVARIANT (what is sent answers nothing): nobody who reads what one of them is
/// sent, or can sign as if we did, can answer on a surface.
fn callbacks(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, Arc<Callback>>, SurfaceConfigError> {
    let egress = Egress::Any(Proxies::of(environment));
    let answers = answer_secrets(loaded)?;
    let one = |name: &Spanned<Name>, callback: &ApiCallback| {
        let name = name.value.as_str().to_owned();
        let wrong = |why: String| SurfaceConfigError { key: format!("gateway.api.callbacks.{name}"), why };
        let text = secret(loaded, callback.secret.as_ref(), callback.secret_file.as_ref()).map_err(&wrong)?;
        let text = text.ok_or_else(|| wrong("there is no `secret`".to_owned()))?;
        let secret = SigningSecret::read(text.expose()).ok_or_else(|| wrong(too_short("secret")))?;
        if let Some((surface, _)) = answers.iter().find(|(_, answer)| answer.is_same(&secret)) {
            return Err(wrong(format!(
                "its `secret` is one by which `approvals.surfaces.{surface}` knows answers, so whoever is called could answer\nhint: give each a secret of its own"
            )));
        }
        let url =
            Url::parse(callback.url.value.expose()).map_err(|_| wrong("`url` is no address".to_owned()))?;
        let egress = if callback.allow_private.value { egress.clone() } else { Egress::Public };
        let agents = callback
            .agents
            .as_ref()
            .map(|agents| agents.value.iter().map(|agent| agent.value.as_str().to_owned()).collect());
        let settings = CallbackSettings { name: name.clone(), url, secret, agents, egress };
        Ok((name, Arc::new(Callback::new(settings))))
    };
    loaded.config.gateway.api.callbacks.iter().map(|(name, callback)| one(name, callback)).collect()
}

/// Returns the secrets by which answers are known, with the surfaces whose they are.
fn answer_secrets(loaded: &Loaded) -> Result<Vec<(String, SigningSecret)>, SurfaceConfigError> {
    let config = &loaded.config.approvals.surfaces;
    let slack = config.slack.iter().map(|(name, app)| {
        (format!("slack.{}", name.value.as_str()), &app.signing_secret, &app.signing_secret_file)
    });
    let webhook = config.webhook.iter().map(|(name, webhook)| {
        (format!("webhook.{}", name.value.as_str()), &webhook.answer_secret, &webhook.answer_secret_file)
    });
    let mut all = Vec::new();
    for (key, text, file) in slack.chain(webhook) {
        let read = secret(loaded, text.as_ref(), file.as_ref()).map_err(|why| unusable(&key, why))?;
        all.extend(read.and_then(|read| SigningSecret::read(read.expose())).map(|secret| (key, secret)));
    }
    Ok(all)
}

fn too_short(key: &str) -> String {
    format!("`{key}` is too short, or no base64 behind `whsec_`: at least 24 bytes are wanted")
}

fn quiet(config: &backstop_config::QuietHours) -> Result<Option<QuietHours>, SurfaceConfigError> {
    let (Some(from), Some(to)) = (&config.from, &config.to) else { return Ok(None) };
    let wrong = |why: &str| unusable("quiet_hours", why);
    let zone = match &config.zone {
        Some(zone) => zone.value.0.clone(),
        None => TimeZone::try_system()
            .map_err(|_| wrong("this machine does not say what its time zone is\nhint: add `zone`"))?,
    };
    let unless = match config.unless.value {
        QuietUnless::Warning => Some(Severity::Warning),
        QuietUnless::Critical => Some(Severity::Critical),
        QuietUnless::Never => None,
    };
    let quiet = QuietHours::new(from.value.0, to.value.0, zone, unless);
    quiet.map(Some).ok_or_else(|| wrong("they end when they begin"))
}

/// Returns each surface of the configuration by its key, as `telegram.phone`, also where others can't be used. Secrets are read now, and
/// no service is asked.
pub fn each_surface(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Vec<(String, MadeSurface)> {
    let config = &loaded.config.approvals.surfaces;
    let egress = Egress::Any(Proxies::of(environment));
    let (mut all, mut known) = (Vec::new(), Vec::new());
    for (name, bot) in config.telegram.iter() {
        let of = Of { loaded, kind: "telegram", name };
        all.push((of.key(), telegram(&of, bot, &egress)));
    }
    for (name, app) in config.slack.iter() {
        let of = Of { loaded, kind: "slack", name };
        all.push((of.key(), slack(&of, app, &egress, &mut known)));
    }
    for (name, topic) in config.ntfy.iter() {
        let of = Of { loaded, kind: "ntfy", name };
        all.push((of.key(), ntfy(&of, topic, &egress)));
    }
    for (name, mail) in config.email.iter() {
        let of = Of { loaded, kind: "email", name };
        all.push((of.key(), email(&of, mail)));
    }
    for (name, server) in config.webhook.iter() {
        let of = Of { loaded, kind: "webhook", name };
        all.push((of.key(), webhook(&of, server, &egress, &mut known)));
    }
    if config.web_push.enabled.value {
        all.push(("web_push".to_owned(), web_push(loaded, &config.web_push, &egress, environment)));
    }
    all
}

/// Where the devices of people are kept, and the key by which push services know us: beside the database.
///
/// # Errors
///
/// [`NoDataFolder`] when the configuration names no database and the user has no data folder.
pub fn web_push_folder(
    loaded: &Loaded,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, NoDataFolder> {
    Ok(store_path(loaded, environment)?.with_file_name("web-push"))
}

fn web_push(
    loaded: &Loaded,
    push: &WebPushSurface,
    egress: &Egress,
    environment: &dyn Fn(&str) -> Option<String>,
) -> MadeSurface {
    let wrong = |why: String| unusable("web_push", why);
    let key = secret(loaded, push.key.as_ref(), push.key_file.as_ref()).map_err(wrong)?;
    let folder = web_push_folder(loaded, environment).map_err(|error| wrong(error.to_string()))?;
    let console = loaded.config.approvals.surfaces.console.as_ref();
    let console = console.and_then(|console| Url::parse(console.value.expose()).ok());
    let console = console.ok_or_else(|| wrong("there is no `console`".to_owned()))?;
    let services = push.services.iter().map(|service| Url::parse(service.value.expose()));
    let services = services.collect::<Result<_, _>>();
    let name = SurfaceName::new(WEB_PUSH).ok_or_else(|| wrong("its name is none".to_owned()))?;
    let push = WebPush::new(WebPushSettings {
        name,
        key,
        folder,
        console,
        services: services.map_err(|_| wrong("one of `services` is no address".to_owned()))?,
        egress: egress.clone(),
        trust: Trust::System,
    });
    Ok(Arc::new(push.map_err(wrong)?))
}

fn telegram(of: &Of<'_>, bot: &TelegramSurface, egress: &Egress) -> MadeSurface {
    let token = of.secret("token", bot.token.as_ref(), bot.token_file.as_ref())?;
    let api = of.url("api", bot.api.as_ref(), TELEGRAM_API)?;
    let chats = bot.chats.value.iter().map(|chat| chat.value.get().to_string()).collect();
    let ceiling = ceiling(bot.answers.value);
    Ok(Arc::new(Telegram::new(of.name()?, api, token, chats, ceiling, egress.clone())))
}

fn slack<'a>(of: &Of<'a>, app: &SlackSurface, egress: &Egress, known: &mut Vec<Signing<'a>>) -> MadeSurface {
    let signing_secret = of.optional(app.signing_secret.as_ref(), app.signing_secret_file.as_ref())?;
    let app_token = of.optional(app.app_token.as_ref(), app.app_token_file.as_ref())?;
    // One that is too short for a webhook is none of a webhook's.
    let read = signing_secret.as_ref().and_then(|secret| SigningSecret::read(secret.expose()));
    known.extend(read.map(|secret| Signing {
        kind: of.kind,
        name: of.name,
        secret: secret.clone(),
        answer: Some(secret),
    }));
    Ok(Arc::new(Slack::new(SlackSettings {
        name: of.name()?,
        api: of.url("api", app.api.as_ref(), SLACK_API)?,
        app: app.app_id.value.as_str().to_owned(),
        token: of.secret("token", app.token.as_ref(), app.token_file.as_ref())?,
        answers: match (app_token, signing_secret) {
            (Some(token), _) if !token.expose().starts_with(APP_TOKEN) => {
                return Err(of.wrong(format!(
                    "`app_token` is no token of the app: those begin with `{APP_TOKEN}`\nhint: make one under *Basic Information*, *App-Level Tokens*, with the scope `connections:write`"
                )));
            }
            (Some(token), _) => SlackAnswers::Connected(token, Pace::default()),
            (None, Some(secret)) => SlackAnswers::Posted(secret),
            (None, None) => SlackAnswers::None,
        },
        channels: app.channels.value.iter().map(|channel| channel.value.as_str().to_owned()).collect(),
        ceiling: ceiling(app.answers.value),
        egress: egress.clone(),
    })))
}

fn ntfy(of: &Of<'_>, topic: &NtfySurface, egress: &Egress) -> MadeSurface {
    let server = of.url("server", Some(&topic.server), "")?;
    let token = of.optional(topic.token.as_ref(), topic.token_file.as_ref())?;
    let topic = topic.topic.value.as_str().to_owned();
    Ok(Arc::new(Ntfy::new(of.name()?, server, topic, token, egress.clone())))
}

fn email(of: &Of<'_>, mail: &EmailSurface) -> MadeSurface {
    let (encryption, port) = match mail.encryption.value {
        MailEncryption::Tls => (Encryption::Tls, 465),
        MailEncryption::StartTls => (Encryption::StartTls, 587),
        MailEncryption::None => (Encryption::None, 25),
    };
    let password = of.optional(mail.password.as_ref(), mail.password_file.as_ref())?;
    let login = mail.user.as_ref().map(|user| user.value.as_str().to_owned()).zip(password);
    let email = Email::new(EmailSettings {
        name: of.name()?,
        server: mail.server.value.as_str().to_owned(),
        port: mail.port.as_ref().and_then(|port| u16::try_from(port.value.get()).ok()).unwrap_or(port),
        encryption,
        login,
        from: mail.from.value.as_str().to_owned(),
        to: mail.to.value.iter().map(|to| to.value.as_str().to_owned()).collect(),
    });
    Ok(Arc::new(email.map_err(|why| of.wrong(why))?))
}

/// INVARIANT (one secret is one vote): nobody who can sign for one webhook, or reads what it is sent, can answer for another.
fn webhook<'a>(
    of: &Of<'a>,
    webhook: &WebhookSurface,
    egress: &Egress,
    known: &mut Vec<Signing<'a>>,
) -> MadeSurface {
    let secret = of.secret("secret", webhook.secret.as_ref(), webhook.secret_file.as_ref())?;
    let secret = of.signing("secret", &secret)?;
    let answer = of.optional(webhook.answer_secret.as_ref(), webhook.answer_secret_file.as_ref())?;
    let answer = answer.map(|answer| of.signing("answer_secret", &answer)).transpose()?;
    if answer.as_ref().is_some_and(|answer| answer.is_same(&secret)) {
        return Err(
            of.wrong("`secret` and `answer_secret` are the same, so what is sent would count as an answer")
        );
    }
    let signing = Signing { kind: of.kind, name: of.name, secret: secret.clone(), answer: answer.clone() };
    if let Some((key, other)) = known.iter().find_map(|other| signing.shared_with(other)) {
        let (at, there) = (&of.name.at, &other.name.at);
        let (kind, other) = (other.kind, other.name.value.as_str());
        return Err(of.wrong(format!(
            "its `{key}` ({at}) is a secret of `{kind}.{other}` ({there}), too, so whoever has it would answer for both\nhint: give each surface secrets of its own"
        )));
    }
    known.push(signing);
    Ok(Arc::new(Webhook::new(WebhookSettings {
        name: of.name()?,
        url: of.url("url", Some(&webhook.url), "")?,
        secret,
        answer_secret: answer,
        ceiling: ceiling(webhook.answers.value),
        egress: if webhook.allow_private.value { egress.clone() } else { Egress::Public },
    })))
}

/// The secrets of a surface that signs.
struct Signing<'a> {
    kind: &'static str,
    name: &'a Spanned<Name>,
    secret: SigningSecret,
    answer: Option<SigningSecret>,
}

impl Signing<'_> {
    /// Returns which of its secrets another webhook has, too, where one of the two signs answers with it.
    fn shared_with<'b>(&self, other: &'b Self) -> Option<(&'static str, &'b Self)> {
        let is_answer = |answer: &Option<SigningSecret>, one: &SigningSecret| {
            answer.as_ref().is_some_and(|answer| answer.is_same(one))
        };
        let answers = |one: &SigningSecret| is_answer(&other.answer, one) || other.secret.is_same(one);
        if self.answer.as_ref().is_some_and(answers) {
            return Some(("answer_secret", other));
        }
        is_answer(&other.answer, &self.secret).then_some(("secret", other))
    }
}

/// Returns the files that hold secrets of surfaces and callbacks. Whoever read one could answer in its name, or give people questions, and programs
/// decisions, of their own.
pub fn surface_secrets(loaded: &Loaded) -> Vec<PathBuf> {
    let config = &loaded.config.approvals.surfaces;
    let telegram = config.telegram.iter().map(|(_, bot)| &bot.token_file);
    let slack = config
        .slack
        .iter()
        .flat_map(|(_, app)| [&app.token_file, &app.app_token_file, &app.signing_secret_file]);
    let ntfy = config.ntfy.iter().map(|(_, topic)| &topic.token_file);
    let email = config.email.iter().map(|(_, mail)| &mail.password_file);
    let webhook =
        config.webhook.iter().flat_map(|(_, webhook)| [&webhook.secret_file, &webhook.answer_secret_file]);
    let push = std::iter::once(&config.web_push.key_file);
    let called = loaded.config.gateway.api.callbacks.iter().map(|(_, callback)| &callback.secret_file);
    let all =
        telegram.chain(slack).chain(ntfy).chain(email).chain(webhook).chain(push).chain(called).flatten();
    all.map(|file| from_operator(loaded, file.value.expose())).collect()
}

/// Returns the secrets of surfaces and callbacks that stand in the configuration, or in variables that it names.
pub(crate) fn secrets_of_surfaces(loaded: &Loaded) -> Vec<&Spanned<ConfigSecret>> {
    let config = &loaded.config.approvals.surfaces;
    let telegram = config.telegram.iter().map(|(_, bot)| &bot.token);
    let slack = config.slack.iter().flat_map(|(_, app)| [&app.token, &app.app_token, &app.signing_secret]);
    let ntfy = config.ntfy.iter().map(|(_, topic)| &topic.token);
    let email = config.email.iter().map(|(_, mail)| &mail.password);
    let webhook = config.webhook.iter().flat_map(|(_, webhook)| [&webhook.secret, &webhook.answer_secret]);
    let push = std::iter::once(&config.web_push.key);
    let called = loaded.config.gateway.api.callbacks.iter().map(|(_, callback)| &callback.secret);
    let all =
        telegram.chain(slack).chain(ntfy).chain(email).chain(webhook).chain(push).chain(called).flatten();
    all.collect()
}

/// Returns the variables of the environment that hold secrets of surfaces and callbacks.
pub fn surface_variables(loaded: &Loaded) -> BTreeSet<String> {
    secrets_of_surfaces(loaded).into_iter().flat_map(|secret| secret.value.variables()).cloned().collect()
}

const fn ceiling(answers: SurfaceAnswers) -> Ceiling {
    match answers {
        SurfaceAnswers::None => Ceiling::Notice,
        SurfaceAnswers::Deny => Ceiling::Deny,
        SurfaceAnswers::Once => Ceiling::Once,
    }
}

/// Returns a secret that stands in a variable or in a file, or why it can't be read.
fn secret(
    loaded: &Loaded,
    secret: Option<&Spanned<ConfigSecret>>,
    file: Option<&Spanned<Text>>,
) -> Result<Option<Secret>, String> {
    let (text, whence) = match (secret, file) {
        (Some(secret), _) => (secret.value.expose().to_owned(), "a secret".to_owned()),
        (None, Some(file)) => {
            let path = from_operator(loaded, file.value.expose());
            let shown = format!("`{}`", path.display());
            let unreadable = |why: String| format!("{shown} can't be read: {why}");
            let bytes = small_file::read(&path, LONGEST).map_err(|error| unreadable(error.to_string()))?;
            (String::from_utf8(bytes).map_err(|_| unreadable("it is no text".to_owned()))?, shown)
        }
        (None, None) => return Ok(None),
    };
    match text.trim() {
        "" => Err(format!("{whence} is empty")),
        text => Ok(Some(Secret::new(text.to_owned()))),
    }
}

/// A surface of the configuration.
struct Of<'a> {
    loaded: &'a Loaded,
    kind: &'static str,
    name: &'a Spanned<Name>,
}

impl Of<'_> {
    fn key(&self) -> String {
        format!("{}.{}", self.kind, self.name.value.as_str())
    }

    fn wrong(&self, why: impl Into<String>) -> SurfaceConfigError {
        unusable(&self.key(), why)
    }

    fn name(&self) -> Result<SurfaceName, SurfaceConfigError> {
        SurfaceName::new(self.name.value.as_str()).ok_or_else(|| self.wrong("its name is none"))
    }

    fn url(&self, key: &str, url: Option<&Spanned<Text>>, default: &str) -> Result<Url, SurfaceConfigError> {
        let text = url.map_or(default, |url| url.value.expose());
        Url::parse(text).map_err(|_| self.wrong(format!("`{key}` is no address")))
    }

    fn secret(
        &self,
        key: &str,
        secret: Option<&Spanned<ConfigSecret>>,
        file: Option<&Spanned<Text>>,
    ) -> Result<Secret, SurfaceConfigError> {
        self.optional(secret, file)?.ok_or_else(|| self.wrong(format!("there is no `{key}`")))
    }

    fn optional(
        &self,
        secret: Option<&Spanned<ConfigSecret>>,
        file: Option<&Spanned<Text>>,
    ) -> Result<Option<Secret>, SurfaceConfigError> {
        self::secret(self.loaded, secret, file).map_err(|why| self.wrong(why))
    }

    fn signing(&self, key: &str, secret: &Secret) -> Result<SigningSecret, SurfaceConfigError> {
        let read = SigningSecret::read(secret.expose());
        read.ok_or_else(|| self.wrong(too_short(key)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop_config::{LayerKind, Source};
    use backstop_store::Timestamp;

    use super::*;
    use crate::{HookTypes, load_sources};

    fn environment(name: &str) -> Option<String> {
        (name.len() == 1).then(|| format!("{name}-0123456789abcdef0123456789"))
    }

    fn loaded(webhooks: &[(&str, &str)]) -> Loaded {
        let line = |(name, secrets): &(&str, &str)| {
            format!("      {name}: {{url: 'https://{name}.example.com', {secrets}}}\n")
        };
        let webhooks: String = webhooks.iter().map(line).collect();
        let text = format!("approvals:\n  surfaces:\n    webhook:\n{webhooks}");
        let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
        load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap()
    }

    #[test]
    fn a_secret_that_answers_is_that_of_one_webhook() {
        let told = |one: &str, other: &str| {
            let loaded = loaded(&[("bell", one), ("pager", other)]);
            surfaces(&loaded, &environment).map(|told| told.all.len()).map_err(|error| error.to_string())
        };
        let bell = "secret: '${A}', answer_secret: '${B}'";
        for other in ["secret: '${C}', answer_secret: '${D}'", "secret: '${A}', answer_secret: '${D}'"] {
            assert_eq!(told(bell, other), Ok(2), "{other}");
        }
        for (other, key) in [
            ("secret: '${C}', answer_secret: '${B}'", "answer_secret"),
            ("secret: '${C}', answer_secret: '${A}'", "answer_secret"),
            ("secret: '${B}', answer_secret: '${D}'", "secret"),
            ("secret: '${B}'", "secret"),
        ] {
            let error = told(bell, other).unwrap_err();
            assert!(error.contains(&format!("its `{key}` (backstop.yaml:5:7)")), "{error}");
            assert!(error.contains("`webhook.bell` (backstop.yaml:4:7)"), "{error}");
            assert!(!error.contains("0123456789"), "{error}");
        }
        assert!(told("secret: '${A}', answer_secret: '${A}'", bell).is_err());
    }

    #[test]
    fn a_webhook_has_no_secret_that_slack_signs_with() {
        let told = |signing: &str| {
            let slack =
                format!("{{token: x, app_id: A0123, channels: [C0123], signing_secret: '{signing}'}}");
            let webhook = "{url: 'https://bell.example.com', secret: '${A}', answer_secret: '${B}'}";
            let text = format!(
                "approvals:\n  surfaces:\n    slack:\n      ops: {slack}\n    webhook:\n      bell: {webhook}\n"
            );
            let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
            let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
            surfaces(&loaded, &environment).map(|told| told.all.len()).map_err(|error| error.to_string())
        };
        assert_eq!(told("${C}"), Ok(2));
        for (signing, key) in [("${A}", "secret"), ("${B}", "answer_secret")] {
            let error = told(signing).unwrap_err();
            assert!(error.contains(&format!("its `{key}` (backstop.yaml:6:7)")), "{error}");
            assert!(error.contains("`slack.ops` (backstop.yaml:4:7)"), "{error}");
            assert!(!error.contains("0123456789"), "{error}");
        }
    }

    #[test]
    fn a_callback_is_signed_with_no_secret_by_which_answers_are_known() {
        let told = |signing: &str| {
            let slack = "{token: x, app_id: A0123, channels: [C0123], signing_secret: '${A}'}";
            let webhook = "{url: 'https://bell.example.com', secret: '${B}', answer_secret: '${C}'}";
            let text = format!(
                "approvals:\n  surfaces:\n    slack:\n      ops: {slack}\n    webhook:\n      bell: {webhook}\ngateway: {{api: {{callbacks: {{ci: {{url: 'https://ci.example.com', secret: '{signing}'}}}}}}}}\n"
            );
            let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
            let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
            let variables = surface_variables(&loaded);
            surfaces(&loaded, &environment)
                .map(|told| (told.callbacks.into_keys().collect::<Vec<_>>(), variables.len()))
                .map_err(|error| error.to_string())
        };
        // What the surface is sent with answers nothing.
        for signing in ["${D}", "${B}"] {
            let told = told(signing).unwrap();
            assert_eq!(told, (vec!["ci".to_owned()], if signing == "${D}" { 4 } else { 3 }));
        }
        for (signing, surface) in [("${A}", "slack.ops"), ("${C}", "webhook.bell")] {
            let error = told(signing).unwrap_err();
            assert!(error.contains("`gateway.api.callbacks.ci` can't be used"), "{error}");
            assert!(error.contains(&format!("`approvals.surfaces.{surface}`")), "{error}");
            assert!(!error.contains("0123456789"), "{error}");
        }
        assert!(told("short").unwrap_err().contains("is too short"));
    }

    #[test]
    fn quiet_hours_are_those_of_their_zone() {
        let quiet = |keys: &str| {
            let text = format!("approvals:\n  surfaces:\n    quiet_hours: {{{keys}}}\n");
            let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
            let loaded = load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap();
            surfaces(&loaded, &environment).unwrap().quiet
        };
        assert_eq!(quiet(""), None);
        let berlin = quiet("from: 22:00, to: '07:00', zone: Europe/Berlin, unless: warning").unwrap();
        let at = "2026-01-10T21:00:00Z".parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let at = Timestamp::from_millis(at);
        assert_eq!(berlin.left(at), Some(Duration::from_secs(9 * 3_600)));
        assert_eq!(berlin.left(at.before(Duration::from_millis(1))), None);
        assert!(berlin.lets_through(Severity::Warning) && !berlin.lets_through(Severity::Info));
        let utc = quiet("from: '22:00', to: '07:00', zone: UTC").unwrap();
        assert_eq!(utc.left(at), None);
        assert!(utc.lets_through(Severity::Critical) && !utc.lets_through(Severity::Warning));
        let never = quiet("from: '22:00', to: '07:00', zone: UTC, unless: never").unwrap();
        assert!(!never.lets_through(Severity::Critical));
    }

    #[test]
    fn an_app_has_a_token_of_the_app_and_whoever_runs_has_neither_its_variable_nor_its_file() {
        let loaded = |slack: &str| {
            let text = format!(
                "approvals:\n  surfaces:\n    slack:\n      ops: {{token: '${{B}}', app_id: A1, channels: [C1], {slack}}}\n"
            );
            let source = Source::new(LayerKind::Operator, "backstop.yaml", text);
            load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap()
        };
        let token = |start: &str| [start, "1-A1-sesame"].concat();
        let told = |app_token: &str| surfaces(&loaded(&format!("app_token: {app_token}")), &environment);
        let one = told(&token("xapp-")).unwrap().all.remove(0);
        assert_eq!((one.ceiling(), one.is_listened_to()), (Ceiling::Once, true));
        for start in ["xoxb-", "xoxp-", ""] {
            let error = told(&token(start)).unwrap_err().to_string();
            assert!(error.contains("slack.ops") && error.contains("begin with `xapp-`"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        let none = surfaces(&loaded("answers: none"), &environment).unwrap().all.remove(0);
        assert_eq!((none.ceiling(), none.is_listened_to()), (Ceiling::Notice, false));
        let variables = surface_variables(&loaded("app_token: '${A}'"));
        assert_eq!(variables.iter().map(String::as_str).collect::<Vec<_>>(), ["A", "B"]);
        let files = surface_secrets(&loaded("app_token_file: /keys/app"));
        assert!(files.iter().any(|file| file.ends_with("keys/app")), "{files:?}");
    }

    #[test]
    fn variables_with_secrets_are_known() {
        let bell = ("bell", "secret: '${A}', answer_secret: 'x${B}'");
        let loaded = loaded(&[bell, ("pager", "secret_file: '${C}'")]);
        assert_eq!(surface_variables(&loaded).iter().map(String::as_str).collect::<Vec<_>>(), ["A", "B"]);
    }
}
