//! `gateway.console` as who signs in to the console.

use std::time::Duration;

use backstop_config::{ConsoleScope, Loaded, PersonClaim as ConfigClaim, Spanned};
use backstop_gateway::{PersonClaim, PersonIssuer, Trust};
use backstop_store::Scope;

use super::gateway::{GatewayConfigError, unreadable};
use super::secrets::secret;
use super::small_file::{self, LARGEST_PEM};
use crate::locations::from_operator;

/// The claim of roles unless the operator names another.
const ROLES: &str = "groups";
/// What is asked for unless the operator names something else.
const SCOPE: &str = "email";

/// At whom people sign in; `None`, if at nobody.
pub(super) fn sign_in(loaded: &Loaded) -> Result<Option<PersonIssuer>, GatewayConfigError> {
    let console = &loaded.config.gateway.console;
    let oidc = &console.oidc;
    let (Some(origin), Some(issuer), Some(client_id)) = (&console.origin, &oidc.issuer, &oidc.client_id)
    else {
        return Ok(None);
    };
    let scopes = oidc.scopes.iter().map(|scope| scope.value.as_str().to_owned());
    let scopes = if oidc.scopes.is_empty() { vec![SCOPE.to_owned()] } else { scopes.collect() };
    let roles = oidc
        .roles
        .iter()
        .map(|(value, scopes)| (value.value.as_str().to_owned(), scopes.iter().map(lowered).collect()));
    Ok(Some(PersonIssuer {
        issuer: issuer.value.expose().to_owned(),
        client_id: client_id.value.expose().to_owned(),
        client_secret: secret(loaded, oidc.client_secret.as_ref(), oidc.client_secret_file.as_ref())
            .map_err(|why| unreadable("console.oidc.client_secret", why))?,
        trust: trust(loaded)?,
        origin: origin.value.expose().to_owned(),
        scopes,
        user_claim: match oidc.user_claim.value {
            ConfigClaim::Email => PersonClaim::Email,
            ConfigClaim::Sub => PersonClaim::Subject,
        },
        role_claim: oidc.role_claim.as_ref().map_or(ROLES, |claim| claim.value.as_str()).to_owned(),
        roles: roles.collect(),
        longest: Duration::from_secs(oidc.longest.value.get().saturating_mul(60)),
        sign_in_anew: oidc.sign_in_anew.value,
    }))
}

const fn lowered(scope: &Spanned<ConsoleScope>) -> Scope {
    match scope.value {
        ConsoleScope::Read => Scope::Read,
        ConsoleScope::Approve => Scope::Approve,
        ConsoleScope::Admin => Scope::Admin,
    }
}

fn trust(loaded: &Loaded) -> Result<Trust, GatewayConfigError> {
    let Some(file) = &loaded.config.gateway.console.oidc.ca_file else { return Ok(Trust::System) };
    let path = from_operator(loaded, file.value.expose());
    let source = path.display().to_string();
    match small_file::read(&path, LARGEST_PEM) {
        Ok(pem) => Ok(Trust::Only { pem, source }),
        Err(error) => Err(GatewayConfigError::SignInAuthorities { file: source, reason: error.to_string() }),
    }
}
