//! Where people sign in at an issuer, as its discovery document says (OpenID Connect Discovery, 3; RFC 8414, 2).

use serde_json::{Map, Value};
use url::Url;

/// Where people sign in.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// Where a browser is sent.
    pub(super) authorization: Url,
    /// Where a code is exchanged.
    pub(super) token: Url,
    /// Whether the token endpoint knows a client by HTTP authentication, which it does unless it says otherwise.
    pub(super) takes_basic: bool,
    /// Whether a browser that is sent back says who sent it (RFC 9207, 3).
    pub(super) says_issuer: bool,
}

impl Endpoints {
    /// Those of a document. `named` is the address that stands under a name.
    ///
    /// # Errors
    /// If an address is missing, or can't be gone by.
    pub(super) fn of(
        document: &Map<String, Value>,
        named: impl Fn(&'static str) -> Result<Url, String>,
    ) -> Result<Self, String> {
        let methods = document.get("token_endpoint_auth_methods_supported");
        let takes = |method: &str| {
            methods.and_then(Value::as_array).is_some_and(|methods| methods.iter().any(|one| one == method))
        };
        let says_issuer = document.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization: named("authorization_endpoint")?,
            token: named("token_endpoint")?,
            takes_basic: methods.is_none() || takes("client_secret_basic") || !takes("client_secret_post"),
            says_issuer: says_issuer == Some(&Value::Bool(true)),
        })
    }
}
