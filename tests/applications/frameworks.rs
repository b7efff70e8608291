//! The responses of web frameworks when the lock fails.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{App, HttpResponse, web};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::handler::Handler;
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use harness::Server;
use lock_runtime::{LockError, LockManager, redis_lock};
use redis::AsyncTypedCommands;
use redis::aio::MultiplexedConnection;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::support::{SOON, ms, occupy, setup, wait_until_absent};

/// The state of the handlers: the manager and, for bodies that should lose their lock, a
/// connection.
#[derive(Clone)]
struct Shop {
    locks: LockManager,
    redis: Option<MultiplexedConnection>,
}

impl Shop {
    /// Runs the body of the handlers, which loses its lock if there is a connection.
    async fn work(&self) {
        if let Some(mut redis) = self.redis.clone() {
            redis.del("order:7").await.unwrap();
            sleep(SOON).await;
        }
    }
}

type Reply = (u16, Option<String>, String);

mod by_axum {
    use super::*;

    #[redis_lock(key = "order:7", ttl = "400ms", manager = shop.locks)]
    pub(super) async fn result(State(shop): State<Shop>) -> Result<&'static str, LockError> {
        shop.work().await;
        Ok("paid")
    }

    #[redis_lock(key = "order:7", ttl = "400ms", manager = shop.locks)]
    pub(super) async fn response(State(shop): State<Shop>) -> Response {
        shop.work().await;
        (StatusCode::OK, "paid").into_response()
    }

    pub(super) async fn call<T: 'static>(handler: impl Handler<T, Shop>, shop: &Shop) -> Reply {
        let request = Request::post("/orders/7").body(Body::empty()).unwrap();
        let response = handler.call(request, shop.clone()).await;
        let status = response.status().as_u16();
        let retry = response.headers().get(header::RETRY_AFTER);
        let retry = retry.map(|value| value.to_str().unwrap().to_owned());
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, retry, String::from_utf8(body.into()).unwrap())
    }
}

mod by_actix {
    use super::*;

    #[redis_lock(key = "order:7", ttl = "400ms", manager = shop.locks)]
    async fn result(shop: web::Data<Shop>) -> Result<&'static str, LockError> {
        shop.work().await;
        Ok("paid")
    }

    #[redis_lock(key = "order:7", ttl = "400ms", manager = shop.locks)]
    async fn response(shop: web::Data<Shop>) -> HttpResponse {
        shop.work().await;
        HttpResponse::Ok().body("paid")
    }

    #[actix_web::post("/routed")]
    #[redis_lock(key = "order:7", ttl = "400ms", manager = shop.locks)]
    async fn routed(shop: web::Data<Shop>) -> Result<HttpResponse, LockError> {
        shop.work().await;
        Ok(HttpResponse::Ok().body("paid"))
    }

    pub(super) const PATHS: [&str; 3] = ["/result", "/response", "/routed"];

    pub(super) async fn call(path: &str, shop: &Shop) -> Reply {
        let app = App::new()
            .app_data(web::Data::from(Arc::new(shop.clone())))
            .route("/result", web::post().to(result))
            .route("/response", web::post().to(response))
            .service(routed);
        let app = actix_web::test::init_service(app).await;
        let request = actix_web::test::TestRequest::post().uri(path).to_request();
        let response = actix_web::test::call_service(&app, request).await;
        let status = response.status().as_u16();
        let retry = response.headers().get("retry-after");
        let retry = retry.map(|value| value.to_str().unwrap().to_owned());
        let body = actix_web::test::read_body(response).await;
        (status, retry, String::from_utf8(body.into()).unwrap())
    }
}

/// Returns the responses of all handlers of both frameworks.
async fn replies(shop: &Shop) -> Vec<Reply> {
    let mut replies = vec![
        by_axum::call(by_axum::result, shop).await,
        by_axum::call(by_axum::response, shop).await,
    ];
    for path in by_actix::PATHS {
        replies.push(by_actix::call(path, shop).await);
    }
    replies
}

