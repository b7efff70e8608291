//! Which server of a cluster keeps which lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{ConnectionInfo, Value, from_redis_value};
use tokio::time::sleep;

use super::address;
use super::check;
use super::connection::Connections;
use super::fault::{self, Redirection};
use super::line::Line;
use super::server::{Common, Place};
use super::slot::Slot;
use super::survey::survey;
use crate::Key;
use crate::store::StoreError;

/// Pause before a command is sent again whose keys are being moved.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// The servers of a cluster, and what is known of its slots.
#[derive(Debug)]
pub(super) struct Cluster {
    seeds: Vec<ConnectionInfo>,
    common: Arc<Common>,
    map: Mutex<Map>,
    /// Whether the map may be out of date.
    stale: AtomicBool,
    /// Held while the map is made anew.
    refresh: tokio::sync::Mutex<()>,
    /// How many times it was.
    refreshed: AtomicU64,
}

/// What a server says: who owns each range of slots.
type Ranges = Vec<(u16, u16, Arc<str>)>;

#[derive(Debug, Default)]
struct Map {
    nodes: BTreeMap<Arc<str>, Arc<Connections>>,
    /// The address of the owner of each slot, by the first slot of its range, with the last one.
    ranges: BTreeMap<u16, (u16, Arc<str>)>,
}

impl Map {
    fn owner(&self, slot: Slot) -> Option<&Arc<str>> {
        let (_, (last, owner)) = self.ranges.range(..=slot.number()).next_back()?;
        (slot.number() <= *last).then_some(owner)
    }

    /// Gives a slot another owner.
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

    /// The first range of slots that nobody owns.
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
    pub(super) fn new(seeds: Vec<ConnectionInfo>, common: Arc<Common>) -> Self {
        let (map, refresh, refreshed) = Default::default();
        Self { seeds, common, map, stale: AtomicBool::new(true), refresh, refreshed }
    }

    /// A line to the server that keeps `key`.
    pub(super) async fn line(&self, key: &Key) -> Result<Line, StoreError> {
        self.refresh_if_stale().await?;
        let slot = Slot::of(key.as_str());
        let owner = self.map().owner(slot).cloned();
        let line = match owner {
            Some(owner) => {
                let line = self.node(&owner).line().await;
                line.map_err(|error| fault::at(&owner, error))
            }
            None => Err(StoreError::NotExecuted(
                format!("no server of the cluster has slot {}", slot.number()).into(),
            )),
        };
        if line.is_err() {
            self.stale.store(true, Ordering::Relaxed);
        }
        line
    }

    /// Where to send a command about `key` again, if its answer on `line` redirects it.
    pub(super) async fn redirected(
        &self,
        key: &Key,
        line: &Line,
        error: &StoreError,
    ) -> Result<Option<Line>, StoreError> {
        let Some(redirection) = fault::redirection(error) else {
            if matches!(error, StoreError::NotExecuted(_)) {
                self.stale.store(true, Ordering::Relaxed); // perhaps it owns the slot no more
            }
            return Ok(None);
        };
        match redirection {
            Redirection::Moved(address) => {
                let address = complete(&address, line.address());
                self.map().set_owner(Slot::of(key.as_str()), Arc::clone(&address));
                self.new_owner(&address).line().await.map(Some)
            }
            Redirection::Ask(address) => {
                let address = complete(&address, line.address());
                Ok(Some(self.new_owner(&address).line().await?.asking()))
            }
            Redirection::TryAgain => {
                sleep(TRY_AGAIN).await;
                self.line(key).await.map(Some)
            }
        }
    }

    /// Tells the owners of slots apart.
    pub(super) fn shard(&self, key: &Key) -> u64 {
        let map = self.map();
        let owner = map.owner(Slot::of(key.as_str()));
        owner.and_then(|owner| map.nodes.keys().position(|address| address == owner)).unwrap_or(0)
            as u64
    }

