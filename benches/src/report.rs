//! The results as Markdown, CSV and plots.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::bench::Bench;
use crate::contenders::Contender;
use crate::machine;
use crate::plot;
use crate::rounds::{Metric, Row, Section};
use crate::stats::median;

/// The versions of all packages in this build.
const LOCK_FILE: &str = include_str!("../Cargo.lock");

/// Writes `README.md`, `rounds.csv` and one plot for each section.
pub(crate) async fn write(dir: &Path, bench: &Bench, sections: &[Section]) -> Result<()> {
    fs::create_dir_all(dir)?;
    for section in sections {
        plot::draw(&plot_path(dir, section), section)?;
    }
    fs::write(dir.join("rounds.csv"), csv(sections)?)?;
    Ok(fs::write(dir.join("README.md"), markdown(bench, sections).await?)?)
}

pub(crate) async fn markdown(bench: &Bench, sections: &[Section]) -> Result<String> {
    let mut text = format!("# Results\n\n{}\n", environment(bench).await?);
    for section in sections {
        write_section(&mut text, section)?;
    }
    Ok(text)
}

async fn environment(bench: &Bench) -> Result<String> {
    let machine = machine::description();
    let info = bench.info().await?;
    let redis = info.field("redis_version")?;
    let cores = match machine::cores() {
        1 => "There is only one core, so nothing is pinned.",
        _ => "Servers are pinned to core 0, all clients to core 1.",
    };
    let quick = bench.pick("", " **This was a quick run: the numbers mean little.**");
    let mut packages: Vec<_> =
        Contender::all().iter().map(|contender| contender.package()).collect();
    packages.dedup();
    let versions: Vec<_> =
        packages.into_iter().map(|name| format!("{name} {}", version(name))).collect();
    Ok(format!(
        "{machine}, Redis {redis}. {cores} A busy loop of the lowest priority keeps each core \
         awake. Medians of {} rounds, in which contenders take turns; ratios are medians of the \
         ratios in each round.{quick}\n\n\
         {}. `raw` is the lock by hand: `SET NX PX` and a script that compares and deletes, on \
         one connection of `redis`. `this` is `lock-runtime` without the attribute. All \
         contenders have the same ttl and wait without limit; everything else is at their \
         defaults.",
        bench.rounds,
        versions.join(", ")
    ))
}

fn version(package: &str) -> &str {
    let stanza = LOCK_FILE.split("[[package]]").filter_map(|stanza| {
        let mut lines = stanza.trim_start().lines();
        let name = lines.next()?.strip_prefix("name = ")?.trim_matches('"');
        let version = lines.next()?.strip_prefix("version = ")?.trim_matches('"');
        (name == package).then_some(version)
    });
    // Of several versions, the newest comes last.
    stanza.last().unwrap_or("(unknown version)")
}

fn write_section(text: &mut String, section: &Section) -> Result<()> {
    writeln!(text, "\n## {}\n\n{}", section.title, section.description)?;
    if !section.rows.is_empty() {
        writeln!(text, "\n![{}]({}.svg)\n", section.title, section.id)?;
        write_table(text, section)?;
    }
    if section.baselines.contains(&"raw") {
        writeln!(text, "\nA `PING` took {} µs.", number(median(&section.pings)))?;
    }
    for (name, reason) in &section.excluded {
        writeln!(text, "\n- {name} is left out: {reason}")?;
    }
    for (name, round, error) in &section.failures {
        writeln!(text, "\n- {name} failed in round {round}: {error}")?;
    }
    for (name, overlaps) in &section.overlaps {
        writeln!(text, "\n- **{name} ran {overlaps} bodies while another body ran.**")?;
    }
    Ok(())
}

fn write_table(text: &mut String, section: &Section) -> Result<()> {
    let (mut head, mut rule) = (String::from("| |"), String::from("| --- |"));
    for metric in section.metrics {
        write!(head, " {} |", label(metric))?;
        rule.push_str(" ---: |");
        for baseline in baselines(section, metric) {
            write!(head, " × {baseline} |")?;
            rule.push_str(" ---: |");
        }
    }
    writeln!(text, "{head}\n{rule}")?;
    for row in &section.rows {
        writeln!(text, "{}", line(section, row)?)?;
    }
    Ok(())
}

fn line(section: &Section, row: &Row) -> Result<String> {
    let mut line = format!("| {} |", row.name);
    for (index, metric) in section.metrics.iter().enumerate() {
        write!(line, " {} |", number(row.median(index)))?;
        for baseline in baselines(section, metric) {
            let ratio = section.ratio(row, baseline, index);
            write!(line, " {} |", ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")))?;
        }
    }
    Ok(line)
}

fn baselines<'a>(section: &'a Section, metric: &Metric) -> &'a [&'static str] {
    if metric.ratio { section.baselines } else { &[] }
}

/// Returns the name of a metric with its unit.
pub(crate) fn label(metric: &Metric) -> String {
    match metric.unit {
        "" => metric.name.to_owned(),
        unit => format!("{} ({unit})", metric.name),
    }
}

/// Formats a value with three significant digits.
fn number(value: f64) -> String {
    match value {
        _ if value.is_infinite() => "∞".to_owned(),
        _ if value.abs() >= 100.0 || value == 0.0 => format!("{value:.0}"),
        _ if value.abs() >= 10.0 => format!("{value:.1}"),
        _ if value.abs() >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn csv(sections: &[Section]) -> Result<String> {
    let mut text = String::from("scenario,subject,metric,unit,round,value\n");
    for section in sections {
        for row in &section.rows {
            for (index, Metric { name, unit, .. }) in section.metrics.iter().enumerate() {
                for (round, sample) in &row.samples {
                    let (id, subject, value) = (section.id, row.name, sample[index]);
                    writeln!(text, "{id},{subject:?},{name},{unit},{round},{value}")?;
                }
            }
        }
    }
    Ok(text)
}

fn plot_path(dir: &Path, section: &Section) -> std::path::PathBuf {
    dir.join(section.id).with_extension("svg")
}
