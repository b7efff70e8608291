//! The tracing events of all tests in this process, by key. Each test reads those of its own keys.

use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

type Event = (Level, String);

static EVENTS: LazyLock<Mutex<HashMap<String, Vec<Event>>>> = LazyLock::new(|| {
    let subscriber = registry().with(Record);
    tracing::subscriber::set_global_default(subscriber).expect("no other subscriber is installed");
    Mutex::default()
});

/// Starts to record.
pub(crate) fn record() {
    LazyLock::force(&EVENTS);
}

/// Returns the levels and messages of the events with `key`.
pub(crate) fn events(key: &str) -> Vec<Event> {
    EVENTS.lock().unwrap().get(key).cloned().unwrap_or_default()
}

/// Returns whether the loss of `key` was logged.
pub(crate) fn logs_loss(key: &str) -> bool {
    events(key).iter().any(|(_, message)| message == "lost")
}

struct Record;

impl<S: Subscriber> Layer<S> for Record {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if event.metadata().target().starts_with("lock_runtime") {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let event = (*event.metadata().level(), fields.message);
            EVENTS.lock().unwrap().entry(fields.key).or_default().push(event);
        }
    }
}

#[derive(Default)]
struct Fields {
    key: String,
    message: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "key" => self.key = format!("{value:?}"),
            "message" => self.message = format!("{value:?}"),
            _ => {}
        }
    }
}
