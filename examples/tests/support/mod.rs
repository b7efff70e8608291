//! What the tests of the web examples share: running instances and bursts of requests.

use std::process::Command;
use std::time::Duration;

use harness::Child;
use reqwest::{Client, StatusCode};
use tokio::task::JoinSet;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Starts an instance and returns it with the URL that it prints.
pub(crate) async fn start(command: &Command) -> (Child, String) {
    let process = Child::spawn(command);
    let line = process.line_matching("listening on ", LIMIT).await;
    let url = line.rsplit(' ').next().unwrap().to_owned();
    (process, url)
}

/// Sends `count` requests at once, spread over the instances, and returns the status of each.
pub(crate) async fn post(urls: &[&str], path: &str, count: usize) -> Vec<StatusCode> {
    let client = Client::new();
    let mut requests = JoinSet::new();
    for url in urls.iter().cycle().take(count) {
        let request = client.post(format!("{url}{path}")).send();
        requests.spawn(async { request.await.unwrap().status() });
    }
    requests.join_all().await
}

pub(crate) fn served(statuses: &[StatusCode]) -> usize {
    statuses.iter().filter(|status| status.is_success()).count()
}
