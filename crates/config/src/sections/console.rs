//! `gateway.console`: where people open the console, and how they sign in there besides by tokens. Only the operator can set it: whoever
//! could name an identity provider could be anybody.

use http::Uri;

use crate::config_value::{Entries, Key, section};
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind, is_invisible, quote};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::{ConsoleScope, Name, PersonClaim, Whole};

use super::identity::unusable;
use super::surfaces::{not_once, report};

/// Claims of OpenID Connect (Core, 5.1) that people choose themselves.
const CHOSEN: [&str; 15] = [
    "name",
    "given_name",
    "family_name",
    "middle_name",
    "nickname",
    "preferred_username",
    "profile",
    "picture",
    "website",
    "gender",
    "birthdate",
    "zoneinfo",
    "locale",
    "phone_number",
    "address",
];

/// Claims (Core, 2 and 5.1; RFC 7519, 4.1) that say nothing of what somebody may do: everybody who signs in has the same, or each sign-in has its own.
const EVERYBODYS: [&str; 10] =
    ["iss", "aud", "azp", "acr", "amr", "typ", "sid", "jti", "nonce", "email_verified"];

section! {
    /// Where people open the console, and how they sign in there besides by tokens.
    pub struct GatewayConsole {
        /// Where people open it to sign in by `oidc`: an `https` address without a path, such as `https://backstop.example.com`, whose name
        /// `gateway.hosts` lists. `gateway.tls`, or TLS in front, serves it.
        origin ("origin"): Option<Spanned<Text>>, OperatorOnly;
        /// The identity provider at which people sign in.
        oidc ("oidc"): GatewayOidc, OperatorOnly;
        /// Whether people with the scope `admin` talk with the own agent there, which uses its tools with the rights of the server's account.
        chat ("chat"): Setting<bool> = false, OperatorOnly;
    }
}