/// Fails if the body of a response contains details that belong in a log.
fn assert_discreet(body: &str, server: &Server) {
    assert!(!body.is_empty() && !body.contains('\n'), "{body:?}");
    for secret in ["order", "another program", "redis", "127.0.0.1", &server.port().to_string()] {
        assert!(!body.contains(secret), "{body:?}");
    }
}

#[actix_web::test]
async fn returns_the_handlers_response_with_a_free_lock() {
    let (_server, locks, mut redis) = setup().await;
    for reply in replies(&Shop { locks, redis: None }).await {
        assert_eq!(reply, (200, None, "paid".to_owned()));
    }
    assert!(!redis.exists("order:7").await.unwrap());
}

#[actix_web::test]
async fn returns_409_with_retry_after_when_busy() {
    let (server, locks, mut redis) = setup().await;
    let shop = Shop { locks, redis: None };
    occupy(&mut redis, "order:7", Duration::from_secs(17)).await;
    for (status, retry, body) in replies(&shop).await {
        assert_eq!(status, 409, "{body}");
        let seconds: u64 = retry.unwrap().parse().unwrap();
        assert!((10..=17).contains(&seconds), "{seconds}");
        assert_discreet(&body, &server);
    }

    redis::cmd("PEXPIRE").arg("order:7").arg(17_900).exec_async(&mut redis).await.unwrap();
    let (_, retry, _) = by_axum::call(by_axum::response, &shop).await;
    assert_eq!(retry.as_deref(), Some("18"), "rounded up to whole seconds");
    redis::cmd("PERSIST").arg("order:7").exec_async(&mut redis).await.unwrap();
    for (status, retry, body) in replies(&shop).await {
        assert_eq!((status, retry), (409, None), "{body}");
    }
}

#[actix_web::test]
async fn returns_503_when_the_store_is_unavailable() {
    let (server, locks, _) = setup().await;
    let shop = Shop { locks, redis: None };
    server.kill();
    for (status, retry, body) in replies(&shop).await {
        assert_eq!((status, retry), (503, None), "{body}");
        assert_discreet(&body, &server);
    }
}

#[actix_web::test]
async fn returns_503_when_the_lock_is_lost() {
    let (server, locks, redis) = setup().await;
    let shop = Shop { locks, redis: Some(redis) };
    for (status, retry, body) in replies(&shop).await {
        assert_eq!((status, retry), (503, None), "{body}");
        assert_discreet(&body, &server);
    }
}

#[redis_lock(key = "order:<id>", ttl = "5s", manager = locks)]
async fn by_id(locks: &LockManager, id: &str) -> Response {
    "paid".into_response()
}

#[tokio::test]
async fn returns_400_for_an_invalid_value() {
    let locks = LockManager::in_memory();
    assert_eq!(by_id(&locks, "7").await.status(), 200);
    assert_eq!(by_id(&locks, "").await.status(), 400);
    assert_eq!(by_id(&locks, &"7".repeat(600)).await.status(), 400);
}

#[redis_lock(key = "order:<id>", ttl = "300ms", renew = false, manager = locks)]
async fn failing(locks: &LockManager, id: u64) -> Response {
    std::thread::sleep(ms(600)); // past the lease, and cannot be stopped
    StatusCode::IM_A_TEAPOT.into_response()
}

#[tokio::test]
async fn keeps_a_failure_of_the_body_when_the_lock_is_lost() {
    let locks = LockManager::in_memory();
    assert_eq!(failing(&locks, 1).await.status(), StatusCode::IM_A_TEAPOT);
}

/// A web server drops the future of the handler when its client disconnects.
#[tokio::test]
async fn frees_the_lock_when_the_client_disconnects() {
    #[redis_lock(key = "disconnected-client", ttl = "30s", manager = locks)]
    async fn handle(State(locks): State<LockManager>) -> Result<(), LockError> {
        sleep(ms(10_000)).await;
        Ok(())
    }

    let (_server, locks, mut redis) = setup().await;
    let app = Router::new().route("/", get(handle)).with_state(locks);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: shop\r\n\r\n").await.unwrap();
    sleep(ms(300)).await;
    assert!(redis.exists("disconnected-client").await.unwrap());
    drop(client);
    wait_until_absent(&mut redis, "disconnected-client", Duration::from_secs(1)).await;
}
