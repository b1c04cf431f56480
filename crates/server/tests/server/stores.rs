//! A server that finds a store at its path.

use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, Stop};
use ebbtide_engine::store::{Access, Store};
use ebbtide_engine::{Engine, Options};
use ebbtide_server::{ServeOptions, serve};

use super::client::{Reply, Server, bulk, device_path, ok};

/// Serves until it answers, then stops.
fn serve_once(options: &ServeOptions) -> Result<(), String> {
    let stop: &'static Stop = Box::leak(Box::default());
    serve(options, stop, |_| stop.stop()).map_err(|error| error.to_string())
}

#[test]
fn a_store_that_holds_something_else_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let options = ServeOptions {
        data: folder.path().join("store"),
        capacity_bytes: Some(64 << 20),
        durability: Policy::Always,
        dram_bytes: 16 << 20,
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    serve_once(&options).expect("a new store");
    let first_word = |change: Option<u64>| {
        let store = Store::open(&options.data, 0, Access::Exclusive).expect("the server's store");
        let mut engine_options = Options::new(16 << 20);
        engine_options.durability = Some(Policy::Always);
        let engine = Engine::open(&Arc::new(store), &engine_options).expect("an engine");
        let jobs = Arc::new(engine).start().expect("a core");
        let ended = jobs.submit(move |memory| {
            memory.transaction(|memory| {
                let found = memory.load::<u64>(Addr(0));
                change.iter().for_each(|word| memory.store(Addr(0), *word));
                found
            })
        });
        let (found, _) = ended.wait().expect("it ends").expect("it commits");
        jobs.stop().expect("all is durable");
        found
    };
    assert_ne!(first_word(Some(7)), 0, "there was a keyspace");
    let error = serve_once(&options).expect_err("this is no keyspace");
    assert!(error.contains("holds no keyspace"), "{error}");
    assert_eq!(first_word(None), 7);
}

#[test]
fn a_copy_made_while_serving_is_served_by_another_server() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let copy = folder.path().join("copy");
    let kept = Server::start(|options| options.durability = Policy::Always);
    let mut client = kept.client();
    for number in 0..500 {
        assert_eq!(client.call(&format!("set k{number} {number}")), ok());
    }
    let large = vec![b'x'; 300_000];
    assert_eq!(client.command(&[b"set", b"large", &large]), ok());
    let begin = format!("bgsave to {}", copy.display());
    assert_eq!(client.call(&begin), Reply::Status("Background saving started".into()));
    // Changes after the reply may be in the copy or not.
    client.call("set k0 later");
    let state = loop {
        let Reply::Bulk(text) = client.call("info persistence") else { panic!("text") };
        let text = String::from_utf8(text).expect("text");
        let state = text.lines().find_map(|line| line.strip_prefix("last_copy:"));
        let state = state.expect("it says how the copy is").to_string();
        if state != "under way" {
            break state;
        }
    };
    assert_eq!(state, format!("done:{}", copy.display()));
    let Reply::Error(again) = client.call(&begin) else { panic!("it was overwritten") };
    assert!(again.contains("is there already"), "{again}");
    let other = Server::start(|options| {
        options.durability = Policy::Always;
        options.data = copy.clone();
    });
    let mut copied = other.client();
    assert_eq!(copied.call("dbsize"), Reply::Integer(501));
    assert_eq!(copied.command(&[b"get", b"large"]), Reply::Bulk(large));
    for number in 1..500 {
        assert_eq!(copied.call(&format!("get k{number}")), bulk(&number.to_string()));
    }
    let nothing = Server::start(|_| ()).client().call(&begin);
    let Reply::Error(reason) = nothing else { panic!("{nothing:?}") };
    assert!(reason.contains("--durability none"), "{reason}");
}

#[test]
fn a_store_grows_to_the_capacity_that_is_asked_for_and_never_shrinks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let options = |capacity_bytes| ServeOptions {
        data: folder.path().join("store"),
        capacity_bytes: Some(capacity_bytes),
        durability: Policy::Always,
        dram_bytes: 64 << 20,
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    let start = |capacity_bytes| Server::start(|server| *server = options(capacity_bytes));
    let value = vec![b'v'; 6_000];
    let fill = |server: &Server, from: u32| {
        let mut client = server.client();
        let set = |number: &u32| {
            client.command(&[b"set", format!("k{number}").as_bytes(), &value]) == ok()
        };
        let set = (from..).take_while(set).last();
        set.expect("one at least") + 1
    };
    let server = start(4 << 20);
    let first = fill(&server, 0);
    drop(server);
    let file_bytes = std::fs::metadata(options(0).data).expect("a file").len();
    assert!(file_bytes < 32 << 20, "{file_bytes}: as large as the budget of DRAM");
    let server = start(12 << 20);
    let mut client = server.client();
    let key = |number: u32| format!("get k{number}");
    assert!((0..first).all(|number| client.call(&key(number)) == Reply::Bulk(value.clone())));
    let second = fill(&server, first);
    assert!(second > 2 * first, "{first} keys, then {second}");
    drop(server);
    let error = serve_once(&options(8 << 20)).expect_err("it would shrink");
    assert!(error.contains("nothing shrinks"), "{error}");
    let server = start(12 << 20);
    let mut client = server.client();
    assert!((0..second).all(|number| client.call(&key(number)) == Reply::Bulk(value.clone())));
}

#[test]
fn a_stop_request_ends_recovery_and_growth_and_leaves_the_store_as_it_was() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let options = |capacity_bytes| ServeOptions {
        data: folder.path().join("store"),
        capacity_bytes: Some(capacity_bytes),
        durability: Policy::Always,
        dram_bytes: 16 << 20,
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    let server = Server::start(|server| *server = options(4 << 20));
    assert_eq!(server.client().call("set key value"), ok());
    drop(server);
    let contents = || std::fs::read(options(0).data).expect("a store");
    let before = contents();
    let stop: &'static Stop = Box::leak(Box::default());
    stop.stop();
    for capacity_bytes in [4 << 20, 12 << 20] {
        serve(&options(capacity_bytes), stop, |_| panic!("it answers")).expect("no failure");
        assert!(contents() == before, "a start that was stopped changed the store");
        let names = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 1, "files beside the store");
    }
    let server = Server::start(|server| *server = options(12 << 20));
    assert_eq!(server.client().call("get key"), bulk("value"));
}
