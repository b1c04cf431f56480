//! Misuse of connections: invalid requests, unread replies, too many clients, and unsafe
//! addresses.

use std::io::Write;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
use ebbtide_engine::EngineError;
use ebbtide_server::log::Log;
use ebbtide_server::{ServeError, ServeOptions, serve};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::net::sockopt;

use super::client::{Client, Reply, Server, bulk, device_path, encode, ok};

#[test]
fn garbage_closes_its_connection_with_an_error_and_hurts_nobody() {
    let server = Server::start(|_| ());
    let mut good = server.client();
    good.call("set a 1");
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    for round in 0..60 {
        let mut bad = server.client();
        match round % 4 {
            0 => bad.send(b"*1\r\n$99999999999\r\n"),
            1 => bad.send(b"*1000000000\r\n"),
            2 => bad.send(b"*2\r\n$3\r\nget\r\n!5\r\n"),
            _ => {
                let mut noise: Vec<u8> = (0..3_000).map(|_| rng.next_u32() as u8).collect();
                noise[0] = b'*';
                noise.extend(b"\r\n*x\r\n");
                bad.send(&noise);
            }
        }
        if round % 3 > 0 {
            let Some(Reply::Error(error)) = bad.reply() else { panic!("no error") };
            assert!(error.starts_with("ERR Protocol error"), "{error}");
            assert!(bad.is_closed());
        }
        assert_eq!(good.call("get a"), bulk("1"));
    }
    let mut half = server.client();
    half.send(b"*2\r\n$3\r\nget\r\n$5\r\nhe");
    drop(half);
    assert_eq!(good.call("get a"), bulk("1"));
}

#[test]
fn a_client_that_does_not_read_is_no_longer_read_and_costs_a_bounded_amount() {
    let server = Server::start(|_| ());
    let mut good = server.client();
    let value = vec![b'v'; 60_000];
    assert_eq!(good.command(&[b"set", b"large", &value]), ok());
    let slow: Vec<Client> = (0..20)
        .map(|_| {
            let mut slow = server.client();
            // Replies of 60 MB that the client does not read.
            let question = encode(&[b"get", b"large"]).repeat(1_000);
            slow.send(&question);
            slow
        })
        .collect();
    for _ in 0..50 {
        assert_eq!(good.command(&[b"get", b"large"]), Reply::Bulk(value.clone()));
    }
    let Reply::Bulk(info) = good.call("info stats") else { panic!("text") };
    let info = String::from_utf8(info).unwrap();
    let sent = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    let sent: u64 = sent.unwrap().trim().parse().unwrap();
    assert!(sent < 50 * 61_000 + 20 * (4 << 20), "{sent} bytes, of 1.2 GB asked for");
    for mut client in slow {
        assert_eq!(client.reply(), Some(Reply::Bulk(value.clone())), "it may go on");
    }
}

#[test]
fn replies_come_in_order_however_long_the_pipeline_is() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let mut sender = client.other_end();
    let sending = std::thread::spawn(move || {
        for number in 0..20_000u32 {
            let (key, value) = (format!("k{}", number % 500), number.to_string());
            let request = encode(&[b"getset", key.as_bytes(), value.as_bytes()]);
            sender.write_all(&request).expect("sent");
        }
    });
    for number in 0..20_000u32 {
        let expected = number.checked_sub(500).map_or(Reply::Null, |old| bulk(&old.to_string()));
        assert_eq!(client.reply(), Some(expected), "{number}");
    }
    sending.join().expect("sent");
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for byte in encode(&[b"set", b"slow", b"value"]) {
        client.send(&[byte]);
    }
    assert_eq!(client.reply(), Some(ok()));
    client.send(b"GET slow\r\n");
    assert_eq!(client.reply(), Some(bulk("value")));
}

#[test]
fn large_values_go_in_and_out_whole() {
    let server = Server::start(|options| options.dram_bytes = 32 << 20);
    let mut client = server.client();
    for bytes in [1_000, 4_096, 65_536, 1_500_000] {
        let value: Vec<u8> = (0..bytes).map(|at: u32| (at % 251) as u8).collect();
        assert_eq!(client.command(&[b"set", b"k", &value]), ok());
        assert_eq!(client.call("strlen k"), Reply::Integer(i64::from(bytes)));
        assert_eq!(client.call("get k"), Reply::Bulk(value));
    }
}

