//! Certificates other than those of the system.

use redis::{Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The certificates of TLS connections, in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct Certificates {
    roots: Option<Vec<u8>>,
    client: Option<ClientTlsConfig>,
}

impl Certificates {
    pub(crate) fn set_roots(&mut self, pem: Vec<u8>) {
        self.roots = Some(pem);
    }

    pub(crate) fn set_client(&mut self, client_cert: Vec<u8>, client_key: Vec<u8>) {
        self.client = Some(ClientTlsConfig { client_cert, client_key });
    }

    /// Adds the certificates to the settings of a server, or explains why they cannot be used.
    pub(crate) fn apply(&self, server: ConnectionInfo) -> Result<ConnectionInfo, String> {
        let client = self.client.as_ref().map(|client| &client.client_cert);
        for pem in self.roots.iter().chain(client) {
            if CertificateDer::pem_slice_iter(pem).next().is_none() {
                return Err("the given PEM contains no certificate".into());
            }
        }
        if self.roots.is_none() && self.client.is_none() {
            return Ok(server);
        }
        if !matches!(server.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err("certificates need TLS; write the URL as in rediss://host:6379/0".into());
        }
        let certificates =
            TlsCertificates { client_tls: self.client.clone(), root_cert: self.roots.clone() };
        let client = Client::build_with_tls(server, certificates);
        let client =
            client.map_err(|error| format!("the certificates cannot be used ({error})"))?;
        Ok(client.get_connection_info().clone())
    }
}

/// Installs a crypto provider for the process, unless the application has installed one.
pub(crate) fn install_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has just installed one, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
