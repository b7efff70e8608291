//! Median, quantiles and conversions.

/// Converts a count to a float; all counts here are far below `u32::MAX`.
pub(crate) fn float(count: impl TryInto<u32>) -> f64 {
    count.try_into().map_or(f64::INFINITY, f64::from)
}

/// Returns the median, or NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 500)
}

/// Returns the value that `permille` of all values do not exceed, or NaN without values.
pub(crate) fn quantile(values: &[f64], permille: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get((last * permille + 500) / 1000).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_quantiles_that_occur_among_the_values() {
        let values: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert!((median(&values) - 50.0).abs() < f64::EPSILON);
        assert!((quantile(&values, 990) - 99.0).abs() < f64::EPSILON);
        assert!((quantile(&[7.0], 990) - 7.0).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }
}
