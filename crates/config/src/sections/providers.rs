//! `providers` and `audit`: where data goes. Only the operator can set these.

use http::Uri;

use super::AuditWitness;
use crate::config_value::{item, section};
use crate::place::{Place, Setting, Spanned};
use crate::problem::{Problem, ProblemKind};
use crate::reader::Reader;
use crate::text::{Secret, SecretFile, Text};
use crate::values::{Api, AwsSource, CloudName, GoogleSource, Millis, Name, Whole};

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
        /// With `cloud: bedrock` or `cloud: vertex`, the region, or the location.
        region ("region"): Option<Spanned<Name>>, OperatorOnly;
        /// With `cloud: vertex`, the project below which models are asked for.
        project ("project"): Option<Spanned<Name>>, OperatorOnly;
        /// With `cloud: bedrock`, where the credentials are by which requests are signed, in place of an `api_key`.
        aws_credentials ("aws_credentials"): Option<Spanned<AwsSource>>, OperatorOnly;
        /// With `cloud: bedrock`, the profile of Amazon's files (`~/.aws/credentials` and `~/.aws/config`) that has them.
        aws_profile ("aws_profile"): Option<Spanned<Name>>, OperatorOnly;
        /// With `cloud: vertex`, where access tokens come from, in place of an `api_key`.
        google_credentials ("google_credentials"): Option<Spanned<GoogleSource>>, OperatorOnly;
        /// With `cloud: vertex`, the file that access tokens are made from: of a service account, or of a user
        /// (`authorized_user`).
        google_credentials_file ("google_credentials_file"): Option<Spanned<Text>>, OperatorOnly;
        /// With `cloud: vertex` or `cloud: azure`, a program that prints an access token, and its arguments. It is started
        /// without a shell, and anew before the token expires.
        token_command ("token_command"): Option<Spanned<Vec<Spanned<Text>>>>, OperatorOnly;
        /// Environment variables that the program of `token_command` gets besides `HOME`, `PATH`, `USER`, `LOGNAME`, `LANG`,
        /// `TZ` and `TMPDIR`.
        token_environment ("token_environment"): Vec<Spanned<Name>>, OperatorOnly;
        /// Where it is, such as `https://api.example.com`. Without it, the maker's own address.
        base_url ("base_url"): Option<Spanned<Text>>, OperatorOnly;
        /// The key, usually `${VAR}`. At most one of `api_key`, `api_key_env`, `api_key_file` and what a cloud has in their
        /// place. Without any, the gateway passes on the key of its client.
        api_key ("api_key"): Option<Spanned<Secret>>, OperatorOnly;
        /// The environment variable that holds the key; looked up when the provider is used, so it may be unset until
        /// then.
        api_key_env ("api_key_env"): Option<Spanned<Name>>, OperatorOnly;
        /// The file that holds the key and nothing else; read when the provider is used.
        api_key_file ("api_key_file"): Option<Spanned<SecretFile>>, OperatorOnly;
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
    /// The audit trail: digests, verdicts and reasons, never texts.
    pub struct Audit {
        /// Whether everything is recorded. Without it, questions, answers and grants still are.
        enabled ("enabled"): Setting<bool> = true, OperatorOnly;
        /// The file with the key of its digests, which `backstop audit keygen` makes. With it, each digest of what was judged is keyed
        /// (HMAC-SHA-256), so that whoever reads the trail without the key can't guess short arguments. Nothing is judged while it can't be read. Its path takes no variables.
        digest_key ("digest_key"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// The file with the key that signs it, in place of `audit.key` beside the database: a credential of systemd, for example. It is only read: neither made
        /// nor replaced, and nothing is recorded, nor judged, while it can't be read. Its path takes no variables.
        key_file ("key_file"): Option<Spanned<SecretFile>>, OperatorOnly;
        /// Who keeps its checkpoints, so that cutting it off or writing it anew shows. Whoever the agent runs as can do both.
        witness ("witness"): Vec<AuditWitness>, OperatorOnly;
    }
}

