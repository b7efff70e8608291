//! Redis over TLS, with generated certificates.

use std::env;

use harness::{Certificates, Child, Cluster, Sentinels, Server, eventually, redlock_url, run};
use lock_runtime::{Builder, LockError, LockManager};
use redis::{AsyncTypedCommands, Client, TlsCertificates};
use tokio::net::TcpListener;

use crate::support::{SOON, durable, ms, wait_for_waiters, wait_until_renewed};

/// Starts a server that requires a password of its clients, but no certificate.
async fn secure(certificates: &Certificates) -> Server {
    let server = Server::builder().tls(certificates).config("tls-auth-clients no");
    server.password("sw0rdf1sh").start().await
}

fn at_localhost(server: &Server) -> String {
    format!("rediss://:sw0rdf1sh@localhost:{}/2", server.port())
}

fn with_certificates(certificates: &Certificates) -> Builder {
    let (certificate, key) = certificates.client();
    LockManager::builder()
        .timeout(ms(3_000)) // handshakes are slow on a busy machine
        .root_certificates(certificates.root())
        .client_certificate(certificate, key)
}

/// Acquires, renews and releases a lock, including a reconnect.
async fn exercise(locks: &LockManager, server: &Server) {
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    let mut redis = server.connection().await;
    redis::cmd("SELECT").arg(2).exec_async(&mut redis).await.unwrap();
    assert!(redis.exists("k").await.unwrap());
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    run(&mut redis, "CLIENT KILL TYPE normal").await;
    guard.run(tokio::time::sleep(ms(3_100))).await.unwrap();
    assert!(locks.lock("k").await.unwrap_err().is_busy());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn accepts_a_private_authority() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let builder = LockManager::builder().root_certificates(certificates.root());
    let locks = builder.connect(at_localhost(&server)).await.unwrap();
    exercise(&locks, &server).await;
    let name = format!("rediss://localhost:{}/2", server.port());
    assert!(format!("{locks:?}").contains(&name), "{locks:?}");
}

#[tokio::test]
async fn accepts_a_client_with_a_root_certificate() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let roots = TlsCertificates { client_tls: None, root_cert: Some(certificates.root()) };
    let client = Client::build_with_tls(at_localhost(&server), roots).unwrap();
    let locks = LockManager::connect(client).await.unwrap();
    exercise(&locks, &server).await;
}

const URL: &str = "TLS_TEST_URL";

#[tokio::test]
async fn uses_the_certificates_of_the_system() {
    if let Ok(url) = env::var(URL) {
        // In the process whose system trusts the authority of the test.
        let locks = LockManager::connect(url).await.unwrap();
        let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
        guard.run(tokio::time::sleep(ms(3_100))).await.unwrap();
        return guard.release().await.unwrap();
    }
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let environment = [
        (URL, at_localhost(&server)),
        ("SSL_CERT_FILE", certificates.authority().display().to_string()),
        ("SSL_CERT_DIR", String::new()),
    ];
    let environment = environment.each_ref().map(|(name, value)| (*name, value.as_str()));
    let child = Child::test("topologies::tls::uses_the_certificates_of_the_system", &environment);
    child.line_matching("test result: ok. 1 passed", SOON * 4).await;
}

#[tokio::test]
async fn f55_rejects_a_certificate_of_an_unknown_authority() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let error = LockManager::connect(at_localhost(&server)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(&format!("rediss://localhost:{}", server.port())), "{text}");
    assert!(!text.contains("sw0rdf1sh"), "{text}");
}

#[tokio::test]
async fn f55_rejects_an_expired_certificate() {
    let certificates = Certificates::generate();
    certificates.expire();
    let server = secure(&certificates).await;
    let builder = LockManager::builder().root_certificates(certificates.root());
    let error = builder.connect(at_localhost(&server)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().to_lowercase().contains("expired"), "{error}");
}

#[tokio::test]
async fn f55_rejects_a_certificate_for_another_name() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let url = at_localhost(&server).replace("localhost", "[::ffff:127.0.0.1]");
    let builder = LockManager::builder().root_certificates(certificates.root());
    let error = builder.connect(url).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("certificate not valid for name"), "{error}");
}

#[tokio::test]
async fn f55_reports_plain_and_tls_servers_mixed_up() {
    let certificates = Certificates::generate();
    let secure = secure(&certificates).await;
    let plain = Server::builder().password("sw0rdf1sh").start().await;
    for url in [at_localhost(&plain), at_localhost(&secure).replace("rediss", "redis")] {
        let error = LockManager::connect(&url).await.unwrap_err();
        assert!(error.is_unavailable(), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("sw0rdf1sh"), "{error:?}");
    }
}

#[tokio::test]
async fn reports_a_silent_server_as_unavailable() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("rediss://localhost:{}", silent.local_addr().unwrap().port());
    let connecting = LockManager::builder().timeout(ms(200)).connect(url);
    let error = tokio::time::timeout(ms(1_500), connecting).await.expect("in time").unwrap_err();
    assert!(error.is_unavailable(), "{error}");
}

