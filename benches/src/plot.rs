//! The plot of a section: its first metric, with a dot per round and a bar at the median.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::report::label;
use crate::rounds::Section;

/// Draws the plot, unless no value can be shown.
pub(crate) fn draw(path: &Path, section: &Section) -> Result<()> {
    let values = section.rows.iter().flat_map(|row| row.column(0));
    let shown: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let (Some(least), Some(most)) =
        (shown.iter().copied().reduce(f64::min), shown.iter().copied().reduce(f64::max))
    else {
        return Ok(());
    };
    let range = least / 1.5..most * 1.5;
    chart(path, section, range).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn chart(
    path: &Path,
    section: &Section,
    range: std::ops::Range<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let rows = section.rows.len();
    let height = 90 + 28 * u32::try_from(rows)?;
    let area = SVGBackend::new(path, (800, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(170)
        .build_cartesian_2d(range.clone().log_scale(), (0..rows).into_segmented())?;
    // The first row is on top.
    let position = |row: usize| rows - 1 - row;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(BLACK.mix(0.06))
        .x_desc(label(&section.metrics[0]))
        .x_label_formatter(&|value| format!("{value}"))
        .x_labels(8)
        .y_labels(rows)
        .y_label_formatter(&|segment| match segment {
            SegmentValue::CenterOf(at) if *at < rows => section.rows[position(*at)].name.to_owned(),
            _ => String::new(),
        })
        .draw()?;
    for (index, row) in section.rows.iter().enumerate() {
        let color =
            if row.name.starts_with("this") || row.name == "redis_lock" { RED } else { BLUE };
        let center = SegmentValue::CenterOf(position(index));
        let inside = |value: &f64| range.contains(value);
        let dots = row.column(0).into_iter().filter(inside);
        let dots =
            dots.map(|value| Circle::new((value, center.clone()), 3, color.mix(0.4).filled()));
        chart.draw_series(dots)?;
        let bar = Some(row.median(0)).filter(inside).map(|value| {
            EmptyElement::at((value, center.clone()))
                + Rectangle::new([(-1, -9), (2, 9)], color.filled())
        });
        chart.draw_series(bar)?;
    }
    area.present()?;
    Ok(())
}
