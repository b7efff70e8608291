//! Redis over TLS, with certificates made by the test.

use std::env;

use harness::{Certificates, Child, Cluster, Sentinels, Server, eventually, redlock_url, run};
use lock_runtime::{Builder, LockError, LockManager};
use redis::{AsyncTypedCommands, Client, TlsCertificates};
use tokio::net::TcpListener;

use crate::support::{SOON, durable, ms, wait_for_waiters, wait_until_renewed};

/// A server that asks its clients for a password, not for a certificate.
async fn secure(certificates: &Certificates) -> Server {
    let server = Server::builder().tls(certificates).config("tls-auth-clients no");
    server.password("sw0rdf1sh").start().await
}

fn at_localhost(server: &Server) -> String {
    format!("rediss://:sw0rdf1sh@localhost:{}/2", server.port())
}

fn with_all(certificates: &Certificates) -> Builder {
    let (certificate, key) = certificates.client();
    LockManager::builder()
        .timeout(ms(3_000)) // a machine that is busy takes its time for each handshake
        .root_certificates(certificates.root())
        .client_certificate(certificate, key)
}

/// A whole life of a lock, renewals and a new connection included.
async fn works(locks: &LockManager, server: &Server) {
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
async fn an_authority_of_its_own() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let builder = LockManager::builder().root_certificates(certificates.root());
    let locks = builder.connect(at_localhost(&server)).await.unwrap();
    works(&locks, &server).await;
    let name = format!("rediss://localhost:{}/2", server.port());
    assert!(format!("{locks:?}").contains(&name), "{locks:?}");
}

#[tokio::test]
async fn a_client_with_a_root_certificate() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let roots = TlsCertificates { client_tls: None, root_cert: Some(certificates.root()) };
    let client = Client::build_with_tls(at_localhost(&server), roots).unwrap();
    let locks = LockManager::connect(client).await.unwrap();
    works(&locks, &server).await;
}

const URL: &str = "TLS_TEST_URL";

#[tokio::test]
async fn a_url_with_the_certificates_of_the_system() {
    if let Ok(url) = env::var(URL) {
        // The process whose system trusts the test's authority.
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
    let child =
        Child::test("topologies::tls::a_url_with_the_certificates_of_the_system", &environment);
    child.line_matching("test result: ok. 1 passed", SOON * 4).await;
}

#[tokio::test]
async fn f55_a_certificate_that_nobody_vouches_for_is_refused() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let error = LockManager::connect(at_localhost(&server)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let text = format!("{error} {error:?}");
    assert!(text.contains(&format!("rediss://localhost:{}", server.port())), "{text}");
    assert!(!text.contains("sw0rdf1sh"), "{text}");
}

#[tokio::test]
async fn f55_a_certificate_that_has_expired_is_refused() {
    let certificates = Certificates::generate();
    certificates.expire();
    let server = secure(&certificates).await;
    let builder = LockManager::builder().root_certificates(certificates.root());
    let error = builder.connect(at_localhost(&server)).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().to_lowercase().contains("expired"), "{error}");
}

#[tokio::test]
async fn f55_a_certificate_for_another_name_is_refused() {
    let certificates = Certificates::generate();
    let server = secure(&certificates).await;
    let url = at_localhost(&server).replace("localhost", "[::ffff:127.0.0.1]");
    let builder = LockManager::builder().root_certificates(certificates.root());
    let error = builder.connect(url).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains("certificate not valid for name"), "{error}");
}

#[tokio::test]
async fn f55_plain_and_secure_servers_that_are_mixed_up_are_errors() {
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
    let certificates = Certificates::generate();
    let mut server = secure(&certificates).await;
    let builder = LockManager::builder().timeout(SOON).root_certificates(certificates.root());
    let locks = builder.connect(at_localhost(&server)).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
    server.kill();
    assert!(locks.lock("k").await.unwrap_err().is_unavailable());
    server.restart().await;
    eventually("it is used again", SOON, async || locks.lock("k").await.is_ok()).await;
}

/// A new certificate counts for new connections; those that are open go on.
#[tokio::test]
async fn f55_a_server_may_change_its_certificate() {
    let certificates = Certificates::generate();
    let server = Server::builder().tls(&certificates).start().await;
    let locks = with_all(&certificates).connect(server.url()).await.unwrap();
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
async fn f55_a_server_that_wants_a_certificate_gets_one() {
    let certificates = Certificates::generate();
    let server = Server::builder().tls(&certificates).start().await;
    let without = LockManager::builder().root_certificates(certificates.root());
    let error = without.connect(server.url()).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let locks = with_all(&certificates).connect(format!("{}/2", server.url())).await.unwrap();
    works(&locks, &server).await;
}

/// Takes a lock, hands it over, and renews it, all over connections with certificates.
async fn hands_over(
    certificates: &Certificates,
    url: String,
    queue: Option<&Server>,
) -> LockManager {
    let error = LockManager::connect(&url).await.unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    let locks = with_all(certificates).connect(url).await.unwrap();
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
async fn sentinels_and_their_servers_with_certificates() {
    let certificates = Certificates::generate();
    let sentinels = Sentinels::start_with("orders", |server| server.tls(&certificates)).await;
    let locks = hands_over(&certificates, sentinels.url(), sentinels.servers().first()).await;
    let guard = locks.lock("k").ttl(ms(6_000)).await.unwrap();
    sentinels.master().await.wait_for_replicas(2).await;
    sentinels.fail_over().await;
    wait_until_renewed(&mut sentinels.master().await.connection().await, "k", 4_800).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_cluster_with_certificates() {
    let certificates = Certificates::generate();
    let cluster = Cluster::start_with(|server| server.tls(&certificates)).await;
    let owner = &cluster.nodes()[cluster.owner("k").await];
    hands_over(&certificates, cluster.url(), Some(owner)).await;
}

#[tokio::test]
async fn independent_servers_with_certificates() {
    let certificates = Certificates::generate();
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(durable().tls(&certificates).start().await);
    }
    let url = redlock_url(servers.iter().map(Server::addr)).replace("redlock://", "redlocks://");
    hands_over(&certificates, url, None).await;
}

#[tokio::test]
async fn certificates_that_are_none_are_rejected() {
    let certificates = Certificates::generate();
    let (certificate, key) = certificates.client();
    let builder = LockManager::builder;
    for (builder, url, help) in [
        (builder().root_certificates("none"), "rediss://a", "give it in PEM"),
        (builder().client_certificate("", key.clone()), "rediss://a", "give it in PEM"),
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
