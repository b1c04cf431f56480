//! What a server does with a store that it finds.

use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, Stop};
use ebbtide_engine::store::{Access, Store};
use ebbtide_engine::{Engine, Options};
use ebbtide_server::{ServeOptions, serve};

/// Serves until it answers.
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
        ..ServeOptions::default()
    };
    serve_once(&options).expect("a new store");
    let first_word = |change: Option<u64>| {
        let store = Store::open(&options.data, 0, Access::Exclusive).expect("the server's store");
        let mut engine_options = Options::new(16 << 20);
        engine_options.durability = Policy::Always;
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
    assert!(error.contains("no keyspace of this version"), "{error}");
    assert_eq!(first_word(None), 7);
}