    /// A line to each server that owns slots.
    pub(super) async fn lines(&self) -> Result<Vec<Line>, StoreError> {
        self.refresh_if_stale().await?;
        if let Some((first, last)) = self.map().gap() {
            return Err(StoreError::NotExecuted(
                format!("no server of the cluster has the slots {first} to {last}").into(),
            ));
        }
        let mut owners: Vec<_> =
            self.map().ranges.values().map(|(_, owner)| Arc::clone(owner)).collect();
        owners.sort_unstable();
        owners.dedup();
        let mut lines = Vec::new();
        for owner in owners {
            let line = self.node(&owner).line().await;
            lines.push(line.map_err(|error| fault::at(&owner, error))?);
        }
        Ok(lines)
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections to the server at an address.
    fn node(&self, address: &Arc<str>) -> Arc<Connections> {
        let node = || {
            let (host, port) = split(address).unwrap_or((address, 6_379));
            let place = Place::OfCluster(address::at(&self.seeds[0], host, port).into());
            Arc::new(Connections::new(place, Arc::clone(&self.common)))
        };
        Arc::clone(self.map().nodes.entry(Arc::clone(address)).or_insert_with(node))
    }

    /// The connections to a server that has a slot now which it may not have had before.
    fn new_owner(&self, address: &Arc<str>) -> Arc<Connections> {
        let node = self.node(address);
        node.doubt_epoch();
        node
    }

    async fn refresh_if_stale(&self) -> Result<(), StoreError> {
        if !self.stale.load(Ordering::Relaxed) {
            return Ok(());
        }
        let before = self.refreshed.load(Ordering::Relaxed);
        let _refresh = self.refresh.lock().await;
        if self.refreshed.load(Ordering::Relaxed) != before {
            return Ok(()); // by somebody else, meanwhile
        }
        self.stale.store(false, Ordering::Relaxed);
        let refreshed = self.ask_for_map().await;
        self.stale.fetch_or(refreshed.is_err(), Ordering::Relaxed);
        self.refreshed.fetch_add(1, Ordering::Relaxed);
        refreshed
    }

    async fn ask_for_map(&self) -> Result<(), StoreError> {
        let seeds = self.seeds.iter().map(|seed| seed.addr().to_string().into());
        let known = self.map().nodes.keys().cloned().collect::<Vec<_>>();
        let mut addresses: Vec<_> = known.into_iter().chain(seeds).collect();
        addresses.sort_unstable();
        addresses.dedup();
        let ask = |address: &Arc<str>| ask(Arc::clone(address), self.node(address));
        let (answers, errors) = survey(addresses.iter().map(ask), addresses.len() / 2 + 1).await;
        // Who is cut off from the others knows an older epoch.
        let Some((_, ranges)) = answers.into_iter().max_by_key(|(epoch, _)| *epoch) else {
            let nobody = || StoreError::NotExecuted("no server of the cluster answers".into());
            return Err(errors.into_iter().next().unwrap_or_else(nobody));
        };
        let in_use = |address: &Arc<str>| ranges.iter().any(|(_, _, owner)| owner == address);
        let mut map = self.map();
        map.nodes.retain(|address, _| in_use(address));
        map.nodes.values().for_each(|node| node.doubt_epoch());
        map.ranges =
            ranges.into_iter().map(|(first, last, owner)| (first, (last, owner))).collect();
        Ok(())
    }
}

/// Asks a server for the epoch of the cluster and the owners of its slots. Who knows that it is cut
/// off from the others has the epoch 0.
async fn ask(address: Arc<str>, node: Arc<Connections>) -> Result<(u64, Ranges), StoreError> {
    let asked = async {
        let line = node.line().await?;
        let mut questions = redis::pipe();
        questions.cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
        let answers: [_; 2] = line
            .send(&questions)
            .await?
            .try_into()
            .unwrap_or_else(|_| [Ok(Value::Nil), Ok(Value::Nil)]);
        let [info, slots] = answers;
        let info = info?;
        let is_well = check::info(&info, "cluster_state") == Some("ok");
        let epoch =
            check::info(&info, "cluster_current_epoch").and_then(|epoch| epoch.parse().ok());
        let epoch = epoch.filter(|_| is_well).unwrap_or(0);
        let ranges: Vec<Vec<Value>> =
            from_redis_value(slots?).map_err(|error| StoreError::Unknown(error.into()))?;
        Ok((epoch, ranges.into_iter().filter_map(|range| self::range(range, &address)).collect()))
    };
    asked.await.map_err(|error| fault::at(&address, error))
}

/// The first and the last slot and their owner, out of an answer to `CLUSTER SLOTS`.
fn range(parts: Vec<Value>, asked: &str) -> Option<(u16, u16, Arc<str>)> {
    let mut parts = parts.into_iter();
    let (first, last) =
        (from_redis_value(parts.next()?).ok()?, from_redis_value(parts.next()?).ok()?);
    let mut owner = from_redis_value::<Vec<Value>>(parts.next()?).ok()?.into_iter();
    let host: Option<String> = from_redis_value(owner.next()?).ok()?;
    let port: u16 = from_redis_value(owner.next()?).ok()?;
    let host = host.unwrap_or_default();
    if port == 0 {
        return None; // the server does not know where that one is
    }
    Some((first, last, complete(&format!("{host}:{port}"), asked)))
}

/// An address, with the host of the server that gave it if it has none.
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

    fn map(ranges: &[(u16, u16, &str)]) -> Map {
        let ranges = ranges.iter().map(|(first, last, owner)| (*first, (*last, (*owner).into())));
        Map { nodes: BTreeMap::new(), ranges: ranges.collect() }
    }

    #[test]
    fn a_slot_has_the_owner_of_its_range() {
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
    fn a_slot_moves_alone() {
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
    fn gaps_are_found_at_both_ends() {
        assert_eq!(map(&[]).gap(), Some((0, Slot::COUNT - 1)));
        assert_eq!(map(&[(5, Slot::COUNT - 1, "a:1")]).gap(), Some((0, 4)));
        assert_eq!(map(&[(0, 9, "a:1")]).gap(), Some((10, Slot::COUNT - 1)));
    }

    #[test]
    fn addresses_without_a_host_are_completed() {
        assert_eq!(&*complete(":7001", "10.0.0.1:7000"), "10.0.0.1:7001");
        assert_eq!(&*complete("b:7001", "10.0.0.1:7000"), "b:7001");
        assert_eq!(split("::1:7000"), Some(("::1", 7_000)));
    }
}