section! {
    /// The identity provider (OpenID Connect) at which people sign in. It has to know the console's `origin` with `/-/console/oidc/done` as
    /// a redirect URI.
    pub struct GatewayOidc {
        /// Its name, exactly as `iss` of its tokens has it: an `https` address, or an `http` address of this machine. The rest is found by
        /// `/.well-known/openid-configuration` below it.
        issuer ("issuer"): Option<Spanned<Text>>, OperatorOnly;
        /// What the console is called there.
        client_id ("client_id"): Option<Spanned<Text>>, OperatorOnly;
        /// By what the console is known there, usually `${VAR}`. Without it, by nothing but its redirect URI (a public client).
        client_secret ("client_secret"): Option<Spanned<Secret>>, OperatorOnly;
        /// The file that holds it and nothing else, in place of `client_secret`.
        client_secret_file ("client_secret_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// A PEM file with the authorities that vouch for its server. Without it, those that the system trusts.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// What is asked for besides `openid`, such as `groups`. Without it, `email`.
        scopes ("scopes"): Vec<Spanned<Name>>, OperatorOnly;
        /// By which claim a person is known.
        user_claim ("user_claim"): Setting<PersonClaim> = PersonClaim::Email, OperatorOnly;
        /// The claim that says what a person may do: a text or a list of texts, which the provider gives and nobody chooses. Without it,
        /// `groups`.
        role_claim ("role_claim"): Option<Spanned<Name>>, OperatorOnly;
        /// What those may do who have a value in that claim. Whoever has none of these is not let in.
        roles ("roles"): Entries<ClaimText, Vec<Spanned<ConsoleScope>>>, OperatorOnly;
        /// How many minutes a session lasts at most. Then the person signs in anew, and what the provider says of them counts anew.
        longest ("max_session_minutes"): Setting<Whole<1, 480>> = Whole::clamped(480), OperatorOnly;
        /// Whether a person has to sign in at the provider each time, also where a browser is signed in there already: it is asked for
        /// that, and has to say by `auth_time` that it was at most two minutes ago.
        sign_in_anew ("sign_in_anew"): Setting<bool> = false, OperatorOnly;
    }
}

impl GatewayConsole {
    /// Checks that people can be sent to the provider and back, that somebody is let in, and nobody whom the provider does not vouch for.
    pub(super) fn check(&self, hosts: &[Spanned<Name>], cx: &mut Reader<'_>) {
        let at = self.oidc.said_at();
        match (&self.origin, at) {
            (None, Some(at)) => {
                let message = "`gateway.console.oidc` needs `gateway.console.origin`".to_owned();
                let hint = "an identity provider sends people back to one address that it knows, such as `https://backstop.example.com`; in the clear, the console has a name that nobody can know before";
                cx.report(conflict(at, message).with_hint(hint));
            }
            (Some(origin), None) => {
                let message = "`gateway.console.origin` counts for nothing without `gateway.console.oidc`";
                cx.report(conflict(&origin.at, message.to_owned()));
            }
            (Some(origin), Some(_)) => check_origin(origin, hosts, cx),
            (None, None) => {}
        }
        if let Some(at) = at {
            self.oidc.check(at, cx);
        }
    }
}

impl GatewayOidc {
    /// Returns where something is said of it; `None` if nothing is.
    fn said_at(&self) -> Option<&Place> {
        let Self {
            issuer,
            client_id,
            client_secret,
            client_secret_file,
            ca_file,
            scopes,
            user_claim,
            role_claim,
            roles,
            longest,
            sign_in_anew,
        } = self;
        let texts = [issuer, client_id, ca_file].into_iter().filter_map(|text| Some(&text.as_ref()?.at));
        let lists = scopes.iter().map(|scope| &scope.at).chain(roles.iter().map(|(value, _)| &value.at));
        let rest = [
            client_secret.as_ref().map(|secret| &secret.at),
            client_secret_file.as_ref().map(|file| &file.at),
            role_claim.as_ref().map(|claim| &claim.at),
            user_claim.at.as_ref(),
            longest.at.as_ref(),
            sign_in_anew.at.as_ref(),
        ];
        texts.chain(lists).chain(rest.into_iter().flatten()).next()
    }

    fn check(&self, at: &Place, cx: &mut Reader<'_>) {
        let missing = [
            ("issuer", self.issuer.is_none()),
            ("client_id", self.client_id.is_none()),
            ("roles", self.roles.is_empty()),
        ];
        for (key, _) in missing.into_iter().filter(|(_, is_missing)| *is_missing) {
            let hint = match key {
                "roles" => {
                    "nobody is let in without a role, such as `roles: { backstop-approvers: [read, approve] }`"
                }
                _ => "the identity provider shows it where the console is registered",
            };
            let message = format!("`gateway.console.oidc` has no `{key}`");
            cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
        }
        let secret = [("client_secret", &self.client_secret, "client_secret_file", &self.client_secret_file)];
        report(not_once(secret, at, false), cx);
        if let Some(issuer) = &self.issuer {
            let has_more = issuer.value.expose().contains(['?', '#']);
            let more = has_more.then(|| {
                let message = "`issuer` must not have a query or a fragment".to_owned();
                Problem::new(ProblemKind::BadValue, issuer.at.clone(), message)
            });
            unusable("issuer", issuer).or(more).into_iter().for_each(|problem| cx.report(problem));
        }
        if let Some(id) = &self.client_id {
            let text = id.value.expose();
            if !(1..=256).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
                let message = "`client_id` must have 1 to 256 characters of ASCII and no blanks".to_owned();
                cx.report(Problem::new(ProblemKind::BadValue, id.at.clone(), message));
            }
        }
        for (value, _) in self.roles.iter().filter(|(_, scopes)| scopes.is_empty()) {
            let message = format!("the role `{}` allows nothing", value.value.as_str());
            let hint = "leave it out, or name some of `read`, `approve` and `admin`";
            cx.report(Problem::new(ProblemKind::BadValue, value.at.clone(), message).with_hint(hint));
        }
        if let Some(claim) = &self.role_claim
            && let Some(why) = unfit(claim.value.as_str())
        {
            let message =
                format!("`{}` is no claim by which somebody may do something", claim.value.as_str());
            let hint = format!(
                "{why}; use one that the provider's administrators give, such as `groups`, or `email`"
            );
            cx.report(Problem::new(ProblemKind::BadValue, claim.at.clone(), message).with_hint(hint));
        }
        if let Some(scope) = self.scopes.iter().find(|scope| scope.value.as_str() == "offline_access") {
            let message = "`offline_access` asks for a token that outlasts the sign-in".to_owned();
            let hint = "leave it out: nothing of the provider is kept";
            cx.report(Problem::new(ProblemKind::BadValue, scope.at.clone(), message).with_hint(hint));
        }
    }
}

