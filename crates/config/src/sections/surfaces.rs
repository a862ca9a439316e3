//! `approvals.surfaces`: where people are told of questions away from the machine, and answer them. Only the operator can set it: a repository
//! that could would send what its agent does elsewhere, or answer for people.

use std::net::IpAddr;

use http::Uri;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::{MailEncryption, Name, QuietUnless, SurfaceAnswers, TimeOfDay, Whole, Zone};
use backstop_yaml::{Kind, Node};

use super::providers::Address;

/// The most surfaces.
const MOST: usize = 32;
/// The longest name of a surface.
const LONGEST_NAME: usize = 64;

section! {
    /// Where people are told of questions while `backstop serve` runs, and answer them. Each has a name, which no two have.
    pub struct Surfaces {
        /// Where people open this server in a browser, without a path: links to the console begin with it.
        console ("console"): Option<Spanned<Text>>, OperatorOnly;
        /// When nobody is told of new questions. They wait, end and can be answered as ever; what still waits afterwards is told then.
        quiet_hours ("quiet_hours"): QuietHours, OperatorOnly;
        /// Bots at Telegram.
        telegram ("telegram"): Entries<Name, TelegramSurface>, OperatorOnly;
        /// Apps at Slack.
        slack ("slack"): Entries<Name, SlackSurface>, OperatorOnly;
        /// Topics of ntfy servers, which are told and answer nothing.
        ntfy ("ntfy"): Entries<Name, NtfySurface>, OperatorOnly;
        /// Mailboxes that are told, and answer nothing.
        email ("email"): Entries<Name, EmailSurface>, OperatorOnly;
        /// Devices of people who use the console, which are told and answer nothing.
        web_push ("web_push"): WebPushSurface, OperatorOnly;
        /// Servers that are told by signed requests (Standard Webhooks), and may answer by such.
        webhook ("webhook"): Entries<Name, WebhookSurface>, OperatorOnly;
    }
}

section! {
    /// Times of day at which nobody is told of new questions.
    pub struct QuietHours {
        /// When they begin, as `22:00`.
        from ("from"): Option<Spanned<TimeOfDay>>, OperatorOnly;
        /// When they end, as `07:00`. If that is earlier than `from`, they last over midnight.
        to ("to"): Option<Spanned<TimeOfDay>>, OperatorOnly;
        /// The time zone in which these are the times of day, as `Europe/Berlin`. Without it, that of this machine.
        zone ("zone"): Option<Spanned<Zone>>, OperatorOnly;
        /// How grave a question is, at least, that is told all the same.
        unless ("unless"): Setting<QuietUnless> = QuietUnless::Critical, OperatorOnly;
    }
}

