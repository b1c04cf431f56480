//! [`run`]: the load itself, on one thread that waits for all connections at once.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ebbtide_core::Watch;
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Zipf};
use rand_pcg::Pcg64Mcg;
use rustix::event::epoll;
use rustix::time::Timespec;

use super::connection::{Connection, PIECE_BYTES, Tally};
use super::kind::Commands;
use super::ledger::Ledger;
use super::options::{LoadError, LoadOptions};
use super::report::{LoadReport, ResponseTimes, histogram};

/// Commands sent together while all keys are written or checked.
const BULK_PIPELINE: usize = 32;

/// The longest wait for sockets before the watch is asked.
const WAIT_MAX: Duration = Duration::from_millis(50);

/// Runs a load. Error replies and wrong replies are counted in the report.
///
/// # Errors
/// [`LoadError`] if an option is invalid, the server cannot be reached, a connection breaks, or
/// `watch` requests a stop.
pub fn run(options: &LoadOptions, watch: Watch<'_>) -> Result<LoadReport, LoadError> {
    let mut load = Load::open(options)?;
    let start = Instant::now();
    if options.fill {
        load.fill(watch)?;
    }
    let fill_seconds = options.fill.then(|| start.elapsed().as_secs_f64());
    let mut probe = None;
    let measured = match &options.probe {
        Some(file) => super::probe::beside(file, || load.measure(watch)).map(|(found, report)| {
            probe = Some(report);
            found
        }),
        None => load.measure(watch),
    };
    let (histogram, seconds) = match measured {
        Err(LoadError::Broken { .. }) if options.survive.is_some() => load.survive(watch)?,
        other => other?,
    };
    if options.check_all && load.restarts == 0 {
        load.check_all(watch)?;
    }
    let Load { tally, keys_checked, restarts, .. } = load;
    Ok(LoadReport {
        options: options.clone(),
        fill_seconds,
        seconds,
        commands: histogram.len(),
        throughput: if seconds > 0.0 { histogram.len() as f64 / seconds } else { 0.0 },
        response: ResponseTimes::of(&histogram),
        probe,
        reads_checked: tally.reads,
        writes_acknowledged: tally.writes,
        errors: tally.errors,
        first_error: tally.first_error,
        wrong: tally.wrong,
        first_wrong: tally.first_wrong,
        restarts,
        keys_checked,
    })
}

/// The connections, and the means to wait for them.
struct Connections {
    list: Vec<Connection>,
    epoll: OwnedFd,
    /// By connection: whether the load waits for it to accept more.
    sending: Vec<bool>,
}

impl Connections {
    fn open(options: &LoadOptions) -> Result<Connections, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| LoadError::Wait(error.into()))?;
        let trust = options.trust.as_deref().map(super::trust).transpose()?;
        let commands = Commands { kind: options.kind, per_collection: options.per_collection() };
        let mut list = Vec::with_capacity(options.clients);
        for number in 0..options.clients {
            let password = options.password.as_deref();
            let connection = Connection::open(&options.server, password, trust.as_ref(), commands)?;
            let data = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, &connection, data, epoll::EventFlags::IN)
                .map_err(|error| LoadError::Wait(error.into()))?;
            list.push(connection);
        }
        Ok(Connections { sending: vec![false; list.len()], list, epoll })
    }

    /// Waits until connections have something to receive or room to send.
    fn wait(&self, at_most: Duration) -> Result<Vec<usize>, LoadError> {
        let timeout =
            Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let mut events = Vec::with_capacity(256);
        let room = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LoadError::Wait(error.into())),
        }
        Ok(events.iter().map(|event| event.data.u64() as usize).collect())
    }

    /// Sends the queued bytes of a connection. Waits for room if the socket is full.
    fn flush(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.list[number];
        connection.flush()?;
        let wants = connection.wants_to_send();
        if wants != self.sending[number] {
            self.sending[number] = wants;
            let more = if wants { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
            let data = epoll::EventData::new_u64(number as u64);
            epoll::modify(&self.epoll, &*connection, data, epoll::EventFlags::IN | more)?;
        }
        Ok(())
    }
}

/// A load under way.
pub(super) struct Load {
    /// The options of the load. The mix may change between measurements.
    pub(super) options: LoadOptions,
    ledger: Ledger,
    pub(super) tally: Tally,
    connections: Connections,
    /// Buffer for one receive.
    piece: Vec<u8>,
    keys_checked: u64,
    restarts: u64,
}

