//! AstriFlash's Fig. 1: the knee of the miss-ratio curve, and the flash bandwidth there (§II-A).

use ebbtide_core::Watch;
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::{Input, Knee, SizeError, SizeOptions, demand, knee};

/// Programs that replace the figure's CloudSuite services, which are not available. The first
/// stands for Data Caching: small pairs, mostly read. The second stands for Data Serving: a store
/// of records.
///
/// The other two are programs of AstriFlash. Media Streaming and Web Search have no replacement.
pub const PROGRAMS: [Kind; 4] = [Kind::YcsbB64, Kind::YcsbB, Kind::HashTable, Kind::Tatp];

/// The share of the data in DRAM for the paper's figures (§II-A).
pub const DRAM_SHARE: f64 = 0.03;

/// A curve of the figure.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The program.
    pub workload: &'static str,
    /// `(share of the data in DRAM, miss ratio)` under LRU.
    pub points: Vec<(f64, f64)>,
    /// The knee, and the flash bandwidth of all cores there (§II-A).
    pub knee: Knee,
    /// Share of accesses that hit with [`DRAM_SHARE`] of the data in DRAM (talk, slide 7).
    pub absorbed: f64,
}

/// Measures the curves of `kinds` over `dataset_bytes` each (§II-A). Keys have a Zipf skew of 0.99.
/// With 3% of the data in DRAM, a miss occurs every 10 us of execution. 64 cores share the flash.
///
/// # Errors
/// [`SizeError`] when a program cannot have `dataset_bytes`, or when `watch` requests a stop.
pub fn figure1(
    kinds: &[Kind],
    dataset_bytes: u64,
    seed: u64,
    watch: Watch<'_>,
) -> Result<Vec<Row>, SizeError> {
    let row = |(number, kind): (usize, &Kind)| {
        let input = Input::Workload {
            name: *kind,
            dataset_bytes,
            theta: 0.99,
            miss_interval_us: 10.0,
            seed,
        };
        let count = kinds.len() as f64;
        let part = |stage: &str, share: f64| watch.show(stage, (number as f64 + share) / count);
        let demand = demand::measure(&input, &[], watch.telling(&part), &mut Vec::new())?;
        let options = SizeOptions { cores: 64, ..SizeOptions::new(input) };
        let usual = (demand.dataset_pages as f64 * DRAM_SHARE) as u64;
        Ok(Row {
            workload: kind.name(),
            points: demand.curves[0].points.iter().map(|point| (point.0, point.1)).collect(),
            knee: knee(&options, &demand),
            absorbed: 1.0 - demand.lru().miss_ratio(usual),
        })
    };
    kinds.iter().enumerate().map(row).collect()
}

/// Returns the share of the data at the knee of the mean curve of `rows`, which the figure draws.
/// `None` without rows.
///
/// The knee is the point farthest below the line that joins the curve's ends. Curves are straight
/// between points.
pub fn mean_knee(rows: &[Row]) -> Option<f64> {
    let ratio =
        |share: f64| rows.iter().map(|row| at(&row.points, share)).sum::<f64>() / rows.len() as f64;
    let least = ratio(1.0);
    let below = |share: f64| 1.0 - share - (ratio(share) - least) / (1.0 - least);
    let shares = rows.iter().flat_map(|row| row.points.iter().map(|point| point.0));
    shares.max_by(|a, b| below(*a).total_cmp(&below(*b)))
}

/// The value at `x` of the line through `points`. Before the first point every access misses.
fn at(points: &[(f64, f64)], x: f64) -> f64 {
    let after = points.partition_point(|point| point.0 < x);
    let (x0, y0) = after.checked_sub(1).map_or((0.0, 1.0), |before| points[before]);
    match points.get(after) {
        Some((x1, y1)) if *x1 > x0 => y0 + (x - x0) / (x1 - x0) * (y1 - y0),
        _ => y0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_of_a_mean_is_where_the_curves_have_fallen_most() {
        let row = |points: &[(f64, f64)]| Row {
            workload: "made up",
            points: points.to_vec(),
            knee: Knee {
                dram_bytes: 0,
                dram_share: 0.0,
                miss_ratio: 0.0,
                miss_interval_us: 0.0,
                flash_bytes_per_s: 0.0,
            },
            absorbed: 0.0,
        };
        let steep = row(&[(0.02, 0.1), (1.0, 0.0)]);
        let slow = row(&[(0.08, 0.2), (1.0, 0.0)]);
        assert_eq!(mean_knee(std::slice::from_ref(&steep)), Some(0.02));
        assert_eq!(mean_knee(std::slice::from_ref(&slow)), Some(0.08));
        // At 2% the second curve has lost a quarter of its 0.8. At 8% the first curve is almost at
        // its end.
        assert_eq!(mean_knee(&[steep, slow]), Some(0.08));
        assert_eq!(mean_knee(&[]), None);
    }

    #[test]
    fn curves_fall_and_bend_far_below_half_of_the_data() {
        let rows = figure1(&[Kind::HashTable], 16 << 20, 1, Watch::unattended());
        let rows = rows.expect("a program of this size");
        let points = &rows[0].points;
        assert!(points.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{points:?}");
        let knee = &rows[0].knee;
        assert!((0.005..0.2).contains(&knee.dram_share), "{knee:?}");
        assert!(rows[0].absorbed > 0.5 && rows[0].absorbed < 1.0, "{}", rows[0].absorbed);
    }
}
