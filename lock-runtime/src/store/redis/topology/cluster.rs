//! [`Cluster`]: the nodes of a Redis Cluster, and the owners of its slots.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{ConnectionInfo, Value, from_redis_value};
use tokio::time::sleep;

use super::slot::Slot;
use crate::store::redis::client::connection::Connection;
use crate::store::redis::client::connector::{Config, Target};
use crate::store::redis::client::error::{ClientError, Kind};
use crate::store::redis::client::pool::Pool;
use crate::store::redis::client::single_flight::SingleFlight;
use crate::store::redis::client::{fan_out, handshake, url};
use crate::sync::lock;

/// The delay before a request is retried because its keys are being moved.
const TRY_AGAIN_DELAY: Duration = Duration::from_millis(20);

/// The nodes of a cluster, and the slot map.
pub(crate) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    config: Arc<Config>,
    map: Mutex<SlotMap>,
    /// How many reasons there were to refresh the slot map, and how many the last refresh has covered.
    /// A refresh that is cancelled covers none.
    stale: AtomicU64,
    refreshed: AtomicU64,
    refreshing: SingleFlight<ClientError>,
    /// Grows whenever a node may have received a slot.
    version: AtomicU64,
}

/// The owners of ranges of slots, as one node reports them: first slot, last slot, address.
type Ranges = Vec<(u16, u16, Arc<str>)>;

#[derive(Debug, Default)]
struct SlotMap {
    nodes: BTreeMap<Arc<str>, Arc<Pool>>,
    /// The address of the owner of each range, by the first slot of the range, with the last slot.
    ranges: BTreeMap<u16, (u16, Arc<str>)>,
}

impl SlotMap {
    fn owner(&self, slot: Slot) -> Option<&Arc<str>> {
        let (_, (last, owner)) = self.ranges.range(..=slot.number()).next_back()?;
        (slot.number() <= *last).then_some(owner)
    }

    /// Changes the owner of one slot.
    fn set_owner(&mut self, slot: Slot, owner: Arc<str>) {
        let number = slot.number();
        if let Some((&first, range)) = self.ranges.range_mut(..=number).next_back()
            && number <= range.0
        {
            let (last, before) = range.clone();
            range.0 = number.wrapping_sub(1);
            if first == number {
                self.ranges.remove(&first);
            }
            if number < last {
                self.ranges.insert(number + 1, (last, before));
            }
        }
        self.ranges.insert(number, (number, owner));
    }

    /// The first range of slots without an owner.
    fn gap(&self) -> Option<(u16, u16)> {
        let mut next = 0;
        for (&first, &(last, _)) in &self.ranges {
            if first > next {
                return Some((next, first - 1));
            }
            next = last + 1;
        }
        (next < Slot::COUNT).then_some((next, Slot::COUNT - 1))
    }
}

impl Cluster {
    pub(super) fn new(seeds: Vec<ConnectionInfo>, config: Arc<Config>) -> Self {
        let (map, refreshed, refreshing, version) = Default::default();
        Self { seeds, config, map, stale: AtomicU64::new(1), refreshed, refreshing, version }
    }

    /// Returns a connection to the node that owns the slot of `key`.
    pub(super) async fn connection(&self, key: &str) -> Result<Connection, ClientError> {
        self.refresh_if_stale().await?;
        let slot = Slot::of(key);
        let owner = lock(&self.map).owner(slot).cloned();
        let connection = match owner {
            Some(owner) => {
                let connection = self.node(&owner).connection().await;
                connection.map_err(|error| error.at(&owner))
            }
            None => Err(ClientError::not_executed(format!(
                "no node of the cluster owns slot {}",
                slot.number()
            ))),
        };
        if connection.is_err() {
            self.mark_stale();
        }
        connection
    }

    /// Returns the connection for another try of a request about `key`, if the error on
    /// `connection` redirects it.
    pub(super) async fn redirected(
        &self,
        key: &str,
        connection: &Connection,
        error: &ClientError,
    ) -> Result<Option<Connection>, ClientError> {
        match &error.kind {
            Kind::Moved(address) => {
                let address = complete(address, connection.address());
                lock(&self.map).set_owner(Slot::of(key), Arc::clone(&address));
                self.new_owner(&address).connection().await.map(Some)
            }
            Kind::Ask(address) => {
                let address = complete(address, connection.address());
                Ok(Some(self.new_owner(&address).connection().await?.asking()))
            }
            Kind::TryAgain => {
                sleep(TRY_AGAIN_DELAY).await;
                self.connection(key).await.map(Some)
            }
            Kind::NotExecuted | Kind::NoScript => {
                self.mark_stale(); // the node may no longer own the slot
                Ok(None)
            }
            Kind::Refused | Kind::Disconnected | Kind::Unknown => Ok(None),
        }
    }

