//! Response times of M/M/k queues: Poisson arrivals, exponential service, `k` servers, one queue
//! (AstriFlash §III-A, Fig. 3).

/// An M/M/k queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Queue {
    /// Servers, at least one.
    pub servers: u32,
    /// Jobs that a busy server completes in a unit of time.
    pub rate: f64,
}

impl Queue {
    /// Returns the jobs completed per unit of time when every server is busy.
    pub fn capacity(&self) -> f64 {
        f64::from(self.servers) * self.rate
    }

    /// Returns the probability that a job finds every server busy at `arrivals` jobs per unit of
    /// time (Erlang's formula C). It is valid only below the capacity.
    pub fn waits(&self, arrivals: f64) -> f64 {
        let offered = arrivals / self.rate;
        let servers = f64::from(self.servers);
        // Erlang's formula B, server by server. It neither overflows nor cancels.
        let add = |blocked: f64, server: u32| {
            let busy = offered * blocked;
            busy / (f64::from(server) + busy)
        };
        let blocked = (1..=self.servers).fold(1.0, add);
        servers * blocked / (servers - offered * (1.0 - blocked))
    }

    /// Returns the probability that a response, waiting and service, takes longer than `time`. It
    /// is 1 at the capacity and above.
    ///
    /// `(1 − C)·e^(−μt) + C·(μe^(−θt) − θe^(−μt))/(μ − θ)` with θ = kμ − λ. It is computed as
    /// `e^(−μt) + C·μ·(e^(−θt) − e^(−μt))/(μ − θ)`, so nothing cancels where θ is near μ.
    pub fn exceeds(&self, arrivals: f64, time: f64) -> f64 {
        if arrivals >= self.capacity() {
            return 1.0;
        }
        let spare = self.capacity() - arrivals;
        let (slow, apart) = (self.rate.min(spare), (self.rate - spare).abs());
        let growth = if apart * time > 0.0 { -(-apart * time).exp_m1() / apart } else { time };
        let served = (-self.rate * time).exp();
        served + self.waits(arrivals) * self.rate * (-slow * time).exp() * growth
    }

    /// Returns the response time that 99% of jobs stay below. Infinite at the capacity and above.
    pub fn p99(&self, arrivals: f64) -> f64 {
        if arrivals >= self.capacity() {
            return f64::INFINITY;
        }
        let mut longest = 1.0 / self.rate;
        while self.exceeds(arrivals, longest) > 0.01 {
            longest *= 2.0;
        }
        bisect(0.0, longest, |time| self.exceeds(arrivals, time) > 0.01)
    }

    /// The most arrivals in a unit of time with a p99 response within `limit`. 0 if even an idle
    /// queue is slower.
    pub(crate) fn throughput_within(&self, limit: f64) -> f64 {
        bisect(0.0, self.capacity(), |arrivals| self.p99(arrivals) <= limit)
    }
}

/// The point between `low` and `high` where `holds` turns from true to false, to the last bits of
/// `high`. `low` if it holds nowhere.
fn bisect(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = f64::midpoint(low, high);
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: [f64; 7] = [0.5, 0.8, 0.85, 0.9, 0.93, 0.95, 0.96];

    fn p99s(servers: u32, capacity: f64) -> [String; 7] {
        let queue = Queue { servers, rate: capacity / f64::from(servers) };
        LOADS.map(|load| format!("{:.1}", queue.p99(load)))
    }

    #[test]
    fn one_server_answers_as_tabled() {
        assert_eq!(p99s(1, 1.0), ["9.2", "23.0", "30.7", "46.1", "65.8", "92.1", "115.1"]);
    }

    #[test]
    fn six_servers_answer_as_tabled() {
        assert_eq!(p99s(6, 1.0), ["27.9", "33.7", "39.1", "52.1", "70.6", "96.3", "119.1"]);
        assert_eq!(p99s(6, 0.98), ["28.5", "35.7", "43.1", "62.9", "96.5", "157.4", "233.9"]);
    }

    #[test]
    fn one_server_is_the_textbook_exponential() {
        let queue = Queue { servers: 1, rate: 1.0 };
        for load in LOADS {
            let expected = 100_f64.ln() / (1.0 - load);
            assert!((queue.p99(load) / expected - 1.0).abs() < 1e-9);
            assert!((queue.waits(load) - load).abs() < 1e-12);
        }
    }

    /// Erlang's formula C in its textbook form, with factorials.
    fn waits_by_sums(servers: u32, offered: f64) -> f64 {
        let term = |n: u32| (1..=n).map(|i| offered / f64::from(i)).product::<f64>();
        let all = term(servers) * f64::from(servers) / (f64::from(servers) - offered);
        all / ((0..servers).map(term).sum::<f64>() + all)
    }

    #[test]
    fn the_recursion_is_the_sum() {
        for servers in [1, 2, 4, 6, 12, 40] {
            for load in LOADS {
                let queue = Queue { servers, rate: 2.0 };
                let expected = waits_by_sums(servers, load * f64::from(servers));
                let found = queue.waits(load * queue.capacity());
                assert!((found / expected - 1.0).abs() < 1e-9, "{servers} servers at {load}");
            }
        }
    }

    #[test]
    fn the_tail_is_smooth_where_the_two_rates_meet() {
        // θ = μ at λ = (k − 1)μ. There the printed form divides zero by zero.
        let queue = Queue { servers: 6, rate: 1.0 };
        let at = |arrivals: f64| queue.exceeds(arrivals, 3.0);
        let exact = (1.0 + queue.waits(5.0) * 3.0) * (-3.0_f64).exp();
        assert!((at(5.0) - exact).abs() < 1e-12);
        let around = f64::midpoint(at(5.0 - 1e-7), at(5.0 + 1e-7));
        assert!((around - exact).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_answered_in_time_at_capacity_or_with_too_tight_a_limit() {
        let queue = Queue { servers: 2, rate: 0.5 };
        assert_eq!(queue.p99(1.0), f64::INFINITY);
        assert_eq!(queue.throughput_within(1.0), 0.0);
        let within = queue.throughput_within(20.0);
        assert!((queue.p99(within) / 20.0 - 1.0).abs() < 1e-6);
    }
}