#[test]
fn more_clients_than_allowed_are_told_and_closed() {
    let server = Server::start(|options| options.clients_max = 3);
    let mut clients: Vec<Client> = (0..3).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| drop(client.call("ping")));
    let mut refused = server.client();
    assert_eq!(refused.reply(), Some(Reply::Error("ERR max number of clients reached".into())));
    assert!(refused.is_closed());
    clients.pop();
    // A client that leaves makes room for another.
    loop {
        let mut next = server.client();
        next.request(&[b"ping"]);
        if next.reply() == Some(Reply::Status("PONG".into())) {
            break;
        }
    }
}

#[test]
fn without_the_password_only_a_few_commands_are_answered() {
    let server = Server::start(|options| options.password = Some("secret".into()));
    let mut client = server.client();
    let refused = Reply::Error("NOAUTH Authentication required.".into());
    assert_eq!(client.call("get a"), refused);
    let Reply::Error(error) = client.call("auth wrong") else { panic!("it is wrong") };
    assert!(error.starts_with("WRONGPASS"), "{error}");
    assert_eq!(client.call("auth secret"), ok());
    assert_eq!(client.call("get a"), Reply::Null);
    let mut long = server.client();
    long.send(b"*2\r\n$4\r\nauth\r\n$20000\r\n");
    let expected = "ERR Protocol error: unauthenticated bulk length";
    assert_eq!(long.reply(), Some(Reply::Error(expected.into())));
}

#[test]
fn the_password_that_a_client_leaves_behind_is_not_the_next_ones() {
    let server = Server::start(|options| options.password = Some("secret".into()));
    let mut client = server.client();
    client.call("auth secret");
    assert_eq!(client.call("reset"), Reply::Status("RESET".into()));
    assert_eq!(client.call("get a"), Reply::Error("NOAUTH Authentication required.".into()));
}

fn refused(change: impl FnOnce(&mut ServeOptions)) -> ServeError {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let data = folder.path().join("store");
    let mut options = ServeOptions {
        data: data.clone(),
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    change(&mut options);
    static NEVER: Stop = Stop::new();
    let error = serve(&options, &NEVER, |_| panic!("it must not start")).expect_err("refused");
    assert!(error.is_input(), "{error}");
    assert!(!error.to_string().contains('\n'));
    error
}

#[test]
fn a_server_that_would_promise_too_much_does_not_start() {
    let error = refused(|options| options.bind = Ipv4Addr::UNSPECIFIED.into());
    assert!(matches!(error, ServeError::Open(_)), "{error}");
    let error = refused(|options| options.dram_bytes = 5 << 20);
    assert!(matches!(error, ServeError::Dram(_)), "{error}");
    let error = refused(|options| options.capacity_bytes = Some(4096));
    assert!(matches!(error, ServeError::Capacity { .. }), "{error}");
}

/// With fewer frames than the pages that its clients change, a server would read pages for ever.
#[test]
fn the_least_dram_that_a_refusal_names_is_enough_for_many_clients() {
    const CAPACITY: Option<u64> = Some(512 << 20);
    let error = refused(|options| {
        (options.capacity_bytes, options.dram_bytes) = (CAPACITY, 5 << 20);
    });
    let ServeError::Dram(EngineError::BudgetTooSmall { needed_bytes, .. }) = error else {
        panic!("{error}")
    };
    let server = Server::start(|options| {
        (options.capacity_bytes, options.dram_bytes) = (CAPACITY, needed_bytes as u64);
    });
    std::thread::scope(|scope| {
        for client in 0..30 {
            let server = &server;
            scope.spawn(move || {
                let mut connection = server.client();
                for number in 0..300 {
                    let (set, score) = ((client + number) % 50, number * 7_919 % 300);
                    let added = format!("zadd set:{set} {score} member:{client}:{number}");
                    assert_eq!(connection.call(&added), Reply::Integer(1));
                }
            });
        }
    });
    let mut client = server.client();
    let count = |set| client.call(&format!("zcard set:{set}"));
    assert_eq!((0..50).map(count).collect::<Vec<_>>(), vec![Reply::Integer(180); 50]);
}

#[test]
fn a_file_of_something_else_is_left_alone() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let data = folder.path().join("letters");
    std::fs::write(&data, "dear reader, ".repeat(1_000)).unwrap();
    let error = refused(|options| options.data = data.clone());
    assert!(error.to_string().contains("--force"), "{error}");
    assert!(std::fs::read(&data).unwrap().starts_with(b"dear reader"));
    let new = ebbtide_engine::store::NewStore {
        path: folder.path().join("bench"),
        offset: 0,
        pages: 100,
        spare_pages: 0,
        tag: "the image of a bench".into(),
        force: false,
    };
    drop(ebbtide_engine::store::Store::create_blank(&new).unwrap());
    let error = refused(|options| options.data = new.path.clone());
    assert!(matches!(error, ServeError::OtherStore { .. }), "{error}");
}

