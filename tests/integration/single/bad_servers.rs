//! Servers that cannot be used: invalid URLs, wrong passwords, unreachable and foreign servers.

use std::error::Error;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use harness::{Mode, Proxy, Server};
use lock_runtime::{LockError, LockManager};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::support::{SOON, ms};

const TIMEOUT: Duration = ms(200);

/// Returns all texts of an error in one string.
fn all_texts(error: &LockError) -> String {
    let mut texts = format!("{error}\n{error:?}\n{error:#?}");
    let mut source = error.source();
    while let Some(error) = source {
        write!(texts, "\n{error}\n{error:?}").unwrap();
        source = error.source();
    }
    texts
}

/// Returns the error of connecting, which comes within three timeouts and contains no `secrets`.
async fn refused(url: &str, secrets: &[&str]) -> LockError {
    let began = Instant::now();
    let connecting = LockManager::builder().timeout(TIMEOUT).connect(url);
    let error = timeout(SOON, connecting).await.expect("connecting ends").expect_err(url);
    assert!(began.elapsed() < TIMEOUT * 3 + ms(500), "{url}: {:?}", began.elapsed());
    let texts = all_texts(&error);
    for secret in secrets {
        assert!(!texts.contains(secret), "{url}: {texts}");
    }
    error
}

#[tokio::test]
async fn rejects_invalid_urls_with_help() {
    let urls = [
        "",
        "redis",
        "localhost",
        "localhost:6379",
        "127.0.0.1:6379",
        "://",
        "//localhost",
        "redis:",
        "redis:localhost",
        "redis:/localhost",
        "redis://",
        "redis://:6379",
        "redis://localhost:port",
        "redis://localhost:99999",
        "redis://localhost:-1",
        "redis://[::1",
        "redis://localhost/zero",
        "redis://localhost/99999999999999999999",
        "redis://localhost?protocol=resp9",
        "redis://localhost:6379:6379",
        "redis+unix://",
        "http://localhost:6379",
        "https://localhost",
        "postgres://localhost/db",
        "file:///etc/passwd",
        "REDIS//localhost",
        " redis://localhost:port",
        "\0",
        "redis://local host",
        "redis://\u{202e}:x",
    ];
    for url in urls {
        let error = refused(url, &[]).await;
        assert!(matches!(error, LockError::NotConfigured { .. }), "{url:?}: {error}");
        let help = if url.starts_with("redis+unix:") { "redis+unix:///" } else { "redis://" };
        assert!(error.to_string().contains(help), "no help for {url:?}: {error}");
    }
}

#[tokio::test]
async fn hides_passwords_in_errors_about_invalid_urls() {
    let urls = [
        "sw0rd:f1sh@localhost",
        ":sw0rd:f1sh@localhost:6379",
        "http://user:sw0rd:f1sh@localhost",
        "sw0rd:f1sh://localhost",
        "user:sw0rdf1sh://localhost",
        "redis:user:sw0rdf1sh@localhost",
        "redis:/user:sw0rdf1sh@localhost",
        "redis//user:sw0rdf1sh@localhost",
        "redis://user:sw0rdf1sh@",
        "redis://:sw0rdf1sh@:6379",
        "redis://user:sw0rdf1sh@localhost:port",
        "redis://user:sw0rdf1sh@localhost:99999",
        "redis://user:sw0rdf1sh@localhost/zero",
        "redis://user:sw0rdf1sh@localhost?protocol=resp9",
        "redis://user:sw0rd/f1sh@localhost",
        "redis://user:sw0rd#f1sh@localhost",
        "redis://user:sw0rd?f1sh@localhost",
        "redis://user:sw0rd@f1sh@localhost:port",
        "redis://user:sw0rd f1sh@local host",
        "redis://user:sw0rd%ZZf1sh@localhost:port",
        "redis://user:sw0rd%FFf1sh@localhost",
        "redis://user:sw0rd%40f1sh@localhost:port",
        "redis://user:sw0rd%2Ff1sh@localhost:port",
        "redis://sw0rdf1sh:port",
        "rediss://user:sw0rdf1sh@localhost:port",
        "redis+unix://user:sw0rdf1sh@?db=x",
        "redis+unix:///no/such/socket?pass=sw0rdf1sh&db=x",
        "redis+unix:///no/such/socket?pass=sw0rdf1sh",
    ];
    for url in urls {
        let error = refused(url, &["sw0rd", "f1sh", "%40", "%2F"]).await;
        let typed =
            matches!(error, LockError::NotConfigured { .. } | LockError::Unavailable { .. });
        assert!(typed, "{error}");
    }
}

