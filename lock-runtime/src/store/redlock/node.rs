//! One of the servers that vote: what it is asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use redis::ConnectionInfo;
use tokio::sync::OnceCell;

use super::attempts::Attempt;
use super::electorate::Electorate;
use super::identity::{Identity, Last};
use crate::Fence;
use crate::store::redis::answer::{Answer, owned};
use crate::store::redis::check::{self, Kind};
use crate::store::redis::connection::Connections;
use crate::store::redis::line::{Line, LineState};
use crate::store::redis::script::Script;
use crate::store::redis::server::{Common, Place};
use crate::store::redis::{address, millis, release_behind, renew_each};
use crate::store::{Owned, Release, Renewal, StoreError};

static TAKE: Script = Script::new(concat!(
    include_str!("../redis/lua/look.lua"),
    include_str!("../redis/lua/grant.lua"),
    include_str!("lua/take.lua"),
));
static CONFIRM: Script =
    Script::new(concat!(include_str!("../redis/lua/look.lua"), include_str!("lua/confirm.lua")));
static GIVE_BACK: Script =
    Script::new(concat!(include_str!("../redis/lua/look.lua"), include_str!("lua/give_back.lua")));

/// A server of its own, which knows nothing of the others.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: Arc<str>,
    connections: Connections,
    /// Who answers on the lines that are open; a list, because there are few.
    identities: Mutex<Vec<Known>>,
    /// Who has answered last.
    last: Mutex<Option<Last>>,
}

/// Who answers on a line, once it has told.
#[derive(Debug)]
struct Known {
    line: Weak<LineState>,
    identity: Arc<OnceCell<Identity>>,
}

/// A vote to give back.
#[derive(Debug)]
pub(super) struct Return {
    pub(super) release: Release,
    /// Where to tell those who wait; empty: nowhere.
    pub(super) channel: String,
}

impl Node {
    pub(super) fn new(info: ConnectionInfo, common: &Arc<Common>) -> Self {
        let name = address::name(&info).into();
        let connections = Connections::new(Place::Fixed(info.into()), Arc::clone(common));
        Self { name, connections, identities: Mutex::default(), last: Mutex::default() }
    }

    pub(super) async fn line(&self) -> Result<Line, StoreError> {
        self.connections.line().await
    }

    /// The line, if what is published for those who wait arrives there.
    pub(super) async fn hearing_line(&self) -> Option<Line> {
        let line = self.line().await.ok()?;
        let hears = line.inbox().await.is_ok_and(|inbox| !inbox.is_empty());
        hears.then_some(line)
    }

    /// Makes sure that the server can keep locks, and tells which one it is.
    pub(super) async fn check(self: Arc<Self>) -> Result<Identity, StoreError> {
        let line = self.line().await?;
        check::server(&line, &self.name, Kind::Alone).await?;
        self.identity(&line).await
    }

    /// The server at the other end of a line.
    async fn identity(&self, line: &Line) -> Result<Identity, StoreError> {
        let cell = {
            let mut known = lock(&self.identities);
            known.retain(|known| known.line.strong_count() > 0);
            let state = Arc::downgrade(&line.state);
            let index = known.iter().position(|known| known.line.ptr_eq(&state));
            let index = index.unwrap_or_else(|| {
                known.push(Known { line: state, identity: Arc::default() });
                known.len() - 1
            });
            Arc::clone(&known[index].identity)
        };
        let ask = async || {
            let mut identity = Identity::ask(line).await?;
            identity.follow(&mut lock(&self.last));
            Ok::<_, StoreError>(identity)
        };
        let identity = cell.get_or_try_init(ask).await?.clone();
        if let Some(last) = &mut *lock(&self.last) {
            last.hear(&identity);
        }
        Ok(identity)
    }

    /// Asks for the lock. An answer that comes when it is wanted no more says nothing: whoever awaits it
    /// gives the vote back.
    pub(super) async fn take(
        self: Arc<Self>,
        index: usize,
        attempt: Arc<Attempt>,
    ) -> Result<(Answer, Line), StoreError> {
        let line = self.line().await?;
        let identity = self.identity(&line).await?;
        attempt.electorate.admit(&self.name, &identity)?;
        identity.check_age(attempt.ttl)?;
        if !attempt.ask(index, &line) {
            return Err(StoreError::NotExecuted("the lock is wanted no more".into()));
        }
        let (ttl, [seen, _]) = (millis(attempt.ttl), line.fence_terms());
        let args = [attempt.token.as_bytes(), ttl.as_bytes(), seen.as_bytes()];
        let answer = TAKE.call(&line, &attempt.names.without_queue(), &args).await;
        let answer = answer.and_then(|answer| Answer::read(&answer));
        if !answer.as_ref().is_err_and(StoreError::may_have_run) {
            attempt.answered(index);
        }
        if let Ok(Answer::Granted(number, _)) = &answer {
            line.note_fence(*number, None);
        }
        Ok((answer?, line))
    }

    /// Asks to confirm a vote, where it was given.
    pub(super) async fn confirm(
        line: Line,
        attempt: Arc<Attempt>,
        fence: Fence,
    ) -> Result<Owned, StoreError> {
        let number = fence.to_string();
        let args = [attempt.token.as_bytes(), number.as_bytes()];
        let owned = owned(&CONFIRM.call(&line, &attempt.names.without_queue(), &args).await?)?;
        if owned == Owned::Yes {
            line.note_fence(fence, None);
        }
        Ok(owned)
    }

    /// Renews leases, and answers for each one. What a server says that must not vote does not help.
    pub(super) async fn renew(
        self: Arc<Self>,
        leases: Arc<[Renewal]>,
        electorate: Arc<Electorate>,
    ) -> Result<Vec<Result<Owned, StoreError>>, StoreError> {
        let line = self.line().await?;
        let identity = self.identity(&line).await?;
        electorate.admit(&self.name, &identity)?;
        if leases.is_empty() {
            return Ok(Vec::new());
        }
        let answers = renew_each(&line, &leases).await?;
        let answer = |(answer, lease): (Result<Owned, StoreError>, &Renewal)| {
            let owned = answer?;
            if owned == Owned::Yes {
                identity.check_age(lease.ttl)?;
            }
            Ok(owned)
        };
        Ok(answers.into_iter().zip(&*leases).map(answer).collect())
    }

    /// Gives a vote back. Sent on the line `before`, where a question was sent whose answer is missing, it
    /// is executed behind that, even if both are late.
    pub(super) async fn give_back(
        self: Arc<Self>,
        back: Arc<Return>,
        before: Option<Line>,
    ) -> Result<Owned, StoreError> {
        release_behind(before, || self.line(), |line| back.send(line)).await
    }
}

impl Return {
    async fn send(&self, line: Line) -> Result<Owned, StoreError> {
        let Release { key, token, .. } = &self.release;
        let keep = self.release.keep().map_or_else(String::new, millis);
        let args = [token.as_bytes(), keep.as_bytes(), self.channel.as_bytes()];
        owned(&GIVE_BACK.call(&line, &[key.as_str()], &args).await?)
    }
}

/// A panic elsewhere leaves the value usable: each change to it is complete or not begun.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