    /// Identifies the owner of the slot of `key`.
    pub(super) fn shard(&self, key: &str) -> u64 {
        let map = lock(&self.map);
        let owner = map.owner(Slot::of(key));
        owner.and_then(|owner| map.nodes.keys().position(|address| address == owner)).unwrap_or(0)
            as u64
    }

    /// Changes whenever a node may have received a slot.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns a connection to each node that owns slots.
    pub(super) async fn connections(&self) -> Result<Vec<Connection>, ClientError> {
        self.refresh_if_stale().await?;
        if let Some((first, last)) = lock(&self.map).gap() {
            let slots = match last {
                last if last == first => format!("slot {first}"),
                last => format!("the slots {first} to {last}"),
            };
            return Err(ClientError::not_executed(format!("no node of the cluster owns {slots}")));
        }
        let mut owners: Vec<_> =
            lock(&self.map).ranges.values().map(|(_, owner)| Arc::clone(owner)).collect();
        owners.sort_unstable();
        owners.dedup();
        let mut connections = Vec::new();
        for owner in owners {
            let connection = self.node(&owner).connection().await;
            connections.push(connection.map_err(|error| error.at(&owner))?);
        }
        Ok(connections)
    }

    /// The connections to the node at an address.
    fn node(&self, address: &Arc<str>) -> Arc<Pool> {
        let new = || {
            let (host, port) = split(address).unwrap_or((address, 6_379));
            let target = Target::Fixed(url::at(&self.seeds[0], host, port).into());
            Arc::new(Pool::new(target, Arc::clone(&self.config)))
        };
        Arc::clone(lock(&self.map).nodes.entry(Arc::clone(address)).or_insert_with(new))
    }

    /// The connections to a node that may have just received a slot.
    fn new_owner(&self, address: &Arc<str>) -> Arc<Pool> {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.node(address)
    }

    fn mark_stale(&self) {
        self.stale.fetch_add(1, Ordering::Relaxed);
    }

    async fn refresh_if_stale(&self) -> Result<(), ClientError> {
        let fresh = || {
            let stale = self.stale.load(Ordering::Relaxed);
            (self.refreshed.load(Ordering::Relaxed) == stale).then_some(())
        };
        if fresh().is_some() {
            return Ok(());
        }
        let refresh = async || {
            let reasons = self.stale.load(Ordering::Relaxed);
            self.refresh().await?;
            self.refreshed.store(reasons, Ordering::Relaxed);
            Ok(())
        };
        self.refreshing.run(fresh, refresh).await
    }

    /// Rebuilds the slot map from the replies of a majority of the known nodes.
    async fn refresh(&self) -> Result<(), ClientError> {
        let seeds = self.seeds.iter().map(|seed| seed.addr().to_string().into());
        let known = lock(&self.map).nodes.keys().cloned().collect::<Vec<_>>();
        let mut addresses: Vec<_> = known.into_iter().chain(seeds).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let queries =
            addresses.iter().map(|address| query(Arc::clone(address), self.node(address)));
        let (replies, errors) = fan_out::collect(queries, addresses.len() / 2 + 1).await;
        // A node that is cut off from the others knows an older epoch.
        let Some((_, ranges)) = replies.into_iter().max_by_key(|(epoch, _)| *epoch) else {
            let no_reply = || ClientError::not_executed("no node of the cluster replies");
            return Err(errors.into_iter().next().unwrap_or_else(no_reply));
        };
        let in_use = |address: &Arc<str>| ranges.iter().any(|(_, _, owner)| owner == address);
        let mut map = lock(&self.map);
        map.nodes.retain(|address, _| in_use(address));
        map.ranges =
            ranges.into_iter().map(|(first, last, owner)| (first, (last, owner))).collect();
        self.version.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Omits the settings, which include the password.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("map", &self.map).finish_non_exhaustive()
    }
}

