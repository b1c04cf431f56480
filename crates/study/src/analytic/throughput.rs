//! Throughput, relative to DRAM-only, of a core that loses time at every miss (AstriFlash §III-A).

/// Returns throughput relative to DRAM-only. The core executes `execution_us` between misses and
/// loses `lost_us` at each miss.
pub fn share(execution_us: f64, lost_us: f64) -> f64 {
    execution_us / (execution_us + lost_us)
}

/// Returns the mean of [`share`] over executions spread evenly from `shortest_us` to `longest_us`.
/// The two must differ.
pub fn mean_share(shortest_us: f64, longest_us: f64, lost_us: f64) -> f64 {
    let spread = longest_us - shortest_us;
    1.0 - lost_us / spread * ((longest_us + lost_us) / (shortest_us + lost_us)).ln()
}

/// Returns the time lost at each miss, in µs, for which [`mean_share`] is `wanted`. `wanted` is
/// above 0 and below 1.
pub fn loss_for(shortest_us: f64, longest_us: f64, wanted: f64) -> f64 {
    let (mut least, mut most) = (0.0, 2.0 * longest_us / wanted);
    while most - least > 1e-9 * most {
        let middle = f64::midpoint(least, most);
        if mean_share(shortest_us, longest_us, middle) > wanted {
            least = middle;
        } else {
            most = middle;
        }
    }
    f64::midpoint(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_every_five_to_twenty_five_microseconds_cost_as_tabled() {
        let share = |lost_us| format!("{:.3}", mean_share(5.0, 25.0, lost_us));
        assert_eq!([share(10.0), share(50.0)], ["0.576", "0.225"]);
        let loss = |wanted| format!("{:.2}", loss_for(5.0, 25.0, wanted));
        assert_eq!([loss(0.95), loss(0.96)], ["0.66", "0.52"]);
    }

    #[test]
    fn the_claimed_share_of_flash_sync_needs_rarer_misses() {
        assert_eq!(format!("{:.2}", share(18.5, 50.0)), "0.27");
    }

    #[test]
    fn the_mean_is_the_mean() {
        let steps = 20_000;
        let sum: f64 = (0..steps)
            .map(|step| 5.0 + 20.0 * (f64::from(step) + 0.5) / f64::from(steps))
            .map(|execution_us| share(execution_us, 10.0))
            .sum();
        assert!((sum / f64::from(steps) - mean_share(5.0, 25.0, 10.0)).abs() < 1e-9);
    }
}
