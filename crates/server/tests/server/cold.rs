//! Flash reads of commands whose pages are not in DRAM.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, encode, ok};

/// Returns a number of `INFO`.
fn told(client: &mut Client, name: &str) -> f64 {
    let Reply::Bulk(info) = client.call("info all") else { panic!("text") };
    let info = String::from_utf8(info).expect("text");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("it is told").trim().parse().expect("a number")
}

fn key(number: usize) -> Vec<u8> {
    format!("key:{number:08}").into_bytes()
}

/// Returns the flash reads of a `GET` of a random key if no page were in DRAM. Pages that were in
/// DRAM are at most as many as the frames.
fn reads_of_a_cold_get(value_bytes: usize, keys: usize) -> f64 {
    const AT_ONCE: usize = 200;
    const GETS: usize = 4_000;
    let server = Server::start(|options| options.capacity_bytes = Some(256 << 20));
    let mut client = server.client();
    let value = vec![b'v'; value_bytes];
    let numbers: Vec<usize> = (0..keys).collect();
    for numbers in numbers.chunks(AT_ONCE) {
        let requests = numbers.iter().flat_map(|number| encode(&[b"set", &key(*number), &value]));
        client.send(&requests.collect::<Vec<u8>>());
        numbers.iter().for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    let used = told(&mut client, "flash_bytes") - told(&mut client, "flash_bytes_free");
    let cached = told(&mut client, "dram_frames_bytes") / used;
    assert!(cached < 0.3, "{cached} of the data is in DRAM");
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let before = told(&mut client, "flash_reads");
    assert_eq!(client.call("config resetstat"), ok());
    for _ in 0..GETS {
        let found = client.command(&[b"get", &key(rng.random_range(0..keys))]);
        assert!(matches!(found, Reply::Bulk(bytes) if bytes.len() == value_bytes));
    }
    let reads = (told(&mut client, "flash_reads") - before) / GETS as f64;
    // It also counts the commands that ask.
    let reported = told(&mut client, "flash_reads_per_command");
    assert!((reported - reads).abs() < 0.01, "{reported} reads a command");
    let cold = reads / (1.0 - cached);
    println!(
        "values of {value_bytes} bytes: {reads:.3} reads a GET, {cold:.3} if nothing is in DRAM"
    );
    cold
}

#[test]
fn a_cold_get_of_a_small_value_reads_its_leaf_and_hardly_anything_else() {
    let reads = reads_of_a_cold_get(900, 40_000);
    assert!((0.9..=1.1).contains(&reads), "{reads} reads");
}

#[test]
fn a_cold_get_of_a_value_in_a_page_of_its_own_reads_two_pages_at_most() {
    let reads = reads_of_a_cold_get(3_500, 15_000);
    assert!((0.9..=2.1).contains(&reads), "{reads} reads");
}

#[test]
fn a_set_over_a_value_in_pages_that_are_not_in_dram_reads_none_of_them() {
    const KEYS: usize = 5_000;
    const SETS: usize = 2_000;
    let server = Server::start(|options| options.capacity_bytes = Some(256 << 20));
    let mut client = server.client();
    // The length is no multiple of a page or a word.
    let value = |round: u8| vec![round; 16_387];
    for number in 0..KEYS {
        assert_eq!(client.command(&[b"set", &key(number), &value(0)]), ok());
    }
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let before = told(&mut client, "flash_reads");
    let mut rounds = vec![0; KEYS];
    for _ in 0..SETS {
        let number = rng.random_range(0..KEYS);
        rounds[number] += 1;
        assert_eq!(client.command(&[b"set", &key(number), &value(rounds[number])]), ok());
    }
    let reads = (told(&mut client, "flash_reads") - before) / SETS as f64;
    println!("{reads:.3} reads a SET");
    assert!(reads < 0.2, "{reads} reads");
    for (number, round) in rounds.into_iter().enumerate() {
        assert_eq!(client.command(&[b"get", &key(number)]), Reply::Bulk(value(round)));
    }
}

/// The only interpreter runs a script without end. Others cannot start, but their keys are read.
#[test]
fn a_script_reads_its_keys_before_it_takes_an_interpreter() {
    const KEYS: usize = 20_000;
    let server = Server::start(|_| ());
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(other.call("config set lua-time-limit 600000"), ok());
    for numbers in (0..KEYS).collect::<Vec<_>>().chunks(200) {
        let sets = numbers.iter().flat_map(|number| encode(&[b"set", &key(*number), &[7; 1_000]]));
        other.send(&sets.collect::<Vec<u8>>());
        numbers.iter().for_each(|_| assert_eq!(other.reply(), Some(ok())));
    }
    client.request(&[b"EVAL", b"while true do end", b"0"]);
    let names: Vec<Vec<u8>> = (0..50).map(|number| key(number * KEYS / 50)).collect();
    let mut request: Vec<&[u8]> = vec![b"EVAL", b"return redis.call('get', KEYS[50])", b"50"];
    request.extend(names.iter().map(Vec::as_slice));
    let before = told(&mut other, "flash_reads");
    let mut waiter = server.client();
    waiter.request(&request);
    // A fifth of the data is in DRAM.
    let polls = (0..20_000).take_while(|_| told(&mut other, "flash_reads") < before + 20.0);
    assert!(polls.count() < 20_000, "it waits for an interpreter before it reads");
    assert_eq!(other.call("config set lua-time-limit 20"), ok());
    while other.call("script kill") != ok() {}
    assert!(matches!(client.reply(), Some(Reply::Error(_))), "it was killed");
    assert_eq!(waiter.reply(), Some(Reply::Bulk(vec![7; 1_000])));
}
