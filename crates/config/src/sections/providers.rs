//! `providers`, `store` and `audit`: where data goes. All three are the operator's alone.

use http::Uri;

use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, Text};
use crate::values::{Api, CloudName, Millis, Name, Whole};
use crate::wire::{item, section};

item! {
    /// A model provider.
    pub struct Provider {
        /// The wire format it speaks.
        api ("api"): Spanned<Api>, OperatorOnly;
        /// The cloud that it is in, if that has addresses of its own. Then only the gateway asks it.
        cloud ("cloud"): Option<Spanned<CloudName>>, OperatorOnly;
        /// With `cloud: azure`, the version of its API, for addresses by deployment (`api-version`). Without it, they are
        /// those of `/openai/v1`.
        api_version ("api_version"): Option<Spanned<Name>>, OperatorOnly;
        /// Where it is, such as `https://api.example.com`. Without it, the maker's own address.
        base_url ("base_url"): Option<Spanned<Text>>, OperatorOnly;
        /// The key, usually `${VAR}`. At most one of `api_key`, `api_key_env` and `api_key_file`. Without any, the
        /// gateway passes on the key of its client.
        api_key ("api_key"): Option<Spanned<Secret>>, OperatorOnly;
        /// The environment variable that holds the key; looked up when the provider is used, so it may be unset until
        /// then.
        api_key_env ("api_key_env"): Option<Spanned<Name>>, OperatorOnly;
        /// The file that holds the key and nothing else; read when the provider is used.
        api_key_file ("api_key_file"): Option<Spanned<Text>>, OperatorOnly;
        /// A PEM file with the certificates of the authorities that vouch for an encrypted `base_url`, in place of
        /// those that the system trusts. For gateways of one's own.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// The models that may be used. Without it, any.
        models ("models"): Vec<Spanned<Text>>, OperatorOnly;
        /// The longest time to a connection, in milliseconds.
        connect_timeout ("connectTimeoutMs"): Setting<Millis> = Millis::clamped(10_000), OperatorOnly;
        /// The longest silence within an answer, in milliseconds.
        idle_timeout ("idleTimeoutMs"): Setting<Millis> = Millis::clamped(120_000), OperatorOnly;
        /// How often a call that may succeed later is tried again.
        max_retries ("max_retries"): Setting<Whole<0, 10>> = Whole::clamped(3), OperatorOnly;
    }
    check: check;
}

section! {
    /// Where sessions, approvals and receipts are kept.
    pub struct Store {
        /// The database file. Without it, a file in the user's data folder.
        path ("path"): Option<Spanned<Text>>, OperatorOnly;
    }
}

section! {
    /// The audit trail: digests, verdicts and reasons, never texts.
    pub struct Audit {
        /// Whether it is written.
        enabled ("enabled"): Setting<bool> = true, OperatorOnly;
    }
}

impl Provider {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let sources = [
            self.api_key.as_ref().map(|key| ("`api_key`", &key.at)),
            self.api_key_env.as_ref().map(|variable| ("`api_key_env`", &variable.at)),
            self.api_key_file.as_ref().map(|file| ("`api_key_file`", &file.at)),
        ];
        let mut sources = sources.into_iter().flatten();
        let conflict = sources.next().zip(sources.next()).map(|((first, _), (second, at))| {
            let message = format!("{} has both {first} and {second}", cx.subject());
            Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint("keep one of them")
        });
        let problems = conflict.into_iter().chain(self.check_address()).chain(self.check_cloud(cx));
        let problems: Vec<Problem> = problems.collect();
        let sound = problems.is_empty();
        problems.into_iter().for_each(|problem| cx.report(problem));
        sound.then_some(())
    }

    /// Whether it speaks what its cloud has, and says what its cloud wants to know.
    fn check_cloud(&self, cx: &Reader<'_>) -> Option<Problem> {
        let problem = |at: &Place, message: String| Problem::new(ProblemKind::BadValue, at.clone(), message);
        let Some(cloud) = &self.cloud else {
            let version = self.api_version.as_ref()?;
            let message = format!("{} has an `api_version`, and no `cloud: azure`", cx.subject());
            return Some(problem(&version.at, message));
        };
        match cloud.value {
            CloudName::Azure if !matches!(self.api.value, Api::OpenaiChat | Api::OpenaiResponses) => {
                let message = format!("{} in Azure speaks another API than OpenAI's", cx.subject());
                Some(problem(&self.api.at, message).with_hint("use `openai-chat` or `openai-responses`"))
            }
            CloudName::Azure if self.base_url.is_none() => {
                let message =
                    format!("{} has no `base_url`, and Azure has an address for each resource", cx.subject());
                let hint = "for example `https://my-resource.openai.azure.com`";
                Some(problem(&cloud.at, message).with_hint(hint))
            }
            CloudName::Azure => {
                let version = self.api_version.as_ref()?;
                let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                (!version.value.as_str().bytes().all(is_plain)).then(|| {
                    problem(&version.at, "`api_version` must be a version such as `2024-10-21`".to_owned())
                })
            }
        }
    }

    fn check_address(&self) -> Option<Problem> {
        let url = self.base_url.as_ref()?;
        let has_key = self.api_key.is_some() || self.api_key_env.is_some() || self.api_key_file.is_some();
        let (message, hint) = match Address::parse(url.value.expose()) {
            None => ("`base_url` must be an address", "for example `https://api.example.com`"),
            Some(address) if address.has_user => {
                ("`base_url` must not hold a user or a password", "put the secret into `api_key`")
            }
            Some(address) if has_key && !address.is_private => (
                "the key would travel unencrypted to `base_url`",
                "use `https://`; plain `http://` is for this machine only",
            ),
            Some(_) => return None,
        };
        Some(Problem::new(ProblemKind::BadValue, url.at.clone(), message).with_hint(hint))
    }
}

struct Address {
    has_user: bool,
    /// Encrypted, or not leaving this machine.
    is_private: bool,
}

impl Address {
    fn parse(url: &str) -> Option<Self> {
        let uri: Uri = url.parse().ok()?;
        let host = uri.host().filter(|host| !host.is_empty())?.trim_matches(['[', ']']);
        let loopback =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let encrypted = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let has_user = uri.authority()?.as_str().contains('@');
        Some(Self { has_user, is_private: encrypted || loopback })
    }
}
