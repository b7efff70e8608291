//! News for those who wait: that the lock was given back.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{sleep, timeout};

use super::crowd::Crowd;
use super::node::Node;
use crate::Key;
use crate::store::redis::channels::{Channels, Subscription};

/// How often a subscription is renewed, because a connection may have been replaced.
const RENEWED: Duration = Duration::from_secs(1);
/// How long a channel stays subscribed to after somebody has begun to listen: longer than the pause
/// between two questions.
const KEPT: Duration = Duration::from_secs(2);

/// The channel on which the servers tell that a lock is free.
pub(super) fn channel(key: &Key) -> String {
    format!("lock-runtime:free:{key}")
}

/// Ready when a server tells that the lock was given back, after this call. Where it does not arrive,
/// who waits asks again in any case.
pub(super) fn listen(channels: &Arc<Channels>, nodes: &[Arc<Node>], key: &Key) -> OwnedNotified {
    let name = channel(key);
    let (heard, is_new) = channels.listen(&name, Handle::current().id());
    let told = Arc::clone(&heard).notified_owned();
    if is_new {
        let subscription = Subscription { channels: Arc::clone(channels), name, heard };
        tokio::spawn(keep(subscription, nodes.to_vec()));
    }
    told
}

/// Only this task subscribes to the channel on the connections of its runtime, and ends the subscription:
/// so neither overtakes the other.
async fn keep(subscription: Subscription, nodes: Vec<Arc<Node>>) {
    loop {
        while subscription.is_used(KEPT) {
            tell(&nodes, "SUBSCRIBE", &subscription.name).await;
            sleep(RENEWED).await;
        }
        tell(&nodes, "UNSUBSCRIBE", &subscription.name).await;
        if subscription.end_unless_used(KEPT) {
            return;
        }
    }
}

async fn tell(nodes: &[Arc<Node>], command: &'static str, channel: &str) {
    let mut crowd = Crowd::new(nodes.iter().map(|node| {
        let (node, command) = (Arc::clone(node), redis::cmd(command).arg(channel).take());
        async move {
            if let Some(line) = node.hearing_line().await {
                let _ = line.call(&command).await;
            }
        }
    }));
    let all = async { while crowd.next().await.is_some() {} };
    let _ = timeout(RENEWED, all).await;
}
