//! Tests of starting, stopping and connecting.

use std::time::Instant;

use redis::{AsyncTypedCommands, ErrorKind};

use super::*;

#[tokio::test]
async fn starts_empty_and_deletes_its_folder() {
    let server = Server::start().await;
    let (addr, dir) = (server.addr(), server.dir().to_owned());
    assert_eq!(server.connection().await.get("k").await, Ok(None));
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err());
    assert!(!dir.exists());
}

#[tokio::test]
async fn loses_its_data_on_restart() {
    let mut server = Server::start().await;
    server.connection().await.set("k", "v").await.unwrap();
    server.kill();
    assert!(std::net::TcpStream::connect(server.addr()).is_err());
    server.restart().await;
    assert_eq!(server.connection().await.get("k").await, Ok(None));
}

#[tokio::test]
async fn keeps_its_data_on_restart_with_a_log() {
    let builder = Server::builder().config("appendonly yes").config("appendfsync always");
    let mut server = builder.start().await;
    server.connection().await.set("k", "v").await.unwrap();
    server.restart().await;
    assert_eq!(server.connection().await.get("k").await, Ok(Some("v".to_owned())));
}

#[tokio::test]
async fn delays_replies_while_paused() {
    let server = Server::start().await;
    let mut redis = server.connection().await;
    server.pause();
    server.pause();
    let ping = tokio::spawn(async move { redis.ping().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!ping.is_finished());
    server.resume();
    assert_eq!(ping.await.unwrap(), Ok("PONG".to_owned()));
}

#[tokio::test]
async fn kills_a_paused_server() {
    let server = Server::start().await;
    server.pause();
    let start = Instant::now();
    server.kill();
    drop(server);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[tokio::test]
async fn requires_its_password() {
    let server = Server::builder().password("secret").start().await;
    server.connection().await.ping().await.unwrap();
    let client = Client::open(server.url_as("default", "wrong")).unwrap();
    let error = client.get_multiplexed_async_connection().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AuthenticationFailed);
}

#[tokio::test]
async fn listens_on_a_unix_socket() {
    let server = Server::builder().config("unixsocket redis.sock").start().await;
    assert!(server.dir().join("redis.sock").exists());
}

#[tokio::test]
#[should_panic(expected = "Bad directive")]
async fn panics_with_the_output_of_a_server_that_fails() {
    Server::builder().config("no-such-setting 1").start().await;
}
