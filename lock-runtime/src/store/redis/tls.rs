//! Certificates other than those of the system.

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::address::Address;

/// What connections over TLS are made with, in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) roots: Option<Vec<u8>>,
    pub(crate) client: Option<ClientTlsConfig>,
}

impl Certificates {
    /// Has all connections to these servers made with them; or what is wrong.
    pub(crate) fn apply(&self, mut address: Address) -> Result<Address, String> {
        let client = self.client.as_ref().map(|client| &client.client_cert);
        for pem in self.roots.iter().chain(client) {
            if CertificateDer::pem_slice_iter(pem).next().is_none() {
                return Err(
                    "there is no certificate in what was given as one; give it in PEM".into()
                );
            }
        }
        if self.roots.is_none() && self.client.is_none() {
            return Ok(address);
        }
        let (client_tls, root_cert) = (self.client.clone(), self.roots.clone());
        let certificates = TlsCertificates { client_tls, root_cert };
        for server in address.servers() {
            *server = with(&certificates, server)?;
        }
        Ok(address)
    }
}

fn with(certificates: &TlsCertificates, server: &ConnectionInfo) -> Result<ConnectionInfo, String> {
    if !matches!(server.addr(), ConnectionAddr::TcpTls { .. }) {
        return Err("certificates go with TLS; write the URL as in rediss://host:6379/0".into());
    }
    let client = Client::build_with_tls(server.clone(), certificates.clone());
    let client = client.map_err(|error| format!("the certificates cannot be used ({error})"))?;
    Ok(client.get_connection_info().clone())
}

/// Chooses how to encrypt, unless the application has chosen.
pub(in crate::store) fn prepare() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that somebody else was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