/// Returns the milliseconds that `work` takes.
fn took_ms(work: impl FnOnce()) -> u128 {
    let start = Instant::now();
    work();
    start.elapsed().as_millis()
}

#[test]
fn idle_connections_do_not_slow_those_that_move_much() {
    let server = Server::start(|options| options.dram_bytes = 32 << 20);
    let mut client = server.client();
    let value = vec![b'v'; 30_000];
    let mut moves = || {
        took_ms(|| {
            for _ in 0..40 {
                assert_eq!(client.command(&[b"set", b"k", &value]), ok());
                assert_eq!(client.call("get k"), Reply::Bulk(value.clone()));
            }
            let pipeline = encode(&[b"set", b"p", &value[..2_000]]).repeat(1_000);
            let mut sender = client.other_end();
            let sending = std::thread::spawn(move || sender.write_all(&pipeline));
            (0..1_000).for_each(|_| assert_eq!(client.reply(), Some(ok())));
            sending.join().expect("no panic").expect("sent");
        })
    };
    let alone_ms = moves();
    let idle: Vec<Client> = (0..300).map(|_| server.client()).collect();
    let beside_ms = moves();
    // A stall of the kernel's timers would cost 200 ms for each command.
    assert!(beside_ms < alone_ms * 5 + 2_000, "{alone_ms} ms alone, {beside_ms} ms beside others");
    drop(idle);
}

#[test]
fn clients_that_take_no_replies_are_closed_when_others_need_their_room() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let told = log.clone();
    let server = Server::start(|options| {
        options.dram_bytes = 64 << 20;
        options.log = Log::to(move |event| told.lock().unwrap().push(event));
    });
    let mut good = server.client();
    let value = vec![b'v'; 60_000];
    assert_eq!(good.command(&[b"set", b"large", &value]), ok());
    let mut bad: Vec<Client> = (0..100).map(|_| server.client()).collect();
    for client in &mut bad {
        client.send(&encode(&[b"get", b"large"]).repeat(50));
    }
    let is_told = || log.lock().unwrap().iter().any(|event| event.text.contains("does not read"));
    let until = Instant::now() + Duration::from_secs(120);
    while !is_told() {
        assert!(Instant::now() < until, "they stay");
        assert_eq!(good.call("get large"), Reply::Bulk(value.clone()));
    }
    drop(bad);
}

#[test]
fn a_silent_client_is_closed_after_the_timeout_unless_it_is_subscribed() {
    let server = Server::start(|options| options.timeout_s = 1);
    let mut silent = server.client();
    let mut subscribed = server.client();
    subscribed.call("subscribe news");
    assert_eq!(silent.call("config get timeout"), Reply::Array(vec![bulk("timeout"), bulk("1")]));
    assert!(silent.is_closed());
    let mut other = server.client();
    assert_eq!(other.call("config set timeout 0"), ok());
    assert_eq!(other.call("publish news x"), Reply::Integer(1));
    assert_eq!(other.call("config set timeout x"), other.call("config set timeout -1"));
}

