//! Redis over TLS, with certificates made by the test.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{Server, eventually};
use lock_runtime::{LockError, LockManager};
use redis::{AsyncTypedCommands, Client, TlsCertificates};
use tempfile::TempDir;
use tokio::net::TcpListener;

use crate::kit::{SOON, again, ms};

/// A server that speaks TLS on one port and, for the test, plain Redis on another.
struct Secure {
    server: Server,
    port: u16,
    folder: TempDir,
}

impl Secure {
    /// None, with a printed reason, where this cannot be tested.
    async fn start() -> Option<Self> {
        let folder = TempDir::with_prefix("tls-").unwrap();
        if !make_certificates(folder.path()) {
            eprintln!("skipped: there is no program `openssl` to make certificates with");
            return None;
        }
        let port = free_port().await;
        let file = |name| folder.path().join(name).display().to_string();
        let server = Server::builder()
            .config(&format!("tls-port {port}"))
            .config(&format!("tls-cert-file {}", file("server.pem")))
            .config(&format!("tls-key-file {}", file("server.key")))
            .config(&format!("tls-ca-cert-file {}", file("ca.pem")))
            .config("tls-auth-clients no")
            .password("sw0rdf1sh")
            .start()
            .await;
        Some(Self { server, port, folder })
    }

    fn url(&self) -> String {
        format!("rediss://:sw0rdf1sh@localhost:{}/2", self.port)
    }
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

/// An authority `ca`, and a certificate `server` that it has signed for localhost.
fn make_certificates(folder: &Path) -> bool {
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1").unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";
    [
        format!("req -x509 {key} -subj /CN=test-ca -days 2 -keyout ca.key -out ca.pem"),
        format!("req {key} -subj /CN=localhost -keyout server.key -out server.csr"),
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
         -extfile names -out server.pem"
            .to_owned(),
    ]
    .iter()
    .all(|line| {
        let mut openssl = Command::new("openssl");
        openssl.args(line.split_whitespace()).current_dir(folder);
        let status = openssl.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    })
}

/// A whole life of a lock, renewals and a new connection included.
async fn works(locks: &LockManager, server: &Server) {
    let guard = locks.lock("k").ttl(ms(1_500)).await.unwrap();
    let mut redis = server.connection().await;
    redis::cmd("SELECT").arg(2).exec_async(&mut redis).await.unwrap();
    assert!(redis.exists("k").await.unwrap());
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    redis::cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]).exec_async(&mut redis).await.unwrap();
    guard.run(tokio::time::sleep(ms(1_600))).await.unwrap();
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_client_with_a_root_certificate() {
    let Some(secure) = Secure::start().await else { return };
    let root = fs::read(secure.folder.path().join("ca.pem")).unwrap();
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(root) };
    let client = Client::build_with_tls(secure.url(), certificates).unwrap();
    let locks = LockManager::connect(client).await.unwrap();
    works(&locks, &secure.server).await;
    let name = format!("rediss://localhost:{}/2", secure.port);
    assert!(format!("{locks:?}").contains(&name), "{locks:?}");
}

const URL: &str = "TLS_TEST_URL";
const PLAIN_URL: &str = "TLS_TEST_PLAIN_URL";

#[tokio::test]
async fn a_url_with_the_certificates_of_the_system() {
    if let Ok(url) = env::var(URL) {
        // The process whose system trusts the test's authority.
        let locks = LockManager::connect(url).await.unwrap();
        let guard = locks.lock("k").ttl(ms(1_500)).await.unwrap();
        let plain = Client::open(env::var(PLAIN_URL).unwrap()).unwrap();
        let mut plain = plain.get_multiplexed_async_connection().await.unwrap();
        assert!(plain.exists("k").await.unwrap());
        guard.run(tokio::time::sleep(ms(1_600))).await.unwrap();
        return guard.release().await.unwrap();
    }
    let Some(secure) = Secure::start().await else { return };
    let trusted = secure.folder.path().join("ca.pem");
    let plain = format!("{}/2", secure.server.url());
    let environment = [
        (URL, secure.url()),
        (PLAIN_URL, plain),
        ("SSL_CERT_FILE", trusted.display().to_string()),
        ("SSL_CERT_DIR", String::new()),
    ];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let child = again("tls::a_url_with_the_certificates_of_the_system", &environment);
    child.line_matching("test result: ok. 1 passed", SOON * 4).await;
}

#[tokio::test]
async fn f55_a_certificate_that_nobody_vouches_for_is_refused() {
    let Some(secure) = Secure::start().await else { return };
    let error = LockManager::connect(secure.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(&format!("rediss://localhost:{}", secure.port)), "{text}");
    assert!(!text.contains("sw0rdf1sh"), "{text}");
}

#[tokio::test]
async fn f55_plain_and_secure_ports_that_are_mixed_up_are_errors() {
    let Some(secure) = Secure::start().await else { return };
    let plain_port =
        secure.url().replace(&secure.port.to_string(), &secure.server.port().to_string());
    let secure_port = secure.url().replace("rediss", "redis");
    for url in [plain_port, secure_port] {
        let error = LockManager::connect(&url).await.unwrap_err();
        assert!(error.is_unavailable(), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("sw0rdf1sh"), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_unavailable() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("rediss://localhost:{}", silent.local_addr().unwrap().port());
    let connecting = LockManager::builder().timeout(ms(200)).connect(url);
    let error = tokio::time::timeout(ms(1_500), connecting).await.expect("in time").unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn insecure_urls_are_an_error_without_their_feature() {
    let error =
        LockManager::connect("rediss://:sw0rdf1sh@localhost:1/#insecure").await.unwrap_err();
    let typed = matches!(error, LockError::Unavailable { .. } | LockError::NotConfigured { .. });
    assert!(typed, "{error}");
    assert!(!format!("{error} {error:?}").contains("sw0rdf1sh"), "{error:?}");
}

#[tokio::test]
async fn f55_a_secure_server_may_go_away_and_come_back() {
    let Some(mut secure) = Secure::start().await else { return };
    let root = fs::read(secure.folder.path().join("ca.pem")).unwrap();
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(root) };
    let client = Client::build_with_tls(secure.url(), certificates).unwrap();
    let locks = LockManager::connect(client).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    secure.server.kill();
    assert!(locks.lock("k").await.unwrap_err().is_unavailable());
    secure.server.restart().await;
    eventually("it is used again", SOON, async || locks.lock("k").await.is_ok()).await;
}
