//! TLS streams: trust the built-in authorities, and those that the settings add.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::error::Error;

/// Returns what makes encrypted streams.
///
/// # Errors
/// When the file of authorities cannot be read.
pub fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = ca_file {
        let bad = |error: &dyn std::fmt::Display| {
            Error::Settings(path.to_owned(), format!("ca_file: {error}"))
        };
        let certificates = CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| bad(&error))?;
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
    }
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::server("TLS")(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Returns a name as certificates have it.
///
/// # Errors
/// When it is none.
pub fn name(host: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(host.to_owned()).map_err(|error| Error::server(host)(&error))
}
