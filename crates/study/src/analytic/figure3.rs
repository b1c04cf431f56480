//! AstriFlash's Fig. 3 as series of points: p99 response over load, and throughput over the
//! service-level objective.

use super::systems::System;

/// A curve of the figure.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The system's name in the paper.
    pub name: &'static str,
    /// The points `(x, y)`, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The longest p99 response in the figure, in mean services of DRAM-only.
pub(crate) const P99_MAX: f64 = 200.0;

/// Points along each curve.
const POINTS: u32 = 100;

/// Returns the p99 response of one core over load. The load is relative to DRAM-only's capacity.
/// The response is in mean service times of DRAM-only. Each curve ends at a response of 200.
pub fn p99_over_load(systems: &[System]) -> Vec<Series> {
    let points = |system: System| {
        let queue = system.queue(1);
        let last = queue.throughput_within(P99_MAX);
        let loads = (0..=POINTS).map(|step| last * f64::from(step) / f64::from(POINTS));
        loads.map(|load| (load, queue.p99(load))).collect()
    };
    systems.iter().map(|&s| Series { name: s.name(), points: points(s) }).collect()
}

/// Returns the throughput of `cores` cores whose p99 response is within each of `limits`. The
/// throughput is relative to DRAM-only's capacity. The limits are in mean service times of
/// DRAM-only.
pub fn throughput_over_limit(systems: &[System], cores: u32, limits: &[f64]) -> Vec<Series> {
    let points = |system: System| {
        let queue = system.queue(cores);
        let share = |&limit: &f64| (limit, queue.throughput_within(limit) / f64::from(cores));
        limits.iter().map(share).collect()
    };
    systems.iter().map(|&s| Series { name: s.name(), points: points(s) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rises(points: &[(f64, f64)]) -> bool {
        points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    }

    #[test]
    fn responses_rise_to_the_edge_of_the_figure() {
        let curves = p99_over_load(&System::ALL);
        for curve in &curves {
            assert!(rises(&curve.points), "{}", curve.name);
            let last = curve.points.last().expect("a hundred points").1;
            assert!((last / P99_MAX - 1.0).abs() < 1e-6, "{} ends at {last}", curve.name);
        }
        let idle: Vec<String> =
            curves.iter().map(|curve| format!("{:.1}", curve.points[0].1)).collect();
        assert_eq!(idle, ["4.6", "27.6", "36.8", "27.6"]);
    }

    #[test]
    fn a_looser_objective_admits_more_and_never_reorders_the_systems() {
        let limits: Vec<f64> = (1..=20).map(|tens| 10.0 * f64::from(tens)).collect();
        let curves = throughput_over_limit(&System::ALL, 1, &limits);
        assert!(curves.iter().all(|curve| rises(&curve.points)));
        for (index, limit) in limits.iter().enumerate().skip(3) {
            let at: Vec<f64> = curves.iter().map(|curve| curve.points[index].1).collect();
            assert!(at.is_sorted_by(|a, b| a > b), "{limit}: {at:?}");
        }
        let forty: Vec<String> =
            curves.iter().map(|curve| format!("{:.3}", curve.points[3].1)).collect();
        assert_eq!(forty, ["0.885", "0.856", "0.303", "0.052"]);
    }
}
