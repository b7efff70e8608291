//! One direction of one connection.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};
use tokio::try_join;

use super::Mode;

/// Marks a connection that has lost bytes and must be closed.
#[derive(Debug)]
pub(super) struct Broken;

/// Bytes in transit; an empty chunk is the end of the connection.
struct Chunk {
    arrived: Instant,
    bytes: Vec<u8>,
    lost: bool,
}

/// Moves bytes until the end is delivered; `loses` is called on arrival and may drop them.
///
/// A closed receiver is no error here: its end travels in the other direction, when the mode of
/// that direction allows.
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
            // Fails only while the connection is being closed.
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

/// Returns when `chunk` may be delivered or, if it is lost, when the connection must be cut.
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
