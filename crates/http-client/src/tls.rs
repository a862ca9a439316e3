//! TLS of outgoing connections: the trusted authorities and the cryptography provider.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use thiserror::Error;
use tokio_rustls::TlsConnector;

/// The name of HTTP/2 in the handshake.
pub(crate) const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// The certificate authorities that are trusted.
#[derive(Clone, Debug, Default)]
pub enum Trust {
    /// Those of the system, read when the first encrypted connection is made.
    #[default]
    System,
    /// These authorities and no others.
    Only(Arc<RootCertStore>),
}

/// Why a text can't be used as a list of authorities.
#[derive(Debug, Error)]
pub enum NoAuthorities {
    /// It holds no certificate.
    #[error("there is none in it")]
    None,
    /// It is not PEM.
    #[error("{0}")]
    Pem(rustls::pki_types::pem::Error),
    /// One of its certificates is malformed.
    #[error("{0}")]
    Certificate(rustls::Error),
}

impl Trust {
    /// Returns the authorities whose certificates are in this PEM. Other items in it are skipped.
    ///
    /// # Errors
    ///
    /// [`NoAuthorities`] if there is no certificate or one is malformed.
    pub fn only(pem: &[u8]) -> Result<Self, NoAuthorities> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(NoAuthorities::Pem)?).map_err(NoAuthorities::Certificate)?;
        }
        if roots.is_empty() { Err(NoAuthorities::None) } else { Ok(Self::Only(Arc::new(roots))) }
    }
}

/// Returns the cryptography provider: the default of the process if an embedding program installed one, otherwise `ring`.
pub fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()))
}

/// TLS settings that any number of connectors share. They are set up on first use, so that the system's certificates are not
/// read where nothing is encrypted.
#[derive(Debug)]
pub struct Tls {
    trust: Trust,
    set_up: OnceLock<Encryption>,
}

/// Encrypts connections.
#[derive(Clone)]
pub(crate) struct Encryption {
    /// Offers HTTP/2, too.
    pub(crate) any: TlsConnector,
    pub(crate) http1: TlsConnector,
}

impl Tls {
    /// Returns TLS settings with these authorities.
    pub fn new(trust: Trust) -> Self {
        Self { trust, set_up: OnceLock::new() }
    }

    pub(crate) fn encryption(&self) -> Result<Encryption, rustls::Error> {
        if let Some(encryption) = self.set_up.get() {
            return Ok(encryption.clone());
        }
        let config = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
        let config = match &self.trust {
            Trust::System => config.with_platform_verifier()?,
            Trust::Only(roots) => config.with_root_certificates(Arc::clone(roots)),
        };
        let mut any = config.with_no_client_auth();
        let mut http1 = any.clone();
        http1.alpn_protocols = vec![HTTP1.to_vec()];
        any.alpn_protocols = vec![H2.to_vec(), HTTP1.to_vec()];
        let connector = |config| TlsConnector::from(Arc::new(config));
        let encryption = Encryption { any: connector(any), http1: connector(http1) };
        Ok(self.set_up.get_or_init(|| encryption).clone())
    }
}

impl std::fmt::Debug for Encryption {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encryption").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_certificates_names_nobody() {
        assert!(matches!(Trust::only(b"no certificate"), Err(NoAuthorities::None)));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(matches!(Trust::only(broken), Err(NoAuthorities::Certificate(_))));
    }
}