#[tokio::test]
async fn rejects_insecure_urls_without_their_feature() {
    let error =
        LockManager::connect("rediss://:sw0rdf1sh@localhost:1/#insecure").await.unwrap_err();
    let typed = matches!(error, LockError::Unavailable { .. } | LockError::NotConfigured { .. });
    assert!(typed, "{error}");
    assert!(!format!("{error} {error:?}").contains("sw0rdf1sh"), "{error:?}");
}

#[tokio::test]
async fn f55_reconnects_to_a_restarted_tls_server() {
    let certificates = Certificates::generate();
    let mut server = secure(&certificates).await;
    let builder = LockManager::builder().timeout(SOON).root_certificates(certificates.root());
    let locks = builder.connect(at_localhost(&server)).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    server.kill();
    assert!(locks.lock("k").await.unwrap_err().is_unavailable());
    server.restart().await;
    eventually("the server is used again", SOON, async || locks.lock("k").await.is_ok()).await;
}

/// A new certificate applies to new connections; open ones continue.
#[tokio::test]
async fn f55_accepts_a_changed_certificate() {
    let certificates = Certificates::generate();
    let server = Server::builder().tls(&certificates).start().await;
    let locks = with_certificates(&certificates).connect(server.url()).await.unwrap();
    let guard = locks.lock("k").ttl(ms(3_000)).await.unwrap();
    certificates.renew();
    let mut redis = server.connection().await;
    for file in ["tls-cert-file", "tls-key-file"] {
        let config = redis::cmd("CONFIG").arg("GET").arg(file).query_async(&mut redis).await;
        let (_, path): (String, String) = config.unwrap();
        let set = redis::cmd("CONFIG").arg(&["SET", file, &path]).exec_async(&mut redis).await;
        set.unwrap();
    }
    wait_until_renewed(&mut redis, "k", 2_600).await;
    run(&mut redis, "CLIENT KILL TYPE normal").await;
    wait_until_renewed(&mut redis, "k", 2_600).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn f55_sends_a_client_certificate() {
    let certificates = Certificates::generate();
    let server = Server::builder().tls(&certificates).start().await;
    let without = LockManager::builder().root_certificates(certificates.root());
    let error = without.connect(server.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let locks =
        with_certificates(&certificates).connect(format!("{}/2", server.url())).await.unwrap();
    exercise(&locks, &server).await;
}

/// Checks that a lock is handed over and renewed, over connections with certificates.
async fn assert_hands_over(
    certificates: &Certificates,
    url: String,
    queue: Option<&Server>,
) -> LockManager {
    let error = LockManager::connect(&url).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let locks = with_certificates(certificates).connect(url).await.unwrap();
    let guard = locks.lock("k").ttl(SOON).wait(SOON).await.unwrap();
    let waiter = tokio::spawn(locks.lock("k").ttl(SOON).wait(SOON).into_future());
    if let Some(server) = queue {
        wait_for_waiters(&mut server.connection().await, "k", 1).await;
    }
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    guard.run(tokio::time::sleep(SOON)).await.unwrap();
    guard.release().await.unwrap();
    locks
}

#[tokio::test]
async fn hands_over_with_sentinels() {
    let certificates = Certificates::generate();
    let sentinels = Sentinels::start_with("orders", |server| server.tls(&certificates)).await;
    let locks =
        assert_hands_over(&certificates, sentinels.url(), sentinels.servers().first()).await;
    let guard = locks.lock("k").ttl(ms(6_000)).await.unwrap();
    sentinels.master().await.wait_for_replicas(2).await;
    sentinels.fail_over().await;
    wait_until_renewed(&mut sentinels.master().await.connection().await, "k", 4_800).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn hands_over_in_a_cluster() {
    let certificates = Certificates::generate();
    let cluster = Cluster::start_with(|server| server.tls(&certificates)).await;
    let owner = &cluster.nodes()[cluster.owner("k").await];
    assert_hands_over(&certificates, cluster.url(), Some(owner)).await;
}

#[tokio::test]
async fn hands_over_with_independent_servers() {
    let certificates = Certificates::generate();
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(durable().tls(&certificates).start().await);
    }
    let url = redlock_url(servers.iter().map(Server::addr)).replace("redlock://", "redlocks://");
    assert_hands_over(&certificates, url, None).await;
}

#[tokio::test]
async fn rejects_invalid_certificates() {
    let certificates = Certificates::generate();
    let (certificate, key) = certificates.client();
    let builder = LockManager::builder;
    for (builder, url, help) in [
        (builder().root_certificates("none"), "rediss://a", "contains no certificate"),
        (builder().client_certificate("", key.clone()), "rediss://a", "contains no certificate"),
        (
            builder().client_certificate(certificate.clone(), "sesame"),
            "redlocks://a,b,c",
            "private key",
        ),
        (builder().client_certificate(certificate, key), "redis-sentinel://a/b", "rediss://"),
    ] {
        let error = builder.connect(url).await.unwrap_err();
        assert!(matches!(error, LockError::NotConfigured { .. }), "{error}");
        assert!(error.to_string().contains(help), "{error}");
        assert!(!format!("{error:?}").contains("sesame"), "{error:?}");
    }
}
