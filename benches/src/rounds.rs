//! Measures several subjects in turns, A B C A B C …, so that drift over time affects all of them.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::bench::Bench;
use crate::stats::median;

/// Number of failures after which a subject is no longer measured.
const MAX_FAILURES: usize = 2;

/// One column of a scenario's table.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Whether the metric is also shown as a multiple of the baselines.
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

/// The values of one subject in one round, one per metric.
pub(crate) type Sample = Vec<f64>;

/// The samples of one subject in all rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Samples by round, without the failed rounds.
    pub(crate) samples: BTreeMap<usize, Sample>,
}

/// The results of one scenario.
#[derive(Debug)]
pub(crate) struct Section {
    /// The name of the section's files.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What is measured, and how.
    pub(crate) description: String,
    pub(crate) metrics: &'static [Metric],
    /// Names of the rows with which the others are compared.
    pub(crate) baselines: &'static [&'static str],
    pub(crate) rows: Vec<Row>,
    /// Contenders that are not measured, and why.
    pub(crate) excluded: Vec<(&'static str, String)>,
    /// Failed subjects, with the round and the error.
    pub(crate) failures: Vec<(&'static str, usize, String)>,
    /// Subjects with overlapping bodies, and how many.
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
        description: impl Into<String>,
        metrics: &'static [Metric],
        baselines: &'static [&'static str],
    ) -> Self {
        let (title, description) = (title.into(), description.into());
        let (rows, excluded, failures, overlaps, pings) = Default::default();
        Self {
            id,
            title,
            description,
            metrics,
            baselines,
            rows,
            excluded,
            failures,
            overlaps,
            pings,
        }
    }

    /// Measures all subjects once per round, except those that have failed [`MAX_FAILURES`] times.
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

    /// Returns the median ratio of `row` to `baseline` over the rounds in which both were measured.
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
