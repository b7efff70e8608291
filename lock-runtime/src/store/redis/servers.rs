//! Which server keeps a lock.

use std::sync::Arc;

use super::check::Kind;
use super::cluster::Cluster;
use super::connection::Connections;
use super::fault;
use super::line::Line;
use super::names::Names;
use crate::Key;
use crate::store::StoreError;

/// The servers of one manager.
#[derive(Debug)]
pub(super) enum Servers {
    /// One server, or the one that the sentinels call the master.
    One(Arc<Connections>),
    /// A cluster, in which each key has its server.
    Cluster(Cluster),
}

impl Servers {
    /// A line to the server that keeps `key`.
    pub(super) async fn line(&self, key: &Key) -> Result<Line, StoreError> {
        match self {
            Self::One(server) => server.line().await,
            Self::Cluster(cluster) => cluster.line(key).await,
        }
    }

    /// A line to each server.
    pub(super) async fn lines(&self) -> Result<Vec<Line>, StoreError> {
        match self {
            Self::One(server) => Ok(vec![server.line().await?]),
            Self::Cluster(cluster) => cluster.lines().await,
        }
    }

    /// Where to send a command about `key` again, if its answer on `line` redirects it.
    pub(super) async fn redirected(
        &self,
        key: &Key,
        line: &Line,
        error: &StoreError,
    ) -> Result<Option<Line>, StoreError> {
        match self {
            Self::One(_) => Ok(None),
            Self::Cluster(cluster) => cluster.redirected(key, line, error).await,
        }
    }

    /// The same error; where there are several servers, with the address of the one that gave it.
    pub(super) fn located(&self, line: &Line, error: StoreError) -> StoreError {
        match self {
            Self::One(server) if server.server().sentinel().is_none() => error,
            _ => fault::at(line.address(), error),
        }
    }

    /// What each of them is.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::One(_) => Kind::Alone,
            Self::Cluster(_) => Kind::OfCluster,
        }
    }

    /// The names of the keys that belong to a lock.
    pub(super) fn names(&self, key: &Key) -> Names {
        match self {
            Self::One(_) => Names::of(key),
            Self::Cluster(_) => Names::in_cluster(key),
        }
    }

    /// Whether a message that the lock was handed over means just that. The servers of a cluster pass
    /// messages on to each other, also one that a server has sent to a waiter which it then took for
    /// dead, because the waiter listens elsewhere. Messages of a shard stay there, but when a slot moves
    /// its server ends the subscription unasked, which the `redis` crate takes for an answer to a
    /// command.
    pub(super) fn messages_count(&self) -> bool {
        match self {
            Self::One(_) => true,
            Self::Cluster(_) => false,
        }
    }

    /// Tells servers apart.
    pub(super) fn shard(&self, key: &Key) -> u64 {
        match self {
            Self::One(_) => 0,
            Self::Cluster(cluster) => cluster.shard(key),
        }
    }

    /// Connects before that is needed in a hurry, and follows changes from now on, on the runtime that
    /// this is called on.
    pub(super) async fn prepare(&self) -> Result<(), StoreError> {
        if let Self::One(server) = self
            && let Some(sentinel) = server.server().sentinel()
        {
            sentinel.follow();
        }
        self.lines().await.map(drop)
    }
}
