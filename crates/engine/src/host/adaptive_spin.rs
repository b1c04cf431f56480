//! [`AdaptiveSpin`]: how long a thread polls for news before it sleeps (spin, then park).

/// The polls before a sleep, where polling pays. A poll takes about a microsecond. A sleeper on an
/// idle CPU of a virtual machine wakes within some 50 us, so that polling at most doubles the cost.
const POLLS: u32 = 50;

/// While polling does not pay, one wait in this number tries it. The number doubles with each trial
/// after which polling does not pay for long.
const TRIAL_EVERY_MIN: u32 = 32;
const TRIAL_EVERY_MAX: u32 = 2048;

/// The polls of a trial. They outlast the waking of the thread that the news comes from. Otherwise
/// two threads that wait for each other would both find, for ever, that polling does not pay.
const TRIAL_POLLS: u32 = 4 * POLLS;

/// A share of waits, in parts of the whole. A wait moves it by an eighth of the difference.
const WHOLE: u32 = 1 << 16;

/// How long a thread polls for news before it sleeps, as its last waits tell. Polling pays while it
/// brings the news in at least half of the waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdaptiveSpin {
    /// The share of waits that end before the polls do.
    successes: u32,
    until_trial: u32,
    trial_every: u32,
}

impl AdaptiveSpin {
    /// One that knows nothing, and polls.
    pub(crate) const fn new() -> AdaptiveSpin {
        AdaptiveSpin {
            successes: WHOLE,
            until_trial: TRIAL_EVERY_MIN,
            trial_every: TRIAL_EVERY_MIN,
        }
    }

    /// The most polls of the wait that begins.
    pub(crate) fn begin(&mut self) -> u32 {
        if self.pays() {
            return POLLS;
        }
        self.until_trial -= 1;
        if self.until_trial > 0 {
            return 0;
        }
        self.trial_every = (2 * self.trial_every).min(TRIAL_EVERY_MAX);
        self.until_trial = self.trial_every;
        TRIAL_POLLS
    }

    /// Learns from a wait. News came after this number of polls, or did not come before the last of
    /// them. News that was there before the first poll tells nothing.
    pub(crate) fn ended(&mut self, polls: Option<u32>) {
        match polls {
            Some(0) => return,
            // A trial that succeeds makes polling pay.
            Some(_) => self.successes = self.successes.max(WHOLE / 2),
            None => {}
        }
        let this = if polls.is_some() { WHOLE } else { 0 };
        self.successes = self.successes - self.successes / 8 + this / 8;
        if self.successes > WHOLE / 4 * 3 {
            self.trial_every = TRIAL_EVERY_MIN;
            self.until_trial = TRIAL_EVERY_MIN;
        }
    }

    fn pays(&self) -> bool {
        self.successes >= WHOLE / 2
    }
}

/// Passes the time until the next poll, when `polls` were made before. After the first few, other
/// threads of this CPU may run in between: the news may come from one of them.
pub(crate) fn pause(polls: u32) {
    (0..20).for_each(|_| std::hint::spin_loop());
    if polls >= 4 {
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for news that comes after `news_after` polls. Returns the polls that were made.
    fn wait(spin: &mut AdaptiveSpin, news_after: u32) -> u32 {
        let most = spin.begin();
        spin.ended((news_after < most).then_some(news_after));
        news_after.min(most)
    }

    /// Waits `times` times. Returns the polls of all waits.
    fn wait_often(spin: &mut AdaptiveSpin, times: u32, news_after: u32) -> u32 {
        (0..times).map(|_| wait(spin, news_after)).sum()
    }

    #[test]
    fn news_that_comes_soon_is_waited_for() {
        let mut spin = AdaptiveSpin::new();
        assert!((0..1_000).all(|_| wait(&mut spin, 3) == 3));
    }

    #[test]
    fn news_that_comes_late_is_hardly_polled_for() {
        let mut spin = AdaptiveSpin::new();
        wait_often(&mut spin, 100, 200);
        let polls = wait_often(&mut spin, 100_000, 200);
        assert!(polls > 0, "it goes on trying");
        assert!(polls < 100_000 / 5, "{polls} polls");
    }

    #[test]
    fn late_news_among_more_that_comes_soon_does_not_end_the_polling() {
        let mut spin = AdaptiveSpin::new();
        for number in 0..10_000 {
            let news_after = if number % 4 == 0 { 200 } else { 2 };
            assert_eq!(wait(&mut spin, news_after), news_after.min(POLLS), "wait {number}");
        }
    }

    #[test]
    fn polling_begins_again_when_news_comes_soon_again() {
        let mut spin = AdaptiveSpin::new();
        wait_often(&mut spin, 1_000, 200);
        wait_often(&mut spin, TRIAL_EVERY_MAX, 3);
        assert_eq!(wait(&mut spin, 3), 3);
    }

    /// Each answers at once if it is awake, and takes 75 polls to wake up.
    #[test]
    fn two_threads_that_wait_for_each_other_come_to_poll() {
        let mut both = [AdaptiveSpin::new(); 2];
        for one in &mut both {
            wait_often(one, 1_000, 200);
        }
        let mut asleep = [true; 2];
        for turn in 0..100_000 {
            let (me, other) = (turn % 2, 1 - turn % 2);
            let news_after = if asleep[other] { 75 } else { 1 };
            asleep[me] = wait(&mut both[me], news_after) < news_after;
        }
        assert_eq!(asleep, [false; 2]);
    }
}
