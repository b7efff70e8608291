//! What web frameworks answer when the lock fails.

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

use crate::support::{SOON, absent, ms, occupy, setup};

/// What handlers share: the locks, and whether a body should meet a loss.
#[derive(Clone)]
struct Shop {
    locks: LockManager,
    redis: Option<MultiplexedConnection>,
}

impl Shop {
    /// The body of the handlers: loses its lock if it was told to.
    async fn work(&self) {
        if let Some(mut redis) = self.redis.clone() {
            redis.del("order:7").await.unwrap();
            sleep(SOON).await;
        }
    }
}

type Answer = (u16, Option<String>, String);

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

    pub(super) async fn answer<T: 'static>(handler: impl Handler<T, Shop>, shop: &Shop) -> Answer {
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

    pub(super) async fn answer(path: &str, shop: &Shop) -> Answer {
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

/// The answers of all handlers, of both frameworks.
async fn answers(shop: &Shop) -> Vec<Answer> {
    let mut answers = vec![
        by_axum::answer(by_axum::result, shop).await,
        by_axum::answer(by_axum::response, shop).await,
    ];
    for path in by_actix::PATHS {
        answers.push(by_actix::answer(path, shop).await);
    }
    answers
}

/// Fails if a body tells a client what belongs into a log.
fn assert_discreet(body: &str, server: &Server) {
    assert!(!body.is_empty() && !body.contains('\n'), "{body:?}");
    for secret in ["order", "another program", "redis", "127.0.0.1", &server.port().to_string()] {
        assert!(!body.contains(secret), "{body:?}");
    }
}

#[actix_web::test]
async fn a_free_lock_lets_the_handler_answer() {
    let (_server, locks, mut redis) = setup().await;
    for answer in answers(&Shop { locks, redis: None }).await {
        assert_eq!(answer, (200, None, "paid".to_owned()));
    }
    assert!(!redis.exists("order:7").await.unwrap());
}

#[actix_web::test]
async fn busy_is_a_conflict_with_the_time_to_try_again() {
    let (server, locks, mut redis) = setup().await;
    let shop = Shop { locks, redis: None };
    occupy(&mut redis, "order:7", Duration::from_secs(17)).await;
    for (status, retry, body) in answers(&shop).await {
        assert_eq!(status, 409, "{body}");
        let seconds: u64 = retry.unwrap().parse().unwrap();
        assert!((10..=17).contains(&seconds), "{seconds}");
        assert_discreet(&body, &server);
    }

    redis::cmd("PEXPIRE").arg("order:7").arg(17_900).exec_async(&mut redis).await.unwrap();
    let (_, retry, _) = by_axum::answer(by_axum::response, &shop).await;
    assert_eq!(retry.as_deref(), Some("18"), "whole seconds, none too early");
    redis::cmd("PERSIST").arg("order:7").exec_async(&mut redis).await.unwrap();
    for (status, retry, body) in answers(&shop).await {
        assert_eq!((status, retry), (409, None), "{body}");
    }
}

#[actix_web::test]
async fn an_unavailable_store_is_a_503() {
    let (server, locks, _) = setup().await;
    let shop = Shop { locks, redis: None };
    server.kill();
    for (status, retry, body) in answers(&shop).await {
        assert_eq!((status, retry), (503, None), "{body}");
        assert_discreet(&body, &server);
    }
}

#[actix_web::test]
async fn a_lost_lock_is_a_503() {
    let (server, locks, redis) = setup().await;
    let shop = Shop { locks, redis: Some(redis) };
    for (status, retry, body) in answers(&shop).await {
        assert_eq!((status, retry), (503, None), "{body}");
        assert_discreet(&body, &server);
    }
}

#[redis_lock(key = "order:<id>", ttl = "5s", manager = locks)]
async fn by_id(locks: &LockManager, id: &str) -> Response {
    "paid".into_response()
}

#[tokio::test]
async fn a_value_that_cannot_be_locked_is_the_clients_mistake() {
    let locks = LockManager::in_memory();
    assert_eq!(by_id(&locks, "7").await.status(), 200);
    assert_eq!(by_id(&locks, "").await.status(), 400);
    assert_eq!(by_id(&locks, &"7".repeat(600)).await.status(), 400);
}

#[redis_lock(key = "order:<id>", ttl = "300ms", renew = false, manager = locks)]
async fn failing(locks: &LockManager, id: u64) -> Response {
    std::thread::sleep(ms(600)); // past the lease, and not to be stopped
    StatusCode::IM_A_TEAPOT.into_response()
}

#[tokio::test]
async fn a_failure_of_the_body_is_kept_when_the_lock_is_lost() {
    let locks = LockManager::in_memory();
    assert_eq!(failing(&locks, 1).await.status(), StatusCode::IM_A_TEAPOT);
}

/// What a web server does: the future of the handler is dropped when its client disconnects.
#[tokio::test]
async fn c081_a_client_that_disconnects_frees_the_lock() {
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
    absent(&mut redis, "disconnected-client", Duration::from_secs(1)).await;
}
