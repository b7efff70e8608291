//! j, k, l: a free lock with Sentinel, in a cluster, and on independent servers.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use harness::{Cluster, Sentinels, Server, redlock_url};
use tokio::time::sleep;

use super::uncontended::{self, METRICS};
use crate::bench::{Bench, pin, pin_with_low_priority};
use crate::contenders::{Contender, Settings};
use crate::rounds::Section;

/// Number of Redlock servers.
pub(super) const REDLOCK_SERVERS: usize = 5;

/// Ttl of Redlock locks; servers with a shorter uptime are not eligible.
const REDLOCK_TTL: Duration = Duration::from_secs(5);

/// The name of a row, its contender, and the URL of the servers.
type Subject<'a> = (&'static str, (Contender, &'a str));

pub(super) async fn sentinel(bench: &Bench) -> Result<Section> {
    let sentinels = Sentinels::start("locks").await;
    // The first server starts as the master.
    let (master, replicas) = sentinels.servers().split_at(1);
    pin(master).await?;
    pin_with_low_priority(replicas.iter().chain(sentinels.sentinels())).await?;
    let (master, url) = (master[0].url(), sentinels.url());
    let description = "As in a, with three sentinels, a master and two replicas. In production, \
                       the replicas would have machines of their own, so here they are stopped \
                       during the measurement. The sentinels are queried once, for a connection; \
                       `raw` and \"this, one server\" connect directly to the same master.";
    let section =
        Section::new("j-sentinel", "j. Sentinel", description, METRICS, &["raw", ONE_SERVER]);
    let subjects: [Subject; 3] = [
        ("raw", (Contender::Raw, &master)),
        (ONE_SERVER, (Contender::This, &master)),
        ("this, Sentinel", (Contender::This, &url)),
    ];
    measure(section, bench, Settings::default(), &subjects, replicas).await
}

pub(super) async fn cluster(bench: &Bench) -> Result<Section> {
    let cluster = Cluster::start().await;
    // The first half of the nodes start as the masters.
    let (masters, replicas) = cluster.nodes().split_at(cluster.nodes().len() / 2);
    pin(masters).await?;
    pin_with_low_priority(replicas).await?;
    let url = cluster.url();
    let description = "As in a, with three masters on the servers' core. Each has a replica, which \
                       is stopped during the measurement. The keys are spread over all slots. \
                       `raw` has a connection to each master and knows the owner of each key.";
    let section = Section::new("k-cluster", "k. Cluster", description, METRICS, &["raw"]);
    let subjects: [Subject; 2] =
        [("raw", (Contender::Raw, &url)), ("this, Cluster", (Contender::This, &url))];
    measure(section, bench, Settings::default(), &subjects, replicas).await
}

pub(super) async fn redlock(bench: &Bench) -> Result<Section> {
    let servers = join_all((0..REDLOCK_SERVERS).map(|_| Server::start())).await;
    pin(&servers).await?;
    let url = redlock_url(servers.iter().map(Server::addr));
    let description = format!(
        "As in a, with {REDLOCK_SERVERS} independent servers, all on the servers' core. `raw` \
         sends its two commands to all of them at once and awaits the slowest."
    );
    let section = Section::new("l-redlock", "l. Redlock", description, METRICS, &["raw"]);
    let subjects: [Subject; 2] =
        [("raw", (Contender::Raw, &url)), ("this, Redlock", (Contender::This, &url))];
    measure(section, bench, redlock_settings().await, &subjects, &[]).await
}

/// The row of this project without sentinels.
const ONE_SERVER: &str = "this, one server";

async fn measure(
    section: Section,
    bench: &Bench,
    settings: Settings,
    subjects: &[Subject<'_>],
    replicas: &[Server],
) -> Result<Section> {
    section
        .measure(bench, subjects, async |(contender, url), ping| {
            let workers = bench
                .start_workers_at(url, contender, settings, uncontended::workload(bench))
                .await?;
            replicas.iter().for_each(Server::pause);
            let sample = uncontended::sample(workers, ping).await;
            replicas.iter().for_each(Server::resume);
            sample
        })
        .await
}

/// Waits until all servers that are running are eligible, and returns the settings for Redlock.
pub(super) async fn redlock_settings() -> Settings {
    // Servers report their uptime in whole seconds.
    sleep(REDLOCK_TTL + Duration::from_secs(2)).await;
    Settings { ttl: REDLOCK_TTL, ..Settings::default() }
}
