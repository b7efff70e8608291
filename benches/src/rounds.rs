//! Measuring several subjects in turns: A B C A B C …, so that what changes with time hits all.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::bench::Bench;
use crate::stats::median;

/// After so many failures somebody is left out.
const MAX_FAILURES: usize = 2;

/// One column of a scenario's table.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Whether it is also shown as a multiple of the baselines'.
    pub(crate) ratio: bool,
}

impl Metric {
    pub(crate) const fn plain(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, ratio: false }
    }

    pub(crate) const fn ratio(name: &'static str, unit: &'static str) -> Self {
        Self { name, unit, ratio: true }
    }
}

/// What one subject showed in one round: as many values as there are metrics.
pub(crate) type Sample = Vec<f64>;

/// What one subject showed in all rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// By round; one is missing where it failed.
    pub(crate) samples: BTreeMap<usize, Sample>,
}

/// The results of one scenario.
#[derive(Debug)]
pub(crate) struct Section {
    /// Name of its files.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What is measured and how.
    pub(crate) about: String,
    pub(crate) metrics: &'static [Metric],
    /// Names of the rows that others are compared with.
    pub(crate) baselines: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
    /// Who does not take part, and why.
    pub(crate) left_out: Vec<(&'static str, String)>,
    /// Who failed in which round, and how.
    pub(crate) failures: Vec<(&'static str, usize, String)>,
    /// How often two bodies ran at the same time.
    pub(crate) overlaps: Vec<(&'static str, u64)>,
    /// The median `PING` of each round, in microseconds.
    pub(crate) pings: Vec<f64>,
}

impl Row {
    pub(crate) fn column(&self, metric: usize) -> Vec<f64> {
        self.samples.values().map(|sample| sample[metric]).collect()
    }

    pub(crate) fn median(&self, metric: usize) -> f64 {
        median(&self.column(metric))
    }
}

impl Section {
    pub(crate) fn new(
        id: &'static str,
        title: impl Into<String>,
        about: impl Into<String>,
        metrics: &'static [Metric],
        baselines: &'static [&'static str],
    ) -> Self {
        let (title, about) = (title.into(), about.into());
        let (rows, left_out, failures, overlaps, pings) = Default::default();
        Self { id, title, about, metrics, baselines, rows, left_out, failures, overlaps, pings }
    }

    /// Measures all subjects once per round. One that has failed as often as [`MAX_FAILURES`] is
    /// not tried again.
    pub(crate) async fn measure<S: Copy>(
        mut self,
        bench: &Bench,
        subjects: &[(&'static str, S)],
        mut measure: impl AsyncFnMut(S, f64) -> Result<Sample>,
    ) -> Result<Self> {
        for round in 1..=bench.rounds {
            let ping = bench.ping().await?;
            self.pings.push(ping);
            for &(name, subject) in subjects {
                let failures = self.failures.iter().filter(|&&(failed, ..)| failed == name);
                if failures.count() >= MAX_FAILURES {
                    continue;
                }
                eprintln!("{}: round {round} of {}: {name}", self.id, bench.rounds);
                match measure(subject, ping).await {
                    Ok(sample) => self.add(name, round, sample),
                    Err(error) => self.failures.push((name, round, format!("{error:#}"))),
                }
                self.add_overlaps(name, bench.take_overlaps());
            }
        }
        Ok(self)
    }

    /// The median over all rounds in which both were measured, how many times as much `row` showed
    /// as `baseline`.
    pub(crate) fn ratio(&self, row: &Row, baseline: &str, metric: usize) -> Option<f64> {
        let baseline = self.rows.iter().find(|row| row.name == baseline)?;
        let ratio = |(round, sample): (&usize, &Sample)| {
            Some(sample[metric] / baseline.samples.get(round)?[metric])
        };
        Some(median(&row.samples.iter().filter_map(ratio).collect::<Vec<_>>()))
    }

    pub(crate) fn has_overlaps(&self) -> bool {
        !self.overlaps.is_empty()
    }

    fn add(&mut self, name: &'static str, round: usize, sample: Sample) {
        let index = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row { name, samples: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[index].samples.insert(round, sample);
    }

    fn add_overlaps(&mut self, name: &'static str, overlaps: u64) {
        match self.overlaps.iter_mut().find(|(seen, _)| *seen == name) {
            _ if overlaps == 0 => {}
            Some((_, total)) => *total += overlaps,
            None => self.overlaps.push((name, overlaps)),
        }
    }
}
