//! `#[tracing::instrument]` above and below the attribute.

use std::cell::RefCell;
use std::fmt::Debug;

use lock_runtime::redis_lock;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::set_global_default;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use super::support::{AppError, locking, server, work};

#[tracing::instrument(err(Debug))]
#[redis_lock(key = "tr:<id>", ttl = "5s")]
async fn span_inside(id: u64) -> Result<u64, AppError> {
    work(id).await
}
#[redis_lock(key = "tr:<id>", ttl = "5s")]
#[tracing::instrument(err(Debug))]
async fn span_outside(id: u64) -> Result<u64, AppError> {
    work(id).await
}
#[tracing::instrument(err(Debug))]
#[redis_lock(key = "tr:<id>", ttl = "5s")]
async fn error_inside(id: u64) -> Result<u64, AppError> {
    work(id).await?;
    Err(AppError::Empty)
}
#[redis_lock(key = "tr:<id>", ttl = "5s")]
#[tracing::instrument(err(Debug))]
async fn error_outside(id: u64) -> Result<u64, AppError> {
    work(id).await?;
    Err(AppError::Empty)
}

#[tokio::test]
async fn covers_only_the_body_with_a_span_above() {
    server().await;
    Journal::take();
    assert_eq!(locking("tr:1", span_inside(1)).await.unwrap(), 1);
    assert_eq!(Journal::take(), ["acquired", "+span_inside", "-span_inside", "released"]);
    assert!(locking("tr:1", error_inside(1)).await.is_err());
    assert_eq!(
        Journal::take(),
        ["acquired", "+error_inside", "error=Empty", "-error_inside", "released"]
    );
}

#[tokio::test]
async fn covers_the_lock_with_a_span_below() {
    server().await;
    Journal::take();
    assert_eq!(locking("tr:2", span_outside(2)).await.unwrap(), 2);
    assert_eq!(Journal::take(), ["+span_outside", "acquired", "released", "-span_outside"]);
    assert!(locking("tr:2", error_outside(2)).await.is_err());
    assert_eq!(
        Journal::take(),
        ["+error_outside", "acquired", "released", "error=Empty", "-error_outside"]
    );
}

/// A record per thread of opened and closed spans, and of the events of the lock and of spans.
struct Journal;

thread_local! {
    static LINES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Installs the journal of all threads.
///
/// One subscriber serves all tests and is installed before the first lock: an event that first
/// occurs without a subscriber stays disabled on every thread.
pub(super) fn install_journal() {
    set_global_default(tracing_subscriber::registry().with(Journal))
        .expect("no other subscriber is installed");
}

impl Journal {
    fn push(line: String) {
        LINES.with_borrow_mut(|lines| lines.push(line));
    }

    fn take() -> Vec<String> {
        LINES.take()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Journal {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        Self::push(format!("+{}", attributes.metadata().name()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Self::push(format!("-{}", context.metadata(&id).unwrap().name()));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut Line);
    }
}

struct Line;

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => Journal::push(format!("{value:?}")),
            "error" => Journal::push(format!("error={value:?}")),
            _ => {}
        }
    }
}