item! {
    /// A bot at Telegram, which tells chats with buttons. Whoever presses one is known by the number of their account.
    pub struct TelegramSurface {
        /// The token of the bot, usually `${VAR}`.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `token`.
        token_file ("token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The chats that are told, by number; those of groups are negative.
        chats ("chats"): Spanned<Vec<Spanned<ChatId>>>, OperatorOnly;
        /// The most that can be answered there.
        answers ("answers"): Setting<SurfaceAnswers> = SurfaceAnswers::Once, OperatorOnly;
        /// Where the service is. Without it, `https://api.telegram.org`.
        api ("api"): Option<Spanned<Text>>, OperatorOnly;
    }
    check: check;
}

item! {
    /// An app at Slack, which tells channels with buttons. Whoever presses one is known by workspace and member.
    pub struct SlackSurface {
        /// The token of its bot, usually `${VAR}`. It wants the scope `chat:write`.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `token`.
        token_file ("token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The app-level token (`xapp-...`, scope `connections:write`) that opens connections over which presses come (Socket Mode), usually `${VAR}`. Without it and `signing_secret`, nothing is answered there.
        app_token ("app_token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `app_token`.
        app_token_file ("app_token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The secret with which Slack signs what it posts, usually `${VAR}`, in place of `app_token` where Slack can reach this server.
        signing_secret ("signing_secret"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `signing_secret`.
        signing_secret_file ("signing_secret_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The id of the app (`A...`). What another one posts counts for nothing.
        app_id ("app_id"): Spanned<Name>, OperatorOnly;
        /// The channels that are told, by id (`C...`).
        channels ("channels"): Spanned<Vec<Spanned<Name>>>, OperatorOnly;
        /// The most that can be answered there.
        answers ("answers"): Setting<SurfaceAnswers> = SurfaceAnswers::Once, OperatorOnly;
        /// Where the service is. Without it, `https://slack.com/api/`.
        api ("api"): Option<Spanned<Text>>, OperatorOnly;
    }
    check: check;
}

item! {
    /// A topic of an ntfy server. Nobody is authenticated there, so a notice names the tool and the agent, and links to the console.
    pub struct NtfySurface {
        /// The address of the server, such as `https://ntfy.sh`.
        server ("server"): Spanned<Text>, OperatorOnly;
        /// The topic.
        topic ("topic"): Spanned<Name>, OperatorOnly;
        /// The access token, where the topic wants one, usually `${VAR}`.
        token ("token"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `token`.
        token_file ("token_file"): Option<Spanned<SecretFile>>, OperatorOnly;
    }
    check: check;
}

section! {
    /// Notices on devices whose people turned them on at the console. One names the tool and the agent, and links to the console.
    pub struct WebPushSurface {
        /// Whether people can have their devices told. The surface is called `web-push`.
        enabled ("enabled"): Setting<bool> = false, OperatorOnly;
        /// The private key by which push services know this server (P-256, PKCS #8), usually `${VAR}`. Without it, one is made beside the database.
        key ("key"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `key`.
        key_file ("key_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// Where push services are besides those of Chrome, Edge, Firefox and Safari, such as `https://push.example.com`.
        services ("services"): Vec<Spanned<Text>>, OperatorOnly;
    }
}

item! {
    /// Mailboxes that are told by a mail server. A mail names the tool and the agent, and links to the console.
    pub struct EmailSurface {
        /// The server that mails are submitted to.
        server ("server"): Spanned<Name>, OperatorOnly;
        /// Its port. Without it, 465, or 587 with `encryption: starttls`, or 25 with `none`.
        port ("port"): Option<Spanned<Whole<1, 65_535>>>, OperatorOnly;
        /// How the connection is encrypted.
        encryption ("encryption"): Setting<MailEncryption> = MailEncryption::Tls, OperatorOnly;
        /// As whom mails are submitted, where the server wants to know.
        user ("user"): Option<Spanned<Name>>, OperatorOnly;
        /// The password of `user`, usually `${VAR}`.
        password ("password"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `password`.
        password_file ("password_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// Whom mails are from.
        from ("from"): Spanned<Name>, OperatorOnly;
        /// The mailboxes that are told.
        to ("to"): Spanned<Vec<Spanned<Name>>>, OperatorOnly;
    }
    check: check;
}

item! {
    /// A server that is told by signed requests. It vouches for whoever answers, who is known by the name that it gives.
    pub struct WebhookSurface {
        /// The address that is posted to.
        url ("url"): Spanned<Text>, OperatorOnly;
        /// The secret with which requests to it are signed, usually `${VAR}`: `whsec_` and base64, or a text; of at least 24 bytes.
        secret ("secret"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `secret`.
        secret_file ("secret_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The secret with which it signs answers; another one. Without it, nothing is answered there.
        answer_secret ("answer_secret"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `answer_secret`.
        answer_secret_file ("answer_secret_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The most that can be answered by it.
        answers ("answers"): Setting<SurfaceAnswers> = SurfaceAnswers::Once, OperatorOnly;
        /// Whether it may be at an address that is not on the public internet.
        allow_private ("allow_private"): Setting<bool> = false, OperatorOnly;
    }
    check: check;
}

/// A secret and the file that may hold it, each with its key.
pub(super) type Keys<'a, F> =
    [(&'static str, &'a Option<Spanned<Secret>>, &'static str, &'a Option<Spanned<F>>); 1];

/// Reports a problem, if there is one.
pub(super) fn report(problem: Option<Problem>, cx: &mut Reader<'_>) -> Option<()> {
    let Some(problem) = problem else { return Some(()) };
    cx.report(problem);
    None
}

fn bad(at: &Place, message: String) -> Problem {
    Problem::new(ProblemKind::BadValue, at.clone(), message)
}

/// Why a secret does not stand in one place.
pub(super) fn not_once<F>(
    [(key, secret, file_key, file)]: Keys<'_, F>,
    at: &Place,
    is_needed: bool,
) -> Option<Problem> {
    match (secret, file) {
        (Some(_), Some(file)) => {
            Some(bad(&file.at, format!("`{key}` and `{file_key}` are both there, and one of them counts")))
        }
        (None, None) if is_needed => {
            let hint =
                format!("add `{key}: ${{VAR}}`, or `{file_key}` with the path of a file that holds it");
            Some(bad(at, format!("there is no `{key}`")).with_hint(hint))
        }
        _ => None,
    }
}

/// Why an address can't be one of a service that is told what agents do.
pub(super) fn unusable(key: &str, address: Option<&Spanned<Text>>) -> Option<Problem> {
    let address = address?;
    let (message, hint) = match Address::parse(address.value.expose()) {
        None => ("must be an address", "for example `https://backstop.example.com`"),
        Some(found) if found.has_user => {
            ("must not hold a user or a password", "put the secret into the key that is for it")
        }
        Some(found) if !found.is_private => {
            ("could be read on its way", "use `https://`; plain `http://` is for this machine only")
        }
        Some(_) => return None,
    };
    Some(bad(&address.at, format!("`{key}` {message}")).with_hint(hint))
}

/// Why people can't open the console there: links are made of where the server is, and of a path of their own.
fn no_origin(key: &str, address: &Spanned<Text>) -> Option<Problem> {
    let text = address.value.expose();
    let uri: Uri = text.parse().ok()?;
    // A fragment is no part of what is parsed.
    let is_bare = matches!(uri.path(), "" | "/") && uri.query().is_none() && !text.contains('#');
    let is_origin = is_bare && (uri.port().is_none() || uri.port_u16().is_some());
    (!is_origin).then(|| {
        bad(&address.at, format!("`{key}` must say where the server is, and nothing more"))
            .with_hint("for example `https://backstop.example.com`, without a path, a query or a fragment")
    })
}

/// Why what can be answered means nothing: without a secret (of `keys`) that proves who answers, nothing is.
fn unproved(answers: &Setting<SurfaceAnswers>, is_proved: bool, keys: &str, hint: &str) -> Option<Problem> {
    let at = answers.at.as_ref()?;
    let is_fine = is_proved || answers.value == SurfaceAnswers::None;
    (!is_fine).then(|| {
        let message = format!("`answers` means nothing without {keys}: nothing is answered there");
        let hint = format!("add {hint}, or leave `answers` out");
        Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint(hint)
    })
}

fn empty<T>(key: &str, list: &Spanned<Vec<T>>) -> Option<Problem> {
    list.value.is_empty().then(|| bad(&list.at, format!("`{key}` is empty, so nobody would be told")))
}

impl TelegramSurface {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let token = [("token", &self.token, "token_file", &self.token_file)];
        let problem = empty("chats", &self.chats)
            .or_else(|| not_once(token, &self.chats.at, true))
            .or_else(|| unusable("api", self.api.as_ref()));
        report(problem, cx)
    }
}

impl SlackSurface {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.app_id.at;
        let token = [("token", &self.token, "token_file", &self.token_file)];
        let app_token = [("app_token", &self.app_token, "app_token_file", &self.app_token_file)];
        let signing =
            [("signing_secret", &self.signing_secret, "signing_secret_file", &self.signing_secret_file)];
        let problem = empty("channels", &self.channels)
            .or_else(|| not_once(token, at, true))
            .or_else(|| not_once(app_token, at, false))
            .or_else(|| not_once(signing, at, false))
            .or_else(|| self.in_two_ways())
            .or_else(|| {
                let keys = "`app_token` and `signing_secret`";
                let hint = "`app_token: ${VAR}` (Socket Mode) or `signing_secret: ${VAR}`, or one of them with `_file`";
                unproved(&self.answers, self.is_answered(), keys, hint)
            })
            .or_else(|| unusable("api", self.api.as_ref()));
        report(problem, cx)
    }
}

impl SlackSurface {
    /// Returns where the token stands by which presses come over connections.
    fn is_connected(&self) -> Option<&Place> {
        let token = self.app_token.as_ref().map(|token| &token.at);
        token.or(self.app_token_file.as_ref().map(|file| &file.at))
    }

    /// Returns whether there is what proves who answers.
    fn is_answered(&self) -> bool {
        self.is_connected().is_some() || self.signing_secret.is_some() || self.signing_secret_file.is_some()
    }

    /// Why presses can't come: Slack says them over connections, or posts them, by a switch of the app.
    fn in_two_ways(&self) -> Option<Problem> {
        let signing = self.signing_secret.as_ref().map(|secret| &secret.at);
        let signing = signing.or(self.signing_secret_file.as_ref().map(|file| &file.at))?;
        let connected = self.is_connected()?;
        let message = format!(
            "`app_token` ({connected}) and `signing_secret` are both there: Slack says what people press over connections, or posts it, and never both"
        );
        let hint = "with Socket Mode switched on at Slack leave `signing_secret` out, otherwise `app_token`";
        Some(Problem::new(ProblemKind::Conflict, signing.clone(), message).with_hint(hint))
    }
}

impl NtfySurface {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let token = [("token", &self.token, "token_file", &self.token_file)];
        let problem =
            not_once(token, &self.topic.at, false).or_else(|| unusable("server", Some(&self.server)));
        report(problem, cx)
    }
}

impl EmailSurface {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.server.at;
        let password = [("password", &self.password, "password_file", &self.password_file)];
        let host = self.server.value.as_str().trim_matches(['[', ']']);
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let in_the_clear = (self.encryption.value == MailEncryption::None && !is_here).then(|| {
            let message = "mails, and the password, could be read on their way to `server`".to_owned();
            bad(at, message).with_hint("`encryption: none` is for a server on this machine only")
        });
        let without_user = || {
            let has_password = self.password.is_some() || self.password_file.is_some();
            (self.user.is_none() && has_password)
                .then(|| bad(at, "there is a password, and no `user`".to_owned()))
        };
        let problem = empty("to", &self.to)
            .or_else(|| not_once(password, at, self.user.is_some()))
            .or_else(without_user)
            .or(in_the_clear);
        report(problem, cx)
    }
}

impl WebhookSurface {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.url.at;
        let secret = [("secret", &self.secret, "secret_file", &self.secret_file)];
        let answer = [("answer_secret", &self.answer_secret, "answer_secret_file", &self.answer_secret_file)];
        let problem = not_once(secret, at, true)
            .or_else(|| not_once(answer, at, false))
            .or_else(|| {
                let is_proved = self.answer_secret.is_some() || self.answer_secret_file.is_some();
                let hint = "`answer_secret: ${VAR}` or `answer_secret_file`";
                unproved(&self.answers, is_proved, "`answer_secret`", hint)
            })
            .or_else(|| unusable("url", Some(&self.url)));
        report(problem, cx)
    }
}

/// The name of web push among the surfaces.
pub const WEB_PUSH: &str = "web-push";

impl WebPushSurface {
    /// Checks what it is told, and that people can open the console where browsers let pages have notices.
    fn check(&self, console: Option<&Spanned<Text>>, cx: &mut Reader<'_>) {
        let key = [("key", &self.key, "key_file", &self.key_file)];
        let (Some(at), true) = (&self.enabled.at, self.enabled.value) else { return };
        let is_https = |address: &Spanned<Text>| address.value.expose().starts_with("https://");
        let in_the_clear = || match console {
            Some(console) if is_https(console) => None,
            _ => {
                let message =
                    "`web_push` wants a `console` with `https`: browsers let no other page have notices";
                let hint = "set `approvals.surfaces.console`, and `gateway.tls` or TLS in front";
                Some(bad(at, message.to_owned()).with_hint(hint))
            }
        };
        let problem = not_once(key, at, false).or_else(in_the_clear);
        if let Some(problem) = problem {
            cx.report(problem);
        }
        for service in &self.services {
            let in_the_clear = || {
                (!is_https(service)).then(|| {
                    bad(&service.at, "a push service is asked through TLS".to_owned())
                        .with_hint("use `https://`")
                })
            };
            let problem = unusable("services", Some(service)).or_else(in_the_clear);
            if let Some(problem) = problem.or_else(|| no_origin("services", service)) {
                cx.report(problem);
            }
        }
    }
}

impl QuietHours {
    /// Checks that they are some of the day, and that the clock that they go by is known.
    fn check(&self, cx: &mut Reader<'_>) {
        let times = self.from.as_ref().or(self.to.as_ref()).map(|time| &time.at);
        let zone = self.zone.as_ref().map(|zone| &zone.at);
        let Some(at) = times.or(zone).or(self.unless.at.as_ref()) else { return };
        let missing = |key: &str, time: &str| {
            bad(at, format!("`quiet_hours` has no `{key}`"))
                .with_hint(format!("add `{key}`, for example `{key}: \"{time}\"`"))
        };
        let problem = match (&self.from, &self.to) {
            (None, _) => missing("from", "22:00"),
            (Some(_), None) => missing("to", "07:00"),
            (Some(from), Some(to)) if from.value == to.value => {
                let message = "`from` and `to` are the same, so it would be quiet always, or never";
                bad(&to.at, message.to_owned()).with_hint("quiet hours end at another time than they begin")
            }
            (Some(_), Some(_)) if self.zone.is_none() && TimeZone::try_system().is_err() => {
                bad(at, "this machine does not say what its time zone is".to_owned())
                    .with_hint("add `zone`, for example `zone: Europe/Berlin`")
            }
            (Some(_), Some(_)) => return,
        };
        cx.report(problem);
    }
}

impl Surfaces {
    /// Returns the names of all surfaces.
    pub fn names(&self) -> impl Iterator<Item = &Spanned<Name>> {
        let telegram = self.telegram.iter().map(|(name, _)| name);
        let slack = self.slack.iter().map(|(name, _)| name);
        let ntfy = self.ntfy.iter().map(|(name, _)| name);
        let email = self.email.iter().map(|(name, _)| name);
        telegram.chain(slack).chain(ntfy).chain(email).chain(self.webhook.iter().map(|(name, _)| name))
    }

    /// Checks that each press comes to the surface that told of it: Slack says it over one of the connections of the app, whichever that is.
    fn check_apps(&self, cx: &mut Reader<'_>) {
        let answered: Vec<_> = self.slack.iter().filter(|(_, app)| app.is_answered()).collect();
        for (at, (name, app)) in answered.iter().enumerate() {
            let is_same = |(_, other): &&(&Spanned<Name>, &SlackSurface)| {
                let is_connected = app.is_connected().is_some() || other.is_connected().is_some();
                is_connected && other.app_id.value.as_str() == app.app_id.value.as_str()
            };
            let Some((other, _)) = answered.iter().take(at).find(is_same) else { continue };
            let message = format!(
                "`{}` ({}) is the same app, so a press could come to the one that did not tell of it",
                other.value.as_str(),
                other.at
            );
            let hint = format!(
                "name its channels in one of them, or make another app at Slack for `{}`",
                name.value.as_str()
            );
            cx.report(Problem::new(ProblemKind::Conflict, app.app_id.at.clone(), message).with_hint(hint));
        }
    }

    /// Returns the names of all that are told.
    pub(super) fn told(&self) -> impl Iterator<Item = &str> {
        let push = self.web_push.enabled.value.then_some(WEB_PUSH);
        self.names().map(|name| name.value.as_str()).chain(push)
    }

    /// Checks what looks at several keys together.
    pub(super) fn check(&self, cx: &mut Reader<'_>) {
        self.quiet_hours.check(cx);
        self.check_apps(cx);
        let mut known: Vec<&str> = Vec::new();
        for name in self.names() {
            let text = name.value.as_str();
            let is_plain = text.len() <= LONGEST_NAME
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
            if !is_plain {
                let message = format!(
                    "`{text}` stands in addresses, and has up to {LONGEST_NAME} letters, digits, `-` and `_`"
                );
                cx.report(bad(&name.at, message));
            }
            if text == WEB_PUSH && self.web_push.enabled.value {
                let message = format!("`{text}` is the name of `web_push`");
                cx.report(Problem::new(ProblemKind::Conflict, name.at.clone(), message));
            }
            if known.contains(&text) {
                let message = format!("two surfaces are called `{text}`");
                cx.report(Problem::new(ProblemKind::Conflict, name.at.clone(), message));
            }
            if known.len() == MOST {
                cx.report(bad(&name.at, format!("there are more than {MOST} surfaces")));
            }
            known.push(text);
        }
        self.web_push.check(self.console.as_ref(), cx);
        let problem = unusable("console", self.console.as_ref());
        if let Some(problem) = problem.or_else(|| no_origin("console", self.console.as_ref()?)) {
            cx.report(problem);
        }
        let noticed = self.ntfy.iter().map(|(name, _)| name).chain(self.email.iter().map(|(name, _)| name));
        if let (None, Some(name)) = (&self.console, { noticed }.next()) {
            let message = "there is no `console`, so nobody who is told here could answer";
            let hint = "add `approvals.surfaces.console`, where people open this server in a browser";
            cx.report(bad(&name.at, message.to_owned()).with_hint(hint));
        }
    }
}

/// The number of a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatId(i64);

impl ChatId {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl ConfigValue for ChatId {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        match node.kind {
            Kind::Integer(number) => Some(Self(number)),
            _ => None,
        }
        .or_else(|| cx.expected(node, "the number of a chat, such as `-1001234567890`"))
    }

    fn schema() -> Value {
        json!({ "type": "integer" })
    }

    fn show(&self) -> Value {
        Value::from(self.0)
    }
}
