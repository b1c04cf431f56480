//! Throughput of one connection while others are idle.

use std::path::Path;
use std::time::{Duration, Instant};

use super::client::{Client, Reply, encode, ok};
use super::served::Served;
use super::{Failure, Plan, spread};

/// Numbers of idle connections.
const IDLE: [usize; 4] = [0, 300, 2_000, 10_000];

/// Requests that are sent at once, and their replies.
struct Work {
    name: &'static str,
    requests: Vec<u8>,
    count: usize,
    reply: Reply,
}

impl Work {
    /// `SET` and `GET` of `count` values of `length` bytes, in one pipeline.
    fn pair(names: [&'static str; 2], count: usize, length: usize) -> [Work; 2] {
        let key = |number: usize| format!("{length}:{number}").into_bytes();
        let value = vec![b'v'; length];
        let set = (0..count).flat_map(|number| encode(&[b"set", &key(number), &value])).collect();
        let get = (0..count).flat_map(|number| encode(&[b"get", &key(number)])).collect();
        let [set_name, get_name] = names;
        [
            Work { name: set_name, requests: set, count, reply: ok() },
            Work { name: get_name, requests: get, count, reply: Reply::Bulk(value) },
        ]
    }

    /// Repeats the work for this time. Returns the number of commands a second.
    fn repeat(&self, client: &mut Client, time: Duration) -> f64 {
        let mut sender = client.other_end();
        let (began, mut commands) = (Instant::now(), 0);
        while commands == 0 || began.elapsed() < time {
            std::thread::scope(|scope| {
                // A thread sends while replies are read. Otherwise both sides could block.
                let sent = || std::io::Write::write_all(&mut sender, &self.requests);
                let sent = scope.spawn(sent);
                for _ in 0..self.count {
                    assert!(client.reply().as_ref() == Some(&self.reply), "{}", self.name);
                }
                sent.join().expect("no panic").expect("sent");
            });
            commands += self.count;
        }
        commands as f64 / began.elapsed().as_secs_f64()
    }
}

/// Measures all work with each number of idle connections, in turns.
pub(crate) fn measure(folder: &Path, Plan { time, turns }: Plan) -> Result<(), Failure> {
    let served = Served::start(&folder.join("idle"), 512 << 20, 256 << 20);
    let works: Vec<Work> = [
        Work::pair(["SET 30 KB", "GET 30 KB"], 1, 30_000),
        Work::pair(["SET 1 MB", "GET 1 MB"], 1, 1_000_000),
        Work::pair(["1,000 SET 2 KB", "1,000 GET 2 KB"], 1_000, 2_000),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut client = Client::connect(served.address);
    works.iter().for_each(|work| _ = work.repeat(&mut client, Duration::ZERO));
    let mut rates = vec![vec![Vec::new(); IDLE.len()]; works.len()];
    for _ in 0..turns {
        let mut idle: Vec<Client> = Vec::new();
        for (at, count) in IDLE.into_iter().enumerate() {
            while idle.len() < count {
                let mut client = Client::connect(served.address);
                // The server has accepted it once it answers.
                assert_eq!(client.call("ping"), Reply::Status("PONG".into()));
                idle.push(client);
            }
            for (work, rates) in works.iter().zip(&mut rates) {
                rates[at].push(work.repeat(&mut client, time));
            }
        }
    }
    println!("| commands/s with idle connections | 0 | 300 | 2,000 | 10,000 |");
    println!("|---|---|---|---|---|");
    for (work, rates) in works.iter().zip(rates) {
        print!("| {} |", work.name);
        for at in 0..IDLE.len() {
            let pairs = rates[at].iter().zip(&rates[0]);
            let mut ratios: Vec<f64> = pairs.map(|(rate, alone)| rate / alone).collect();
            let (rate, ..) = spread(&mut rates[at].clone());
            let (ratio, least, most) = spread(&mut ratios);
            match at {
                0 => print!(" {rate:.0} |"),
                _ => print!(" {rate:.0}: {ratio:.2} ({least:.2} to {most:.2}) |"),
            }
        }
        println!();
    }
    Ok(())
}
