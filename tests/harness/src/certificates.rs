//! Certificates for TLS.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use tempfile::TempDir;

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";

/// An authority and two certificates signed by it: one for servers on the loopback address, one for
/// their clients.
///
/// Clones share the same files.
#[derive(Debug, Clone)]
pub struct Certificates(Arc<TempDir>);

impl Certificates {
    /// Generates an authority and its certificates.
    ///
    /// # Panics
    ///
    /// If `openssl` is not installed, or the files cannot be created.
    #[must_use]
    pub fn generate() -> Self {
        let folder = TempDir::with_prefix("tls-").expect("a folder can be created");
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        fs::write(folder.path().join("names"), names).expect("the folder is writable");
        let certificates = Self(Arc::new(folder));
        let authority = "req -x509 -subj /CN=test-ca -days 2 -out ca.pem -keyout ca.key";
        let made = certificates.run(&format!("{authority} {KEY}"))
            && certificates.sign("server", 2)
            && certificates.sign("client", 2);
        assert!(made, "cannot generate certificates: is `openssl` installed?");
        certificates
    }

    /// Replaces the certificate for servers by one with another key.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn renew(&self) {
        assert!(self.sign("server", 2), "cannot generate another certificate");
    }

    /// Replaces the certificate for servers by one that expired a day ago.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn expire(&self) {
        assert!(self.sign("server", -1), "cannot generate another certificate");
    }

    fn sign(&self, name: &str, days: i32) -> bool {
        let csr = format!("{name}.csr");
        let signed =
            format!("-CA ca.pem -CAkey ca.key -CAcreateserial -days {days} -extfile names");
        self.run(&format!("req -subj /CN={name} -out {csr} -keyout {name}.key {KEY}"))
            && self.run(&format!("x509 -req -in {csr} {signed} -out {name}.pem"))
    }

    fn run(&self, line: &str) -> bool {
        let mut openssl = Command::new("openssl");
        openssl.args(line.split_whitespace()).current_dir(self.0.path());
        let status = openssl.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// Returns the file with the certificate of the authority.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Returns the certificate of the authority, in PEM.
    ///
    /// # Panics
    ///
    /// If it was deleted.
    #[must_use]
    pub fn root(&self) -> Vec<u8> {
        fs::read(self.authority()).expect("the certificate exists")
    }

    /// Returns the certificate for clients and its key, in PEM.
    ///
    /// # Panics
    ///
    /// If they were deleted.
    #[must_use]
    pub fn client(&self) -> (Vec<u8>, Vec<u8>) {
        let read = |name| fs::read(self.file(name)).expect("the certificate exists");
        (read("client.pem"), read("client.key"))
    }

    /// Returns the settings of a server that accepts TLS connections only.
    pub(crate) fn config(&self, port: u16) -> String {
        let file = |name| self.file(name).display().to_string();
        format!(
            "port 0\n\
             tls-port {port}\n\
             tls-cert-file \"{}\"\n\
             tls-key-file \"{}\"\n\
             tls-ca-cert-file \"{}\"\n\
             tls-replication yes\n\
             tls-cluster yes\n",
            file("server.pem"),
            file("server.key"),
            file("ca.pem"),
        )
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}
