//! j, k, l: a free lock that sentinels, a cluster or independent servers keep.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use harness::{Cluster, Sentinels, Server, redlock_url};

use super::uncontended::{self, METRICS};
use crate::bench::{Bench, pass, pin, pin_behind};
use crate::contenders::{Contender, Terms};
use crate::rounds::Section;

/// How many independent servers there are.
pub(super) const VOTES: usize = 5;

/// Servers that have not been up for longer do not vote.
const VOTE_TTL: Duration = Duration::from_secs(5);

/// Who takes the locks, and where.
type Subject<'a> = (&'static str, (Contender, &'a str));

pub(super) async fn sentinel(bench: &Bench) -> Result<Section> {
    let sentinels = Sentinels::start("locks").await;
    // In the beginning, the first server is the master.
    let (master, replicas) = sentinels.servers().split_at(1);
    pin(master).await?;
    pin_behind(replicas.iter().chain(sentinels.sentinels())).await?;
    let (master, url) = (master[0].url(), sentinels.url());
    let about = "As in a, with three sentinels, a master and two replicas. The replicas would have \
                 machines of their own; here they stand still while it is measured. The sentinels are \
                 asked once, for a connection; `raw` and \"this, one server\" are given the address of \
                 the same master.";
    let section = Section::new("j-sentinel", "j. Sentinel", about, METRICS, &["raw", ALONE]);
    let subjects: [Subject; 3] = [
        ("raw", (Contender::Raw, &master)),
        (ALONE, (Contender::This, &master)),
        ("this, Sentinel", (Contender::This, &url)),
    ];
    measure(section, bench, Terms::default(), &subjects, replicas).await
}

pub(super) async fn cluster(bench: &Bench) -> Result<Section> {
    let cluster = Cluster::start().await;
    // In the beginning, the first half are the masters.
    let (masters, replicas) = cluster.nodes().split_at(cluster.nodes().len() / 2);
    pin(masters).await?;
    pin_behind(replicas).await?;
    let url = cluster.url();
    let about = "As in a, with three masters on the servers' core, which have a replica each, which \
                 stands still while it is measured. The keys are spread over all slots. `raw` has a \
                 connection to each master, and knows the owner of each key.";
    let section = Section::new("k-cluster", "k. Cluster", about, METRICS, &["raw"]);
    let subjects: [Subject; 2] =
        [("raw", (Contender::Raw, &url)), ("this, Cluster", (Contender::This, &url))];
    measure(section, bench, Terms::default(), &subjects, replicas).await
}

pub(super) async fn redlock(bench: &Bench) -> Result<Section> {
    let servers = join_all((0..VOTES).map(|_| Server::start())).await;
    pin(&servers).await?;
    let url = redlock_url(servers.iter().map(Server::addr));
    let about = format!(
        "As in a, with {VOTES} servers that know nothing of each other, all on the servers' core. `raw` \
         sends its two commands to all of them at once, and awaits the slowest."
    );
    let section = Section::new("l-redlock", "l. Redlock", about, METRICS, &["raw"]);
    let subjects: [Subject; 2] =
        [("raw", (Contender::Raw, &url)), ("this, Redlock", (Contender::This, &url))];
    measure(section, bench, voters().await, &subjects, &[]).await
}

/// The row of this project where it knows nothing but the master.
const ALONE: &str = "this, one server";

async fn measure(
    section: Section,
    bench: &Bench,
    terms: Terms,
    subjects: &[Subject<'_>],
    replicas: &[Server],
) -> Result<Section> {
    section
        .measure(bench, subjects, async |(contender, url), ping| {
            let fleet = bench.fleet_at(url, contender, terms, uncontended::work(bench)).await?;
            replicas.iter().for_each(Server::pause);
            let sample = uncontended::sample(fleet, ping).await;
            replicas.iter().for_each(Server::resume);
            sample
        })
        .await
}

/// Terms on which servers vote that were started before this.
pub(super) async fn voters() -> Terms {
    // They count whole seconds.
    pass(VOTE_TTL + Duration::from_secs(2)).await;
    Terms { ttl: VOTE_TTL, ..Terms::default() }
}