impl Provider {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let mut sources = self.sources();
        let conflict = sources.next().zip(sources.next()).map(|((first, _), (second, at))| {
            let message = format!("{} has both `{first}` and `{second}`", cx.subject());
            Problem::new(ProblemKind::Conflict, at.clone(), message).with_hint("keep one of them")
        });
        let problems = conflict.into_iter().chain(self.check_address()).chain(self.check_cloud(cx));
        let problems = problems.chain(self.check_command());
        let problems: Vec<Problem> = problems.collect();
        let sound = problems.is_empty();
        problems.into_iter().for_each(|problem| cx.report(problem));
        sound.then_some(())
    }

    /// Returns the keys that say who pays, and where they stand. Without any, the client does.
    fn sources(&self) -> impl Iterator<Item = (&'static str, &Place)> {
        let sources = [
            self.api_key.as_ref().map(|key| ("api_key", &key.at)),
            self.api_key_env.as_ref().map(|variable| ("api_key_env", &variable.at)),
            self.api_key_file.as_ref().map(|file| ("api_key_file", &file.at)),
            self.aws_credentials.as_ref().map(|source| ("aws_credentials", &source.at)),
            self.aws_profile.as_ref().map(|profile| ("aws_profile", &profile.at)),
            self.google_credentials.as_ref().map(|source| ("google_credentials", &source.at)),
            self.google_credentials_file.as_ref().map(|file| ("google_credentials_file", &file.at)),
            self.token_command.as_ref().map(|command| ("token_command", &command.at)),
        ];
        sources.into_iter().flatten()
    }

    /// Returns whether there is a program where one is to print a token, and none else is given variables.
    fn check_command(&self) -> Option<Problem> {
        let wrong = |at: &Place, message: &str| Problem::new(ProblemKind::BadValue, at.clone(), message);
        match (&self.token_command, self.token_environment.first()) {
            (Some(command), _) if command.value.is_empty() => {
                let problem = wrong(&command.at, "`token_command` must name a program");
                Some(problem.with_hint("for example `[gcloud, auth, print-access-token]`"))
            }
            (None, Some(name)) => {
                Some(wrong(&name.at, "`token_environment` is for `token_command`, which is not there"))
            }
            (Some(_) | None, _) => None,
        }
    }

    /// Returns whether it speaks what its cloud has, and says what its cloud wants to know.
    fn check_cloud(&self, cx: &Reader<'_>) -> Option<Problem> {
        let cloud = self.cloud.as_ref().map(|cloud| cloud.value);
        self.check_keys(cloud, cx).or_else(|| self.check_missing(cx)).or_else(|| self.check_names())
    }

    /// Keys that mean something to another cloud only.
    fn check_keys(&self, cloud: Option<CloudName>, cx: &Reader<'_>) -> Option<Problem> {
        use CloudName::{Azure, Bedrock, Vertex};
        let keys: [(&str, Option<&Place>, &[CloudName]); 8] = [
            ("api_version", self.api_version.as_ref().map(|version| &version.at), &[Azure]),
            ("region", self.region.as_ref().map(|region| &region.at), &[Bedrock, Vertex]),
            ("project", self.project.as_ref().map(|project| &project.at), &[Vertex]),
            ("aws_credentials", self.aws_credentials.as_ref().map(|source| &source.at), &[Bedrock]),
            ("aws_profile", self.aws_profile.as_ref().map(|profile| &profile.at), &[Bedrock]),
            ("google_credentials", self.google_credentials.as_ref().map(|source| &source.at), &[Vertex]),
            (
                "google_credentials_file",
                self.google_credentials_file.as_ref().map(|file| &file.at),
                &[Vertex],
            ),
            ("token_command", self.token_command.as_ref().map(|command| &command.at), &[Vertex, Azure]),
        ];
        let strange = |clouds: &[CloudName]| !cloud.is_some_and(|cloud| clouds.contains(&cloud));
        let (key, at, clouds) = keys
            .into_iter()
            .find_map(|(key, at, clouds)| at.filter(|_| strange(clouds)).map(|at| (key, at, clouds)))?;
        let clouds: Vec<String> = clouds.iter().map(|cloud| format!("`cloud: {}`", cloud.name())).collect();
        let message = format!("{} has `{key}` without {}", cx.subject(), clouds.join(" or "));
        Some(Problem::new(ProblemKind::BadValue, at.clone(), message))
    }

    /// Returns what a cloud wants to know, and the APIs that it has.
    fn check_missing(&self, cx: &Reader<'_>) -> Option<Problem> {
        let cloud = self.cloud.as_ref()?;
        let (name, subject) = (cloud.value.name(), cx.subject());
        let speaks: &[Api] = match cloud.value {
            CloudName::Azure => &[Api::OpenaiChat, Api::OpenaiResponses],
            CloudName::Bedrock => &[Api::Anthropic],
            CloudName::Vertex => &[Api::Anthropic, Api::Gemini],
        };
        if !speaks.contains(&self.api.value) {
            let message = format!("{subject} speaks an API that `cloud: {name}` does not have here");
            let known: Vec<String> = speaks.iter().map(|api| format!("`{}`", api.name())).collect();
            let problem = Problem::new(ProblemKind::BadValue, self.api.at.clone(), message);
            return Some(problem.with_hint(format!("use {}", known.join(" or "))));
        }
        let missing = match cloud.value {
            CloudName::Azure => [("base_url", self.base_url.is_none()), ("", false)],
            CloudName::Bedrock => [("region", self.region.is_none()), ("", false)],
            CloudName::Vertex => [("region", self.region.is_none()), ("project", self.project.is_none())],
        };
        let (key, _) = missing.into_iter().find(|(_, is_missing)| *is_missing)?;
        let message = format!("{subject} has no `{key}`, which `cloud: {name}` needs");
        let problem = Problem::new(ProblemKind::BadValue, cloud.at.clone(), message);
        Some(match cloud.value {
            CloudName::Azure => problem.with_hint("for example `https://my-resource.openai.azure.com`"),
            CloudName::Bedrock => problem.with_hint("for example `us-east-1`"),
            CloudName::Vertex => problem,
        })
    }

    /// Names that stand in addresses.
    fn check_names(&self) -> Option<Problem> {
        let names =
            [("api_version", &self.api_version), ("region", &self.region), ("project", &self.project)];
        let is_plain = |name: &str| {
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
            name.bytes().all(is_word) && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
        };
        let named = names.into_iter().filter_map(|(key, name)| Some((key, name.as_ref()?)));
        let (key, name) = named.into_iter().find(|(_, name)| !is_plain(name.value.as_str()))?;
        let message = format!("`{key}` stands in addresses, and has letters, digits, `-`, `_`, `.` and `:`");
        Some(Problem::new(ProblemKind::BadValue, name.at.clone(), message))
    }

    fn check_address(&self) -> Option<Problem> {
        let url = self.base_url.as_ref()?;
        let has_key = self.sources().next().is_some();
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

pub(super) struct Address {
    pub(super) has_user: bool,
    /// Encrypted, or not leaving this machine.
    pub(super) is_private: bool,
}

impl Address {
    pub(super) fn parse(url: &str) -> Option<Self> {
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
