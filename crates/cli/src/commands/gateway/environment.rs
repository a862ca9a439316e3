//! What programs read to find their model.

use backstop::clients::install::pointing::Clouds;
use backstop::gateway::{Cloud, Credential, Family, Settings};
use backstop::hooks::Secret;

/// The variables by which a program is pointed at a gateway.
///
/// `url` is the gateway's address with the `token`. A program needs a key even where the gateway has the real one;
/// then it gets the token. `inherited` says what the program would have
/// otherwise.
pub(super) fn variables(
    url: &str,
    token: &Secret,
    settings: &Settings,
    inherited: &dyn Fn(&str) -> Option<String>,
) -> Vec<(&'static str, String)> {
    let versioned = format!("{url}/v1");
    let mut variables: Vec<(&'static str, String)> = ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"]
        .into_iter()
        .chain(["GOOGLE_GEMINI_BASE_URL", "GEMINI_API_BASE", "BACKSTOP_GATEWAY_URL"])
        .map(|name| (name, url.to_owned()))
        .collect();
    let openai = ["OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_BASE_URL"];
    variables.extend(openai.map(|name| (name, versioned.clone())));
    for family in Family::ALL {
        if !has_key(settings, family) {
            continue;
        }
        let names: &[&'static str] = key_names(family);
        if names.iter().all(|name| inherited(name).is_none()) {
            variables.extend(names.iter().map(|name| (*name, token.expose().clone())));
        }
    }
    variables.extend(["NO_PROXY", "no_proxy"].map(|name| (name, with_loopback(inherited(name)))));
    variables
}

const fn key_names(family: Family) -> &'static [&'static str] {
    match family {
        Family::Anthropic => &["ANTHROPIC_API_KEY"],
        Family::OpenAi => &["OPENAI_API_KEY"],
        Family::Gemini => &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    }
}

/// Whether the gateway itself has a key of that family, so that the program's is never used.
pub(super) fn has_key(settings: &Settings, family: Family) -> bool {
    let first = settings.defaults.get(&family).and_then(|names| names.first());
    let provider = first.and_then(|name| settings.providers.get(name));
    provider.is_some_and(|provider| !matches!(provider.credential, Credential::Client))
}

/// The clouds in which the gateway asks Anthropic's models with a key of its own.
pub(super) fn clouds(settings: &Settings) -> Clouds {
    let own = settings.providers.values().filter(|provider| {
        provider.family == Family::Anthropic && !matches!(provider.credential, Credential::Client)
    });
    let mut clouds = Clouds::default();
    for provider in own {
        clouds.bedrock |= matches!(provider.cloud, Some(Cloud::Bedrock { .. }));
        clouds.vertex |= matches!(provider.cloud, Some(Cloud::Vertex { .. }));
    }
    clouds
}

/// A proxy of the environment can't reach this machine.
pub(super) fn with_loopback(inherited: Option<String>) -> String {
    let inherited = inherited.filter(|value| !value.trim().is_empty());
    match inherited {
        Some(hosts) => format!("{hosts},127.0.0.1,localhost"),
        None => "127.0.0.1,localhost".to_owned(),
    }
}
