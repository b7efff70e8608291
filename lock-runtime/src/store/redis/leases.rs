//! The renewal and the release of leases on one server, for both protocols.

use std::future::Future;
use std::time::Duration;

use super::client::connection::Connection;
use super::client::error::{ClientError, Kind};
use super::client::replication::WriteReply;
use super::client::script::{Call, Script, millis};
use super::reply::owned;
use crate::store::{Owned, Renewal};

/// The code of the script that renews a lease.
#[allow(unreachable_pub, clippy::must_use_candidate, reason = "public for the model only")]
pub const RENEW: &str = concat!(include_str!("lua/holder.lua"), include_str!("lua/renew.lua"));
static SCRIPT: Script = Script::new(RENEW);

/// The result of one renewal on one server.
pub(super) type RenewReply = Result<Owned, ClientError>;

/// Renews leases with one request, and returns the result of each.
pub(super) async fn renew_all(
    connection: &Connection,
    leases: &[Renewal],
) -> Result<Vec<RenewReply>, ClientError> {
    let patience = leases.iter().map(|lease| lease.patience).min().unwrap_or(Duration::MAX);
    let keys: Vec<_> = leases.iter().map(|lease| [lease.key.as_str()]).collect();
    let ttls: Vec<_> = leases.iter().map(|lease| millis(lease.ttl)).collect();
    let args: Vec<_> =
        leases.iter().zip(&ttls).map(|(l, ttl)| [l.token.as_bytes(), ttl.as_bytes()]).collect();
    let calls: Vec<_> = keys.iter().zip(&args).map(|(keys, args)| Call { keys, args }).collect();
    let replies = SCRIPT.write_timed(connection, &calls, patience).await?;
    Ok(replies.into_iter().map(renewed).collect())
}

/// Renews one lease.
pub(super) async fn renew(connection: &Connection, lease: &Renewal) -> RenewReply {
    let ttl = millis(lease.ttl);
    let (keys, args) = ([lease.key.as_str()], [lease.token.as_bytes(), ttl.as_bytes()]);
    renewed(SCRIPT.write(connection, Call { keys: &keys, args: &args }).await)
}

/// The result of a renewal. A loss needs no acknowledgement.
fn renewed(written: WriteReply) -> RenewReply {
    let written = written?;
    let owned = owned(&written.reply)?;
    if owned == Owned::Yes {
        written.acknowledgement.check()?;
    }
    Ok(owned)
}

/// Releases a lock on `carrier`, the connection that carried its acquire, or else on another one.
/// On the same connection, the release is executed after the acquire, even if both are late. On
/// another one, it may overtake the acquire, but if the carrier does not reply, only this and the
/// lock's own expiry are left.
pub(super) async fn release_after<C, R>(
    carrier: Option<Connection>,
    connection: impl Fn() -> C,
    release: impl Fn(Connection) -> R,
) -> Result<Owned, ClientError>
where
    C: Future<Output = Result<Connection, ClientError>>,
    R: Future<Output = Result<Owned, ClientError>>,
{
    if let Some(carrier) = carrier.filter(Connection::is_usable)
        && let Ok(owned) = release(carrier).await
    {
        return Ok(owned);
    }
    match release(connection().await?).await {
        // The connection may have been dead for a long time. The result of the second try does not
        // say whether the first one has released the lock.
        Err(ClientError { kind: Kind::Disconnected, .. }) => {
            release(connection().await?).await.map(|_| Owned::Yes)
        }
        result => result,
    }
}
