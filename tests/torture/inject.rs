//! Injects faults and heals them.

use std::fs;
use std::time::Duration;

use harness::{Mode, Proxy, Server, run};
use redis::aio::MultiplexedConnection;
use tokio::time::{sleep, timeout};

use crate::faults::{Direction, NetworkFault, ProcessFault, ServerFault};
use crate::millis;
use crate::testbed::Process;

impl ProcessFault {
    pub(crate) async fn inject(self, process: &mut Process) {
        match self {
            Self::Stop(duration) => {
                process.child.pause();
                sleep(duration).await;
                process.child.resume();
            }
            Self::Kill => process.restart(),
        }
    }
}

/// Stops a process between a request and its reply, which then waits in the socket buffer.
pub(crate) async fn freeze(proxy: &Proxy, process: &Process, duration: Duration) {
    let sent = proxy.until_sent("EVAL");
    proxy.to_client(Mode::Hold);
    let _ = timeout(millis(1_000), sent).await;
    process.child.pause();
    proxy.to_client(Mode::Pass);
    sleep(duration).await;
    process.child.resume();
}

impl NetworkFault {
    pub(crate) async fn inject(self, proxy: &Proxy) {
        match self {
            Self::LoseReply(duration) => {
                let sent = proxy.until_sent("EVAL");
                proxy.lose_reply_to("EVAL");
                let _ = timeout(millis(1_000), sent).await;
                sleep(duration).await;
                proxy.to_client(Mode::Pass);
            }
            Self::Hold(direction, duration) => {
                direction.set(proxy, Mode::Hold);
                sleep(duration).await;
                proxy.both_ways(Mode::Pass);
            }
            Self::Lose(direction, duration) => {
                direction.set(proxy, Mode::Lose);
                sleep(duration).await;
                proxy.both_ways(Mode::Pass);
                proxy.cut();
            }
            Self::Delay(delay, duration) => {
                proxy.both_ways(Mode::Delay(delay));
                sleep(duration).await;
                proxy.both_ways(Mode::Pass);
            }
            Self::Cut => proxy.cut(),
        }
    }
}

impl Direction {
    fn set(self, proxy: &Proxy, mode: Mode) {
        match self {
            Self::ToServer => proxy.to_server(mode),
            Self::ToClient => proxy.to_client(mode),
            Self::Both => proxy.both_ways(mode),
        }
    }
}

impl ServerFault {
    pub(crate) async fn inject(self, server: &mut Server) {
        let mut redis = server.connection().await;
        match self {
            Self::Stop(duration) => {
                server.pause();
                sleep(duration).await;
                server.resume();
            }
            Self::Sleep(duration) => {
                run(&mut redis, &format!("DEBUG SLEEP {}", duration.as_secs_f64())).await;
            }
            Self::Hang(duration) => {
                let script = tokio::spawn(async move {
                    let mut script = redis::cmd("EVAL");
                    script.arg("while true do end").arg(0).exec_async(&mut redis).await
                });
                sleep(duration).await;
                let mut redis = server.connection().await;
                while !script.is_finished() {
                    // Fails before the script has begun and after it has ended.
                    let _ = redis::cmd("SCRIPT").arg("KILL").exec_async(&mut redis).await;
                    sleep(millis(10)).await;
                }
            }
            Self::PauseWrites(duration) => {
                run(&mut redis, &format!("CLIENT PAUSE {} WRITE", duration.as_millis())).await;
                sleep(duration).await;
            }
            Self::NoMemory(duration) => {
                run(&mut redis, "CONFIG SET maxmemory 1").await;
                sleep(duration).await;
                run(&mut redis, "CONFIG SET maxmemory 0").await;
            }
            Self::NoSnapshot(duration) => {
                fail_snapshot(server, &mut redis).await;
                run(&mut redis, "CONFIG SET stop-writes-on-bgsave-error yes").await;
                sleep(duration).await;
                run(&mut redis, "CONFIG SET stop-writes-on-bgsave-error no").await;
                set_save_points(&mut redis, "").await;
            }
            Self::NoReplica(duration) => {
                run(&mut redis, "CONFIG SET min-replicas-to-write 1").await;
                sleep(duration).await;
                run(&mut redis, "CONFIG SET min-replicas-to-write 0").await;
            }
            Self::Disconnect(of_type) => {
                run(&mut redis, &format!("CLIENT KILL TYPE {of_type}")).await;
            }
            Self::ForgetScripts => run(&mut redis, "SCRIPT FLUSH").await,
            Self::Restart => server.restart().await,
            Self::Flush => run(&mut redis, "FLUSHALL").await,
        }
    }
}

/// Makes a snapshot fail, without yet refusing writes for it.
async fn fail_snapshot(server: &Server, redis: &mut MultiplexedConnection) {
    let obstacle = server.dir().join("dump.rdb");
    fs::create_dir(&obstacle).expect("failed to put a folder in the place of the snapshot");
    run(redis, "CONFIG SET stop-writes-on-bgsave-error no").await;
    set_save_points(redis, "3600 1").await;
    run(redis, "BGSAVE SCHEDULE").await;
    while !snapshot_has_failed(redis).await {
        sleep(millis(3)).await;
    }
    fs::remove_dir(obstacle).expect("failed to remove the empty folder");
}

/// Sets the save points. Without any, no snapshots are made and failed ones do not stop writes.
async fn set_save_points(redis: &mut MultiplexedConnection, points: &str) {
    let result = redis::cmd("CONFIG").arg(&["SET", "save", points]).exec_async(redis).await;
    result.expect("the server refused the setting");
}

async fn snapshot_has_failed(redis: &mut MultiplexedConnection) -> bool {
    let info: String =
        redis::cmd("INFO").query_async(redis).await.expect("the server did not reply to INFO");
    info.contains("rdb_bgsave_in_progress:0") && info.contains("rdb_last_bgsave_status:err")
}