/// Returns why a claim says nothing of what somebody may do, if it does not.
fn unfit(claim: &str) -> Option<&'static str> {
    if CHOSEN.contains(&claim) {
        return Some("people choose it themselves at many providers");
    }
    EVERYBODYS.contains(&claim).then_some("everybody who signs in has it")
}

/// Checks that people can be sent back to an address.
fn check_origin(origin: &Spanned<Text>, hosts: &[Spanned<Name>], cx: &mut Reader<'_>) {
    // What a variable holds is told nowhere; the gateway looks for it in the list, too.
    let parsed: Option<Uri> = origin.value.expose().parse().ok();
    let host = parsed.as_ref().and_then(plain_host);
    let Some(host) = host else {
        let message = "`origin` must be an `https` address without a path".to_owned();
        let hint = "for example `https://backstop.example.com`; in the clear nobody can sign in by `oidc`";
        cx.report(Problem::new(ProblemKind::BadValue, origin.at.clone(), message).with_hint(hint));
        return;
    };
    let bare = host.trim_matches(['[', ']']);
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if is_local {
        let message = "`origin` must not be a name of this machine alone".to_owned();
        let hint = "a browser shows its cookies to every port of such a name; use one for which `gateway.tls` has a certificate";
        cx.report(Problem::new(ProblemKind::BadValue, origin.at.clone(), message).with_hint(hint));
    } else if !origin.value.is_from_environment()
        && !hosts.iter().any(|known| known.value.as_str().eq_ignore_ascii_case(host))
    {
        let message = format!("`gateway.hosts` does not list `{host}`, the name in `gateway.console.origin`");
        cx.report(conflict(&origin.at, message));
    }
}

/// The host of an `https` address with nothing behind it.
fn plain_host(uri: &Uri) -> Option<&str> {
    let is_plain = uri.scheme_str() == Some("https")
        && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        && matches!(uri.path(), "" | "/")
        && uri.query().is_none();
    uri.host().filter(|host| is_plain && !host.is_empty())
}

fn conflict(at: &Place, message: String) -> Problem {
    Problem::new(ProblemKind::Conflict, at.clone(), message)
}

/// A value that a claim can have: 1 to 256 characters, none of them invisible.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimText(String);

impl ClaimText {
    const LIMIT: usize = 256;
}

impl ClaimText {
    /// Returns the value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Key for ClaimText {
    fn read(key: &str, at: &Place, cx: &mut Reader<'_>) -> Option<Self> {
        let fits = (1..=Self::LIMIT).contains(&key.chars().count()) && !key.chars().any(is_invisible);
        if fits && key.trim() == key {
            return Some(Self(key.to_owned()));
        }
        let message = format!("`{}` can't be the value of a claim", quote(key));
        let hint = format!(
            "it has 1 to {} characters, none of them invisible, and no blanks around it",
            Self::LIMIT
        );
        cx.report(Problem::new(ProblemKind::BadValue, at.clone(), message).with_hint(hint));
        None
    }

    fn as_str(&self) -> &str {
        &self.0
    }
}