/// Queries a node for the epoch of the cluster and the owners of its slots. A node that knows that
/// it is cut off counts as epoch 0.
async fn query(address: Arc<str>, node: Arc<Pool>) -> Result<(u64, Ranges), ClientError> {
    let queried = async {
        let connection = node.connection().await?;
        let mut requests = redis::pipe();
        requests.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let Ok([info, slots]) = <[_; 2]>::try_from(connection.send(&requests).await?) else {
            return Err(ClientError::unexpected(&Value::Nil));
        };
        let info = info?;
        let is_ok = handshake::field(&info, "cluster_state") == Some("ok");
        let epoch = handshake::field(&info, "cluster_current_epoch");
        let epoch = epoch.and_then(|epoch| epoch.parse().ok()).filter(|_| is_ok).unwrap_or(0);
        let ranges: Vec<Vec<Value>> =
            from_redis_value(slots?).map_err(|error| ClientError::unknown(error.to_string()))?;
        Ok((epoch, ranges.into_iter().filter_map(|range| self::range(range, &address)).collect()))
    };
    queried.await.map_err(|error: ClientError| error.at(&address))
}

/// The first slot, the last slot and their owner, from the reply of the node `from` to
/// `CLUSTER SLOTS`.
fn range(parts: Vec<Value>, from: &str) -> Option<(u16, u16, Arc<str>)> {
    let mut parts = parts.into_iter();
    let (first, last) =
        (from_redis_value(parts.next()?).ok()?, from_redis_value(parts.next()?).ok()?);
    let mut owner = from_redis_value::<Vec<Value>>(parts.next()?).ok()?.into_iter();
    let host: Option<String> = from_redis_value(owner.next()?).ok()?;
    let port: u16 = from_redis_value(owner.next()?).ok()?;
    let host = host.unwrap_or_default();
    if port == 0 {
        return None; // the address of the owner is unknown
    }
    Some((first, last, complete(&format!("{host}:{port}"), from)))
}

/// Completes an address without a host with the host of the node that reported it.
fn complete(address: &str, from: &str) -> Arc<str> {
    match (address.strip_prefix(':'), split(from)) {
        (Some(port), Some((host, _))) => format!("{host}:{port}").into(),
        _ => address.into(),
    }
}

/// Host and port, as Redis writes them: an IPv6 host has no brackets.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ranges: &[(u16, u16, &str)]) -> SlotMap {
        let ranges = ranges.iter().map(|(first, last, owner)| (*first, (*last, (*owner).into())));
        SlotMap { nodes: BTreeMap::new(), ranges: ranges.collect() }
    }

    #[test]
    fn slot_has_the_owner_of_its_range() {
        let map = map(&[(0, 99, "a:1"), (200, Slot::COUNT - 1, "b:2")]);
        for (number, owner) in [
            (0, Some("a:1")),
            (99, Some("a:1")),
            (100, None),
            (199, None),
            (200, Some("b:2")),
            (Slot::COUNT - 1, Some("b:2")),
        ] {
            assert_eq!(map.owner(Slot::numbered(number)).map(|owner| &**owner), owner, "{number}");
        }
        assert_eq!(map.gap(), Some((100, 199)));
    }

    #[test]
    fn moves_one_slot_alone() {
        for number in [0, 1, 50, 98, 99] {
            let mut map = map(&[(0, 99, "a:1"), (100, Slot::COUNT - 1, "b:2")]);
            map.set_owner(Slot::numbered(number), "b:2".into());
            for other in 0..Slot::COUNT {
                let owner = if other == number || other > 99 { "b:2" } else { "a:1" };
                assert_eq!(
                    map.owner(Slot::numbered(other)),
                    Some(&owner.into()),
                    "{number} {other}"
                );
            }
            assert_eq!(map.gap(), None);
        }
    }

    #[test]
    fn finds_gaps_at_both_ends() {
        assert_eq!(map(&[]).gap(), Some((0, Slot::COUNT - 1)));
        assert_eq!(map(&[(5, Slot::COUNT - 1, "a:1")]).gap(), Some((0, 4)));
        assert_eq!(map(&[(0, 9, "a:1")]).gap(), Some((10, Slot::COUNT - 1)));
    }

    #[test]
    fn completes_addresses_without_a_host() {
        assert_eq!(&*complete(":7001", "10.0.0.1:7000"), "10.0.0.1:7001");
        assert_eq!(&*complete("b:7001", "10.0.0.1:7000"), "b:7001");
        assert_eq!(split("::1:7000"), Some(("::1", 7_000)));
    }
}
