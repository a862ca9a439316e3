//! TLS at the listener, by `rustls`.
//!
//! The law: *with a certificate nothing is spoken in the clear, and with authorities for clients nobody is listened to for
//! whom none of them vouches*, each time: a session that is resumed would be one whose certificate nobody looks at again, so
//! none is. The handshake has to end within [`Timeouts::head`](crate::Timeouts). HTTP/2 or HTTP/1.1, as
//! the two sides agree (ALPN). A certificate that no client would take, since its time is over or yet to come, is refused in the place of
//! another one. At the start, and where it stays, it is told: what else the configuration says does not wait for it.

use std::sync::Arc;

use backstop_store::Timestamp;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::StartError;
use crate::settings::{Pem, Tls};

/// The name of HTTP/2 in the handshake.
const H2: &[u8] = b"h2";

/// Returns what takes encrypted connections. `before` is the text of the certificates in force until now, if there are any: others whose
/// time is over, or yet to come, are an error then, and what is in force already is only logged.
pub(super) fn acceptor(tls: &Tls, before: Option<&[u8]>) -> Result<TlsAcceptor, StartError> {
    let unusable = |problem: String| StartError::Tls { file: tls.certificates.source.clone(), problem };
    let chain = certificates(&tls.certificates)?;
    let key = PrivateKeyDer::from_pem_slice(tls.key.expose().as_bytes())
        .map_err(|error| unusable(format!("its private key can't be read: {error}")))?;
    let provider = backstop_http_client::tls::provider();
    if let Some(problem) = chain.first().and_then(|own| out_of_time(own, UnixTime::now(), &provider)) {
        if before.is_some_and(|before| before != tls.certificates.text) {
            return Err(unusable(problem));
        }
        tracing::error!(file = %tls.certificates.source, %problem, "no client takes the certificate");
    }
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(error.to_string()))?;
    let builder = match &tls.clients {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let unusable = |problem: String| StartError::Tls { file: pem.source.clone(), problem };
            let mut roots = RootCertStore::empty();
            for authority in certificates(pem)? {
                roots.add(authority).map_err(|error| unusable(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unusable(error.to_string()))?)
        }
    };
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(|error| unusable(format!("certificate and private key do not fit: {error}")))?;
    if tls.clients.is_some() {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns what is wrong with the time for which a certificate is issued, if anything is.
fn out_of_time(own: &CertificateDer<'_>, now: UnixTime, provider: &CryptoProvider) -> Option<String> {
    // The time is looked at before the authorities, of which there is none here: any other answer says that it is right.
    let parsed = ParsedCertificate::try_from(own).ok()?;
    let algorithms = provider.signature_verification_algorithms.all;
    let found =
        verify_server_cert_signed_by_trust_anchor(&parsed, &RootCertStore::empty(), &[], now, algorithms);
    let time = |time: UnixTime| {
        Timestamp::from_millis(i64::try_from(time.as_secs().saturating_mul(1_000)).unwrap_or(i64::MAX))
    };
    match found {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Some(format!("its certificate ended at {}\nhint: have it renewed", time(not_after)))
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => Some(format!(
            "its certificate holds from {} on\nhint: look at the machine's clock",
            time(not_before)
        )),
        _ => None,
    }
}

/// Whether the two sides agreed on HTTP/2.
pub(super) fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(H2)
}

fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, StartError> {
    let problem = |problem: String| StartError::Tls { file: pem.source.clone(), problem };
    let all: Vec<_> = CertificateDer::pem_slice_iter(&pem.text)
        .collect::<Result<_, _>>()
        .map_err(|error| problem(error.to_string()))?;
    match all.is_empty() {
        true => Err(problem("it holds no `BEGIN CERTIFICATE`".to_owned())),
        false => Ok(all),
    }
}