impl Load {
    /// Opens the connections.
    pub(super) fn open(options: &LoadOptions) -> Result<Load, LoadError> {
        options.check()?;
        let deletes = (options.deletes * 1000.0).round() as u64;
        Ok(Load {
            options: options.clone(),
            ledger: Ledger::new(options.keys, options.value_bytes, deletes, !options.fill),
            tally: Tally::default(),
            connections: Connections::open(options)?,
            piece: vec![0; PIECE_BYTES],
            keys_checked: 0,
            restarts: 0,
        })
    }

    /// Opens the connections anew.
    pub(super) fn reconnect(&mut self) -> Result<(), LoadError> {
        self.connections = Connections::open(&self.options)?;
        Ok(())
    }

    /// Writes every key.
    pub(super) fn fill(&mut self, watch: Watch<'_>) -> Result<(), LoadError> {
        self.each_key("writing all keys", watch, |connection, ledger, key| {
            connection.write(ledger, key, Instant::now());
        })
    }

    fn broken(&self, error: &io::Error) -> LoadError {
        LoadError::Broken { server: self.options.server.clone(), reason: error.to_string() }
    }

    /// Sends one command for every key, and waits for all replies.
    fn each_key(
        &mut self,
        stage: &str,
        watch: Watch<'_>,
        send: impl Fn(&mut Connection, &Ledger, usize),
    ) -> Result<(), LoadError> {
        let clients = self.connections.list.len();
        let keys = self.ledger.keys();
        // A connection has the keys whose number it has by the number of connections.
        let mut next: Vec<usize> = (0..clients).collect();
        let mut answered = 0;
        let mut due: Vec<usize> = (0..clients).collect();
        while answered < keys {
            watch.tell(stage, answered as f64 / keys as f64)?;
            for number in due {
                let connection = &mut self.connections.list[number];
                let (tally, piece) = (&mut self.tally, &mut self.piece);
                let received = connection.receive(&self.ledger, tally, piece, |_| answered += 1);
                received.map_err(|error| self.broken(&error))?;
                let connection = &mut self.connections.list[number];
                while connection.pending() < BULK_PIPELINE && next[number] < keys {
                    send(connection, &self.ledger, next[number]);
                    next[number] += clients;
                }
                self.connections.flush(number).map_err(|error| self.broken(&error))?;
            }
            due = self.connections.wait(WAIT_MAX)?;
        }
        Ok(())
    }

    /// Reads every key and checks it.
    fn check_all(&mut self, watch: Watch<'_>) -> Result<(), LoadError> {
        self.each_key("checking all keys", watch, |connection, ledger, key| {
            connection.read(ledger, key, Instant::now());
        })?;
        self.keys_checked += self.ledger.keys() as u64;
        Ok(())
    }

