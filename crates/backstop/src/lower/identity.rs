//! `gateway.identity` as issuers of a gateway.

use std::time::Duration;

use backstop_config::{GatewayIssuer, IssuerAlgorithm, Loaded, Spanned, Text};
use backstop_gateway::{TokenAlgorithm, TokenIssuer, Trust};
use backstop_hooks::AgentId;

use super::gateway::GatewayConfigError;
use super::small_file::{self, LARGEST_PEM};
use crate::locations::from_operator;

/// Who vouches for callers.
pub(super) fn issuers(loaded: &Loaded) -> Result<Vec<TokenIssuer>, GatewayConfigError> {
    loaded.config.gateway.identity.issuers.iter().map(|issuer| lowered(loaded, issuer)).collect()
}

fn lowered(loaded: &Loaded, issuer: &GatewayIssuer) -> Result<TokenIssuer, GatewayConfigError> {
    let texts = |texts: &[Spanned<Text>]| texts.iter().map(|text| text.value.expose().to_owned()).collect();
    let agents = issuer.agents.iter();
    let agents =
        agents.map(|(value, agent)| (value.value.as_str().to_owned(), AgentId::new(agent.value.as_str())));
    let required = issuer.require.iter();
    let required =
        required.map(|(claim, value)| (claim.value.as_str().to_owned(), value.value.json().clone()));
    let algorithms: Vec<_> = issuer.algorithms.iter().map(|named| algorithm(named.value)).collect();
    Ok(TokenIssuer {
        issuer: issuer.issuer.value.expose().to_owned(),
        audiences: texts(&issuer.audience.value),
        jwks: issuer.jwks.as_ref().map(|jwks| jwks.value.expose().to_owned()),
        trust: trust(loaded, issuer)?,
        algorithms: if algorithms.is_empty() { TokenAlgorithm::ALL.to_vec() } else { algorithms },
        authorized_parties: texts(&issuer.authorized_parties),
        agent_claim: issuer.agent_claim.as_ref().map(|claim| claim.value.as_str().to_owned()),
        agents: agents.collect(),
        user_claim: issuer.user_claim.as_ref().map(|claim| claim.value.as_str().to_owned()),
        required: required.collect(),
        leeway: Duration::from_secs(issuer.leeway.value.get()),
    })
}

const fn algorithm(named: IssuerAlgorithm) -> TokenAlgorithm {
    match named {
        IssuerAlgorithm::Rs256 => TokenAlgorithm::Rs256,
        IssuerAlgorithm::Ps256 => TokenAlgorithm::Ps256,
        IssuerAlgorithm::Es256 => TokenAlgorithm::Es256,
        IssuerAlgorithm::Es384 => TokenAlgorithm::Es384,
        IssuerAlgorithm::EdDsa => TokenAlgorithm::EdDsa,
    }
}

fn trust(loaded: &Loaded, issuer: &GatewayIssuer) -> Result<Trust, GatewayConfigError> {
    let Some(file) = &issuer.ca_file else { return Ok(Trust::System) };
    let path = from_operator(loaded, file.value.expose());
    let source = path.display().to_string();
    match small_file::read(&path, LARGEST_PEM) {
        Ok(pem) => Ok(Trust::Only { pem, source }),
        Err(error) => Err(GatewayConfigError::IssuerAuthorities {
            issuer: issuer.issuer.value.expose().to_owned(),
            file: source,
            reason: error.to_string(),
        }),
    }
}
