//! One direction of one connection.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio::try_join;

use super::Mode;

/// The connection has lost bytes and must be closed.
#[derive(Debug)]
pub(super) struct Broken;

/// Bytes on their way; none at all are the end.
struct Chunk {
    arrived: Instant,
    bytes: Vec<u8>,
    lost: bool,
}

/// Moves bytes until their end is delivered; `loses` sees them come and may lose them.
///
/// A side that is gone takes no bytes, which is not an error: that it is gone is said in the other
/// direction, at the time that its mode allows.
pub(super) async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
    mut loses: impl FnMut(&[u8]) -> bool,
) -> Result<(), Broken> {
    let (queue, mut due) = unbounded_channel();
    let read = async move {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let length = from.read(&mut buffer).await.unwrap_or(0);
            let bytes = buffer[..length].to_vec();
            let lost = loses(&bytes);
            let arrived = Instant::now();
            // Fails only when the connection is being given up.
            let _ = queue.send(Chunk { arrived, bytes, lost });
            if length == 0 {
                return Ok(());
            }
        }
    };
    let write = async {
        while let Some(chunk) = due.recv().await {
            admit(&chunk, &mut mode).await?;
            let _ = to.write_all(&chunk.bytes).await;
        }
        let _ = to.shutdown().await;
        Ok(())
    };
    try_join!(read, write).map(|_| ())
}

/// Returns when `chunk` may be delivered or, if it is lost, when the connection is to be cut.
async fn admit(chunk: &Chunk, mode: &mut watch::Receiver<Mode>) -> Result<(), Broken> {
    loop {
        let now = *mode.borrow_and_update();
        if chunk.lost {
            changed(mode).await?;
            return Err(Broken);
        }
        match now {
            Mode::Pass => return Ok(()),
            Mode::Delay(delay) => {
                let due = chunk.arrived + delay;
                if timeout_at(due, mode.changed()).await.is_err() {
                    return Ok(());
                }
            }
            Mode::Hold => changed(mode).await?,
            Mode::Lose => {
                let _ = mode.wait_for(|&mode| mode != Mode::Lose).await;
                return Err(Broken);
            }
        }
    }
}

async fn changed(mode: &mut watch::Receiver<Mode>) -> Result<(), Broken> {
    mode.changed().await.map_err(|_| Broken)
}
