//! TLS for the guards that speak HTTP.

/// Installs the process's cryptography provider, unless somebody already has.
pub(crate) fn install() {
    // An error means that one is installed, which is all that is wanted.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