#[test]
fn the_kernel_asks_silent_clients_whether_they_are_there() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let keepalive = |client: &mut Client| {
        let Reply::Bulk(info) = client.call("client info") else { panic!("text") };
        let info = String::from_utf8(info).unwrap();
        let fd = info.split(' ').find_map(|field| field.strip_prefix("fd=")).unwrap();
        // SAFETY: the server is in this process, and the connection is open.
        let socket = unsafe { BorrowedFd::borrow_raw(fd.parse().unwrap()) };
        let is_asked = sockopt::socket_keepalive(socket).unwrap();
        is_asked.then(|| sockopt::tcp_keepidle(socket).unwrap().as_secs())
    };
    assert_eq!(keepalive(&mut client), Some(300));
    assert_eq!(client.call("config set tcp-keepalive 60"), ok());
    assert_eq!(keepalive(&mut server.client()), Some(60));
    assert_eq!(client.call("config set tcp-keepalive 0"), ok());
    assert_eq!(keepalive(&mut server.client()), None);
}

#[test]
fn a_request_of_a_browser_closes_the_connection_before_its_body_is_run() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let told = log.clone();
    let server = Server::start(|options| {
        options.log = Log::to(move |event| told.lock().unwrap().push(event));
    });
    for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\n", "post /\r\n"] {
        let mut browser = server.client();
        browser.send(format!("{head}\r\nSET pwned 1\r\n").as_bytes());
        while browser.reply().is_some() {}
    }
    assert_eq!(server.client().call("exists pwned"), Reply::Integer(0));
    let until = Instant::now() + Duration::from_secs(60);
    while log.lock().unwrap().iter().filter(|event| event.name == "http").count() < 3 {
        assert!(Instant::now() < until, "it is logged");
        std::thread::yield_now();
    }
}

#[test]
fn connections_that_hold_most_are_told_and_closed_when_all_hold_too_much() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let told = log.clone();
    // The connections have 2 MiB.
    let server = Server::start(|options| {
        options.log = Log::to(move |event| told.lock().unwrap().push(event));
    });
    let mut good = server.client();
    let mut queueing: Vec<Client> = (0..8).map(|_| server.client()).collect();
    let text = vec![b'x'; 10_000];
    let mut errors = Vec::new();
    for client in &mut queueing {
        assert_eq!(client.call("multi"), ok());
        for _ in 0..60 {
            client.request(&[b"echo", &text]);
            match client.reply() {
                Some(Reply::Status(_)) => {}
                Some(Reply::Error(error)) => errors.push(error),
                _ => break,
            }
        }
    }
    assert_eq!(good.call("ping"), Reply::Status("PONG".into()));
    // Some of the first clients were closed to make room for later ones.
    for client in &mut queueing {
        client.request(&[b"ping"]);
        if let Some(Reply::Error(error)) = client.reply() {
            errors.push(error);
        }
    }
    let told = errors.iter().filter(|error| error.contains("hold more memory"));
    assert!(told.count() >= 4, "{errors:?}");
    assert!(log.lock().unwrap().iter().any(|event| event.name == "closed"));
    assert_eq!(good.call("publish nothing x"), Reply::Integer(0));
}

#[test]
fn what_a_connection_may_hold_for_itself_has_bounds_that_are_told() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let long = vec![b'n'; 400_000];
    let error = |reply: Reply| match reply {
        Reply::Error(error) => error,
        other => panic!("{other:?}"),
    };
    let name = error(client.command(&[b"client", b"setname", &long]));
    assert!(name.contains("4096 bytes"), "{name}");
    assert!(matches!(client.command(&[b"subscribe", &long]), Reply::Array(_)));
    let channels = error(client.command(&[b"subscribe", &[b'm'; 400_000]]));
    assert!(channels.contains("1048576 bytes"), "{channels}");
    let mut client = server.client();
    assert_eq!(client.call("multi"), ok());
    let queued = Reply::Status("QUEUED".into());
    assert_eq!(client.command(&[b"echo", &long]), queued);
    assert_eq!(client.command(&[b"echo", &long]), queued);
    let full = error(client.command(&[b"echo", &long]));
    assert!(full.contains("1048576 bytes"), "{full}");
    assert!(error(client.call("exec")).starts_with("EXECABORT"));
}
