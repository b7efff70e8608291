//! Handlers of actix-web and axum with the attribute.

use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, call_service, init_service, read_body};
use actix_web::web;
use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::Request;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use lock_runtime::{LockError, LockManager, redis_lock};
use tower::ServiceExt as _;

use crate::support::{holding, locking, server, tick};

#[actix_web::post("/orders/{id}", name = "order")]
#[redis_lock(key = "order:<id>", ttl = "5s")]
async fn post_order(id: actix_web::web::Path<u64>) -> Result<String, actix_web::Error> {
    Ok(format!("done {id}"))
}
#[actix_web::post("/above/{id}")]
#[redis_lock(key = "order:<id>", ttl = "5s")]
async fn route_above(id: web::Path<u64>) -> Result<String, actix_web::Error> {
    tick().await;
    Ok(format!("above {id}"))
}
#[redis_lock(key = "order:<id>", ttl = "5s")]
#[actix_web::post("/below/{id}")]
async fn route_below(id: web::Path<u64>) -> Result<String, actix_web::Error> {
    tick().await;
    Ok(format!("below {id}"))
}
#[actix_web::post("/response/{id}")]
#[redis_lock(key = "order:<id>", ttl = "5s")]
async fn response(id: web::Path<u64>) -> actix_web::HttpResponse {
    actix_web::HttpResponse::Ok().body(format!("response {id}"))
}

#[tokio::test]
async fn accepts_a_route_of_actix_above_or_below() {
    let services = (post_order, route_above, route_below, response);
    let app = init_service(actix_web::App::new().service(services)).await;
    let call = async |path: &str| {
        let reply = call_service(&app, TestRequest::post().uri(path).to_request()).await;
        let status = reply.status();
        (status, String::from_utf8(read_body(reply).await.to_vec()).unwrap())
    };
    let ok = |text: &str| (StatusCode::OK, text.to_owned());

    assert_eq!(locking("order:1", call("/orders/1")).await, ok("done 1"));
    assert_eq!(holding("order:2", call("/above/2")).await, ok("above 2"));
    assert_eq!(holding("order:3", call("/below/3")).await, ok("below 3"));
    assert_eq!(locking("order:4", call("/response/4")).await, ok("response 4"));

    let _guard = LockManager::global().unwrap().lock("order:5").await.unwrap();
    for path in ["/orders/5", "/above/5", "/below/5", "/response/5"] {
        assert_eq!(call(path).await.0, StatusCode::CONFLICT, "{path}");
    }
}

#[redis_lock(key = "item:<id>", ttl = "5s")]
async fn item(Path(id): Path<u64>) -> Result<String, LockError> {
    tick().await;
    Ok(format!("item {id}"))
}
#[redis_lock(key = "page:<id>", ttl = "5s")]
async fn page(Path(id): Path<u64>) -> Response {
    tick().await;
    format!("page {id}").into_response()
}

#[tokio::test]
async fn accepts_patterns_in_handlers_of_axum() {
    server().await;
    let app = Router::new().route("/items/{id}", get(item)).route("/pages/{id}", get(page));
    let call = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let reply = app.clone().oneshot(request).await.unwrap();
        let status = reply.status().as_u16();
        let body = axum::body::to_bytes(reply.into_body(), 100).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    };

    assert_eq!(holding("item:1", call("/items/1")).await, (200, "item 1".to_owned()));
    assert_eq!(holding("page:1", call("/pages/1")).await, (200, "page 1".to_owned()));
    let locks = LockManager::global().unwrap();
    let _guards = (locks.lock("item:2").await.unwrap(), locks.lock("page:2").await.unwrap());
    assert_eq!(call("/items/2").await.0, 409);
    assert_eq!(call("/pages/2").await.0, 409);
}
