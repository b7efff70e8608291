//! The tracing events of the lock in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry;

/// A tracing event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
}

/// A record of all events of the lock in this process, which must run one test only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture(Arc<Mutex<Vec<Event>>>);

impl Event {
    pub(crate) fn message(&self) -> &str {
        &self.fields["message"]
    }
}

impl Capture {
    /// Starts to record events, including those of the lock's own threads.
    pub(crate) fn install() -> Self {
        let capture = Self::default();
        let subscriber = registry().with(capture.clone());
        tracing::subscriber::set_global_default(subscriber)
            .expect("no other subscriber is installed");
        capture
    }

    /// Returns the events whose message contains `text`.
    pub(crate) fn containing(&self, text: &str) -> Vec<Event> {
        let mut events = self.0.lock().unwrap().clone();
        events.retain(|event| event.message().contains(text));
        events
    }

    /// Returns the events with `key`.
    pub(crate) fn with_key(&self, key: &str) -> Vec<Event> {
        let mut events = self.0.lock().unwrap().clone();
        events.retain(|event| event.fields.get("key").is_some_and(|k| k == key));
        events
    }
}

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if !event.metadata().target().starts_with("lock_runtime") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = *event.metadata().level();
        self.0.lock().unwrap().push(Event { level, fields: fields.0 });
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
