//! [`Supervisor`]: watches the jobs of a server, and ends the server in bounded time.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ebbtide_engine::{Engine, LongJob};

use crate::options::ServeError;
use crate::shared::Shared;

/// Jobs that run this long are logged, and again each time that their duration has doubled.
const LONG: Duration = Duration::from_secs(5);

/// Time that running jobs have to end after the server is stopped. With the checkpoint that
/// follows, the server ends before systemd would kill it, after 90 s.
pub(crate) const JOBS_END_WITHIN: Duration = Duration::from_secs(30);

/// Time between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Longest wait for the log at the end.
const FLUSHED_WITHIN: Duration = Duration::from_secs(5);

/// Maximum number of jobs that an error names.
const NAMED_MAX: usize = 8;

/// Waits until all committed changes are durable, at most [`FLUSHED_WITHIN`]. Returns at once if
/// they cannot be.
pub(crate) fn flush(engine: &Engine) {
    let since = Instant::now();
    let behind = || {
        let progress = engine.progress();
        progress.is_some_and(|log| log.gives_up().is_none() && log.durable < log.committed)
    };
    while behind() && since.elapsed() < FLUSHED_WITHIN {
        engine.flush_soon();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Watches the jobs of a server while its cores run on other threads.
pub(crate) struct Supervisor<'a> {
    engine: &'a Engine,
    shared: &'a Shared,
    stops: &'a dyn Fn() -> bool,
    /// The least duration of a long job.
    long: Duration,
    /// Time that jobs have to end.
    patience: Duration,
    /// The logged jobs, with the duration at which each is logged again.
    told: BTreeMap<(usize, u64), Duration>,
}

impl<'a> Supervisor<'a> {
    /// Returns a supervisor of a server that must end soon after `stops` returns true.
    pub(crate) fn new(
        engine: &'a Engine,
        shared: &'a Shared,
        stops: &'a dyn Fn() -> bool,
    ) -> Supervisor<'a> {
        let (long, patience, told) = (LONG, JOBS_END_WITHIN, BTreeMap::new());
        Supervisor { engine, shared, stops, long, patience, told }
    }

    /// Waits until the cores, which hold the other end of `news`, have ended. Calls `ready` when
    /// they report that the keyspace is open.
    ///
    /// # Errors
    /// Returns an error if jobs do not end after the server was stopped.
    pub(crate) fn watch(
        &mut self,
        news: &Receiver<()>,
        ready: impl Fn(),
    ) -> Result<(), ServeError> {
        let mut stopping: Option<Instant> = None;
        loop {
            match news.recv_timeout(LOOK_EVERY.min(self.long)) {
                Ok(()) => ready(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tell_long_jobs();
            if (self.stops)()
                && stopping.get_or_insert_with(Instant::now).elapsed() >= self.patience
            {
                return Err(self.give_up());
            }
        }
    }

    /// Logs the long jobs, each with what it waits for.
    fn tell_long_jobs(&mut self) {
        let long = self.engine.long_jobs(self.long);
        let is_there = |key: &(usize, u64)| long.iter().any(|job| (job.core, job.number) == *key);
        self.told.retain(|key, _| is_there(key));
        for job in &long {
            let due = self.told.entry((job.core, job.number)).or_insert(self.long);
            if job.lasts >= *due {
                *due = job.lasts * 2;
                self.shared.journal.tell("long-job", self.named(job));
            }
        }
    }

    /// Describes a job, with the command if it runs a client's.
    fn named(&self, job: &LongJob) -> String {
        let clients = self.shared.cores.get(job.core).map(|core| core.clients.lock());
        let client = clients.as_ref().and_then(|clients| clients.get(&job.label));
        client.map_or_else(
            || job.to_string(),
            |client| {
                let (command, address) = (client.command, &client.addresses[0]);
                format!("{job}: '{command}' of connection {} ({address})", job.label)
            },
        )
    }

    /// Returns the error for jobs that do not end, after flushing the log. Their cores run on
    /// until the process ends.
    fn give_up(&self) -> ServeError {
        flush(self.engine);
        let long = self.engine.long_jobs(Duration::ZERO);
        let mut jobs: Vec<_> = long.iter().take(NAMED_MAX).map(|job| self.named(job)).collect();
        if long.len() > NAMED_MAX {
            jobs.push(format!("{} more", long.len() - NAMED_MAX));
        }
        ServeError::Stuck { within: self.patience, jobs: jobs.join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use ebbtide_core::{Memory, PageId};
    use ebbtide_engine::Options;
    use ebbtide_engine::device::ram::{Latency, Ram};

    use super::*;
    use crate::acl::Acl;
    use crate::command::catalogue;
    use crate::log::Journal;
    use crate::shared::{ClientInfo, Settings};
    use crate::storage::Storage;

    fn shared(engine: &Arc<Engine>, tell: impl Fn(String) + Send + Sync + 'static) -> Shared {
        let settings = Settings { cores: 1, ..Settings::default() };
        let storage = Storage::new(engine.clone(), 1);
        let acl = Acl::new(catalogue(), None, b"");
        Shared::new(settings, acl, storage, Journal::new(move |event| tell(event.text)), 0)
    }

    /// Returns an engine with a job of connection 7 whose page never comes.
    fn stuck() -> (Arc<Engine>, ebbtide_engine::Jobs) {
        let ram = Ram::new(64, Latency::Looks(u32::MAX), |_, _| {});
        let engine = Engine::over_device(Arc::new(ram), 64, &Options::new(4 << 20));
        let engine = Arc::new(engine.expect("it fits"));
        let jobs = engine.start().expect("a core");
        let _ticket = jobs.submit(|memory| {
            memory.label_job(7);
            memory.load::<u64>(PageId(9).start())
        });
        while !engine.long_jobs(Duration::ZERO).iter().any(|job| job.to_string().contains("page 9"))
        {
            std::thread::yield_now();
        }
        (engine, jobs)
    }

    /// Duration of the job that waits for page 9.
    fn seconds(said: &str) -> f64 {
        assert!(said.contains("waits for page 9"), "{said}");
        let lasts = said.split("under way for ").nth(1).and_then(|rest| rest.split(',').next());
        let lasts = lasts.expect("it says so");
        let number = |text: &str| text.parse::<f64>().ok();
        let ms = lasts.strip_suffix("ms").and_then(number).map(|ms| ms / 1e3);
        ms.or_else(|| lasts.strip_suffix('s').and_then(number)).expect("a time")
    }

    #[test]
    fn a_server_that_is_told_to_stop_gives_up_on_jobs_that_never_end_and_names_them() {
        let (engine, jobs) = stuck();
        let shared = shared(&engine, drop);
        let client = ClientInfo { command: "mget", ..ClientInfo::default() };
        shared.cores[0].clients.lock().insert(7, client);
        let mut supervisor = Supervisor::new(&engine, &shared, &|| true);
        supervisor.patience = Duration::from_millis(50);
        let (_cores, news) = channel::<()>();
        let said = supervisor.watch(&news, || ()).expect_err("a job is under way").to_string();
        assert!(said.contains("waits for page 9") && said.contains("'mget'"), "{said}");
        std::mem::forget(jobs);
    }

    #[test]
    fn the_operator_is_told_of_a_long_job_and_again_when_it_has_lasted_twice_as_long() {
        let (engine, jobs) = stuck();
        let (tell, told) = channel();
        let shared = shared(&engine, move |text| drop(tell.send(text)));
        let (engine, shared) = (&engine, &shared);
        let (cores, news) = channel::<()>();
        std::thread::scope(|scope| {
            let watched = scope.spawn(move || {
                let mut supervisor = Supervisor::new(engine, shared, &|| false);
                supervisor.long = Duration::from_millis(20);
                supervisor.watch(&news, || ())
            });
            let [first, second] = [(); 2].map(|()| seconds(&told.recv().expect("it is told")));
            assert!(first >= 0.02 && second >= 1.9 * first, "{first} s, then {second} s");
            drop(cores);
            assert!(watched.join().expect("no panic").is_ok());
        });
        std::mem::forget(jobs);
    }

    #[test]
    fn a_server_whose_cores_end_in_time_ends_well() {
        let ram = Ram::new(64, Latency::Looks(0), |_, _| {});
        let engine = Engine::over_device(Arc::new(ram), 64, &Options::new(4 << 20));
        let engine = Arc::new(engine.expect("it fits"));
        let shared = shared(&engine, drop);
        let (cores, news) = channel();
        cores.send(()).expect("room");
        drop(cores);
        let ready = std::cell::Cell::new(0);
        let mut supervisor = Supervisor::new(&engine, &shared, &|| true);
        assert!(supervisor.watch(&news, || ready.set(ready.get() + 1)).is_ok());
        assert_eq!(ready.get(), 1);
    }
}