    /// Waits until a server that has gone away answers again, then checks every key.
    fn survive(&mut self, watch: Watch<'_>) -> Result<(Histogram<u64>, f64), LoadError> {
        let until = Instant::now() + self.options.survive.unwrap_or_default();
        self.restarts += 1;
        loop {
            watch.tell("waiting for the server", 0.0)?;
            let checked = Connections::open(&self.options).and_then(|connections| {
                self.connections = connections;
                self.check_all(watch)
            });
            match checked {
                Ok(()) => break,
                // What is left of a killed server may take a connection and break it.
                Err(LoadError::Connect { .. } | LoadError::Broken { .. })
                    if Instant::now() < until =>
                {
                    std::thread::sleep(WAIT_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((histogram(), 0.0))
    }

    /// Warms up, then measures. Returns response times in nanoseconds and the seconds measured.
    pub(super) fn measure(&mut self, watch: Watch<'_>) -> Result<(Histogram<u64>, f64), LoadError> {
        let mut source = Source::new(&self.options);
        let start = Instant::now();
        let from = start + self.options.warm_up;
        let until = from + self.options.duration;
        let mut histogram = histogram();
        let mut due: Vec<usize> = (0..self.connections.list.len()).collect();
        let mut last_told = start;
        loop {
            let mut now = Instant::now();
            if now >= until {
                break;
            }
            if now - last_told >= WAIT_MAX {
                last_told = now;
                let share = (now - start).as_secs_f64() / (until - start).as_secs_f64();
                watch.tell("sending", share)?;
            }
            for number in due {
                let connection = &mut self.connections.list[number];
                let (tally, piece) = (&mut self.tally, &mut self.piece);
                let received = connection.receive(&self.ledger, tally, piece, |intended| {
                    now = Instant::now();
                    if intended >= from && now < until {
                        histogram.saturating_record((now - intended).as_nanos() as u64);
                    }
                });
                received.map_err(|error| self.broken(&error))?;
                let connection = &mut self.connections.list[number];
                if self.options.rate.is_none() && connection.pending() == 0 {
                    for _ in 0..self.options.pipeline {
                        source.command(connection, &self.ledger, number, Instant::now());
                    }
                }
                self.connections.flush(number).map_err(|error| self.broken(&error))?;
            }
            let wait = self.send_arrived(&mut source)?;
            due = self.connections.wait(wait)?;
        }
        let seconds = self.options.duration.as_secs_f64();
        self.drain(watch)?;
        Ok((histogram, seconds))
    }

    /// Sends the commands that have arrived by now, in turn over the connections. Returns the time
    /// until the next arrival.
    fn send_arrived(&mut self, source: &mut Source) -> Result<Duration, LoadError> {
        let Some(gaps) = source.gaps else { return Ok(WAIT_MAX) };
        loop {
            let now = Instant::now();
            if source.next_arrival > now {
                return Ok((source.next_arrival - now).min(WAIT_MAX));
            }
            let number = source.turn % self.connections.list.len();
            source.turn += 1;
            let arrival = source.next_arrival;
            source.next_arrival += Duration::from_secs_f64(gaps.sample(&mut source.rng));
            let connection = &mut self.connections.list[number];
            source.command(connection, &self.ledger, number, arrival);
            self.connections.flush(number).map_err(|error| self.broken(&error))?;
        }
    }

    /// Waits for all replies.
    fn drain(&mut self, watch: Watch<'_>) -> Result<(), LoadError> {
        while self.connections.list.iter().any(|connection| connection.pending() > 0) {
            watch.tell("waiting for the last replies", 1.0)?;
            for number in self.connections.wait(WAIT_MAX)? {
                let connection = &mut self.connections.list[number];
                let (tally, piece) = (&mut self.tally, &mut self.piece);
                let received = connection.receive(&self.ledger, tally, piece, |_| ());
                received.map_err(|error| self.broken(&error))?;
                self.connections.flush(number).map_err(|error| self.broken(&error))?;
            }
        }
        Ok(())
    }
}

/// The order and the times of commands.
struct Source {
    rng: Pcg64Mcg,
    zipf: Zipf<f64>,
    writes: f64,
    keys: usize,
    clients: usize,
    gaps: Option<Exp<f64>>,
    next_arrival: Instant,
    turn: usize,
}

impl Source {
    fn new(options: &LoadOptions) -> Source {
        let zipf = Zipf::new(options.keys as f64, options.zipf).expect("both were checked");
        Source {
            rng: Pcg64Mcg::seed_from_u64(options.seed),
            zipf,
            writes: options.writes,
            keys: options.keys,
            clients: options.clients,
            gaps: options.rate.map(|rate| Exp::new(rate).expect("it was checked")),
            next_arrival: Instant::now(),
            turn: 0,
        }
    }

    /// Queues a command on a connection. It writes only keys that belong to the connection.
    fn command(
        &mut self,
        connection: &mut Connection,
        ledger: &Ledger,
        number: usize,
        intended: Instant,
    ) {
        // Rounding may reach one beyond the last rank.
        let key = (self.zipf.sample(&mut self.rng) as usize - 1).min(self.keys - 1);
        if self.rng.random_bool(self.writes) {
            let own = key - key % self.clients + number;
            let own = if own < self.keys { own } else { number };
            if own < self.keys {
                return connection.write(ledger, own, intended);
            }
        }
        connection.read(ledger, key, intended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random arrivals are some tens of microseconds apart. A wait of whole milliseconds would send
    /// them late.
    #[test]
    fn a_wait_for_the_next_arrival_is_not_rounded_up_to_a_millisecond() {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
        let connections = Connections { list: Vec::new(), epoll, sending: Vec::new() };
        let waits = (0..100).map(|_| {
            let began = Instant::now();
            connections.wait(Duration::from_micros(10)).expect("nothing comes");
            began.elapsed()
        });
        assert!(waits.min().expect("some") < Duration::from_micros(900));
    }
}
