//! Tests of a proxy between a server and its clients.

use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, AsyncTypedCommands, Client, RedisResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::*;
use crate::{Server, eventually};

const LIMIT: Duration = Duration::from_secs(5);
const A_WHILE: Duration = Duration::from_millis(100);

async fn setup() -> (Server, Proxy, MultiplexedConnection) {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let redis = connect(&proxy).await.unwrap();
    (server, proxy, redis)
}

async fn connect(proxy: &Proxy) -> RedisResult<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(LIMIT));
    Client::open(proxy.url())?.get_multiplexed_async_connection_with_config(&patient).await
}

fn set(redis: &MultiplexedConnection, key: &'static str) -> JoinHandle<RedisResult<()>> {
    let mut redis = redis.clone();
    tokio::spawn(async move { redis.set(key, "v").await })
}

async fn exists(server: &Server, key: &str) -> bool {
    server.connection().await.exists(key).await.unwrap()
}

#[tokio::test]
async fn passes_and_counts_bytes() {
    let (_server, proxy, mut redis) = setup().await;
    let (sent, received) = (proxy.sent_by_clients(), proxy.sent_by_server());
    let value = "v".repeat(1_000_000);
    redis.set("k", &value).await.unwrap();
    assert_eq!(redis.get("k").await.unwrap(), Some(value));
    assert!(proxy.sent_by_clients() - sent > 1_000_000);
    assert!(proxy.sent_by_server() - received > 1_000_000);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn delays_each_direction() {
    let (_server, proxy, mut redis) = setup().await;
    proxy.both_ways(Mode::Delay(A_WHILE));
    let start = Instant::now();
    redis.ping().await.unwrap();
    assert!(start.elapsed() >= 2 * A_WHILE);
}

#[tokio::test]
async fn ends_a_delay_early() {
    let (_server, proxy, redis) = setup().await;
    proxy.to_server(Mode::Delay(Duration::from_secs(60)));
    let sent = proxy.until_sent("SET");
    let reply = set(&redis, "k");
    sent.await;
    proxy.to_server(Mode::Pass);
    reply.await.unwrap().unwrap();
}

#[tokio::test]
async fn holds_a_command_until_the_next_mode() {
    let (server, proxy, redis) = setup().await;
    proxy.to_server(Mode::Hold);
    let sent = proxy.until_sent("SET");
    let reply = set(&redis, "k");
    sent.await;
    sleep(A_WHILE).await;
    assert!(!exists(&server, "k").await);
    proxy.to_server(Mode::Pass);
    reply.await.unwrap().unwrap();
    assert!(exists(&server, "k").await);
}

#[tokio::test]
async fn delivers_a_held_command_of_a_closed_connection() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    proxy.to_server(Mode::Hold);
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    let sent = proxy.until_sent("SET");
    client.write_all(b"SET k v\r\n").await.unwrap();
    drop(client);
    sent.await;
    proxy.to_server(Mode::Pass);
    eventually("the key is set", LIMIT, async || exists(&server, "k").await).await;
}

#[tokio::test]
async fn holds_a_reply_until_the_next_mode() {
    let (server, proxy, redis) = setup().await;
    proxy.to_client(Mode::Hold);
    let reply = set(&redis, "k");
    eventually("the key is set", LIMIT, async || exists(&server, "k").await).await;
    sleep(A_WHILE).await;
    assert!(!reply.is_finished());
    proxy.to_client(Mode::Pass);
    reply.await.unwrap().unwrap();
}

#[tokio::test]
async fn loses_commands_and_then_cuts_the_connection() {
    let (server, proxy, redis) = setup().await;
    let mut idle = connect(&proxy).await.unwrap();
    proxy.to_server(Mode::Lose);
    let reply = set(&redis, "k");
    sleep(A_WHILE).await;
    assert!(!reply.is_finished());
    proxy.to_server(Mode::Pass);
    assert!(reply.await.unwrap().unwrap_err().is_connection_dropped());
    assert!(!exists(&server, "k").await);
    idle.ping().await.unwrap();
}

#[tokio::test]
async fn hides_the_end_of_a_connection_while_it_loses() {
    let (server, proxy, redis) = setup().await;
    proxy.to_client(Mode::Lose);
    server.kill();
    let reply = set(&redis, "k");
    sleep(A_WHILE).await;
    assert!(!reply.is_finished());
    proxy.to_client(Mode::Pass);
    assert!(reply.await.unwrap().unwrap_err().is_connection_dropped());
}

#[tokio::test]
async fn loses_one_reply_and_mutes_its_connection() {
    let (server, proxy, redis) = setup().await;
    proxy.lose_reply_to("SET");
    let reply = set(&redis, "k");
    eventually("the key is set", LIMIT, async || exists(&server, "k").await).await;
    let mut other = connect(&proxy).await.unwrap();
    other.set("k", "other").await.unwrap();
    assert!(!reply.is_finished());
    proxy.to_client(Mode::Pass);
    assert!(reply.await.unwrap().unwrap_err().is_connection_dropped());
    other.ping().await.unwrap();
}

#[tokio::test]
async fn cuts_open_connections_only() {
    let (_server, proxy, redis) = setup().await;
    proxy.both_ways(Mode::Hold);
    let sent = proxy.until_sent("SET");
    let reply = set(&redis, "k");
    sent.await;
    proxy.cut();
    assert!(reply.await.unwrap().unwrap_err().is_connection_dropped());
    proxy.both_ways(Mode::Pass);
    connect(&proxy).await.unwrap().ping().await.unwrap();
    assert_eq!(proxy.connections(), 2);
}

#[tokio::test]
async fn refuses_new_connections_only() {
    let (_server, proxy, mut redis) = setup().await;
    proxy.refuse();
    assert!(connect(&proxy).await.unwrap_err().is_connection_refusal());
    redis.ping().await.unwrap();
    proxy.accept();
    connect(&proxy).await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn works_while_the_test_blocks_its_thread() {
    let server = Server::start().await;
    let proxy = Proxy::start(server.addr());
    let mut redis = Client::open(proxy.url()).unwrap().get_connection().unwrap();
    assert_eq!(redis::TypedCommands::ping(&mut redis).unwrap(), "PONG");
}

#[tokio::test]
async fn closes_everything_on_drop() {
    let (_server, proxy, _redis) = setup().await;
    let addr = proxy.addr();
    let mut client = TcpStream::connect(addr).await.unwrap();
    proxy.both_ways(Mode::Lose);
    drop(proxy);
    assert_eq!(client.read(&mut [0; 8]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(addr).await.is_err());
}
