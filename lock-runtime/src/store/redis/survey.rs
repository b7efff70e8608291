//! Asking several servers the same question.

use std::future::Future;

use tokio::task::JoinSet;

/// Asks all at once, and gives the answers and the errors as soon as there are `enough` answers or all
/// are done.
pub(super) async fn survey<T: Send + 'static, E: Send + 'static>(
    questions: impl Iterator<Item: Future<Output = Result<T, E>> + Send + 'static>,
    enough: usize,
) -> (Vec<T>, Vec<E>) {
    let mut asked: JoinSet<_> = questions.collect();
    let (mut answers, mut errors) = (Vec::new(), Vec::new());
    while answers.len() < enough
        && let Some(done) = asked.join_next().await
    {
        match done {
            Ok(Ok(answer)) => answers.push(answer),
            Ok(Err(error)) => errors.push(error),
            Err(_) => {} // the runtime ends
        }
    }
    (answers, errors)
}