#[tokio::test]
async fn hides_wrong_credentials_and_names_the_server() {
    let server = Server::builder().password("s3cret").start().await;
    let addr = server.addr().to_string();
    let credentials = [
        ("default", "sw0rdf1sh"),
        ("", "sw0rdf1sh"),
        ("nobody", "sw0rdf1sh"),
        ("nobody", "s3cret"),
        ("default", "sw0rd%40%2F%3Af1sh"),
        ("nob%40dy", "sw0rd%25f1sh"),
    ];
    for (user, password) in credentials {
        let secrets = ["s3cret", "sw0rd", "f1sh", "%40", "%25"];
        let error = refused(&server.url_as(user, password), &secrets).await;
        assert!(error.is_unavailable(), "{error}");
        assert!(error.to_string().contains(&addr), "{error}");
        assert!(!error.to_string().contains("nobody"), "{error}");
    }
    let error = refused(&format!("redis://{addr}"), &["s3cret"]).await;
    assert!(error.is_unavailable() && error.to_string().contains(&addr), "{error}");
    LockManager::connect(server.url()).await.unwrap();
}

#[tokio::test]
async fn hides_passwords_in_debug_output() {
    let server = Server::builder().password("sw0rdf1sh").start().await;
    let locks = LockManager::connect(server.url()).await.unwrap();
    let endpoint = lock_runtime::Endpoint::from(server.url());
    let client = lock_runtime::Endpoint::from(redis::Client::open(server.url()).unwrap());
    let guard = locks.lock("k").await.unwrap();
    let request = locks.lock("k");
    let texts = format!("{locks:?} {endpoint:?} {client:?} {guard:?} {request:?}");
    assert!(!texts.contains("sw0rdf1sh"), "{texts}");
    server.kill();
    let error = locks.lock("k2").await.unwrap_err();
    assert!(!all_texts(&error).contains("sw0rdf1sh"), "{}", all_texts(&error));
    let error = guard.release().await.unwrap_err();
    assert!(!all_texts(&error).contains("sw0rdf1sh"), "{}", all_texts(&error));
}

#[tokio::test]
async fn reports_a_missing_server_as_unavailable() {
    let server = Server::start().await;
    let (addr, url) = (server.addr().to_string(), server.url_as("user", "sw0rdf1sh"));
    server.kill();
    for url in [url.as_str(), "redis://:sw0rdf1sh@no-such-host.invalid:6379"] {
        let error = refused(url, &["sw0rdf1sh"]).await;
        assert!(error.is_unavailable(), "{error}");
        let name = if url.contains("invalid") { "no-such-host.invalid:6379" } else { &addr };
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("connect"), "names the step: {error}");
        assert!(error.source().is_some());
    }
    let error = refused("redis+unix:///no/such.sock?pass=sw0rdf1sh", &["sw0rdf1sh"]).await;
    assert!(error.is_unavailable() && error.to_string().contains("/no/such.sock"), "{error}");
}

#[tokio::test]
async fn recovers_when_packets_are_no_longer_lost() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    for mode in [Mode::Lose, Mode::Hold] {
        proxy.both_ways(mode);
        let error = refused(&proxy.url_as("user", "sw0rdf1sh"), &["sw0rdf1sh"]).await;
        assert!(error.is_unavailable(), "{error}");
        assert!(error.to_string().contains(&proxy.addr().to_string()), "{error}");
    }
    proxy.cut();
    proxy.both_ways(Mode::Pass);
    let locks = LockManager::connect(proxy.url()).await.unwrap();
    locks.lock("k").await.unwrap().release().await.unwrap();
}

/// Starts a server that sends `greeting` and replies to everything with `reply`; with neither, it
/// closes connections.
async fn foreign_server(greeting: &'static [u8], reply: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                if greeting.is_empty() && reply.is_empty() {
                    return;
                }
                let _ = stream.write_all(greeting).await;
                while stream.read(&mut [0; 4096]).await.is_ok_and(|length| length > 0) {
                    let _ = stream.write_all(reply).await;
                }
            });
        }
    });
    addr
}

#[tokio::test]
async fn reports_a_foreign_server_as_unavailable() {
    let others: [(&[u8], &[u8]); 10] = [
        (b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", b""),
        (b"220 mail.example ESMTP\r\n", b"500 what?\r\n"),
        (b"", b"\0\0\0\x01\xff\xfe"),
        (b"", b"$999999999999\r\n"),
        (b"", b"*2147483647\r\n"),
        (b"", b"*1\r\n*1\r\n*1\r\n*1\r\n"),
        (b"", b":1\r\n"),
        (b"", b"+OK\r\n"),
        (b"", b""),
    ];
    for (greeting, reply) in others {
        let addr = foreign_server(greeting, reply).await;
        let error = refused(&format!("redis://user:sw0rdf1sh@{addr}"), &["sw0rdf1sh"]).await;
        assert!(error.is_unavailable(), "{error}");
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }
}

#[tokio::test]
async fn reports_a_silent_server_as_unavailable() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = silent.local_addr().unwrap();
    let error = refused(&format!("redis://{addr}"), &[]).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}

#[tokio::test]
async fn times_out_after_a_second_by_default() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let began = Instant::now();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let error =
        timeout(SOON, LockManager::connect(url)).await.expect("connecting ends").unwrap_err();
    assert!(error.is_unavailable(), "{error}");
    assert!(began.elapsed() > ms(900) && began.elapsed() < SOON, "{:?}", began.elapsed());
}
