//! Transactions that take pages which maintenance has freed, free them, and take them again.

use std::time::Duration;

use super::client::{Client, Reply, Server, encode, ok};

/// Bytes of a value that takes a separate page.
const VALUE_BYTES: usize = 4_098;

fn server() -> Server {
    Server::start(|options| options.durability = "every:1s".parse().expect("a policy"))
}

/// Empties the server and runs `commands` as one transaction, then waits.
fn round(client: &mut Client, commands: &[&[&[u8]]]) {
    assert_eq!(client.call("flushall"), ok());
    assert_eq!(client.call("multi"), ok());
    for command in commands {
        client.send(&encode(command));
        assert_eq!(client.reply(), Some(Reply::Status("QUEUED".into())));
    }
    let Reply::Array(replies) = client.call("exec") else { panic!("it did not end") };
    assert_eq!(replies.len(), commands.len());
    // Lets maintenance free pages.
    std::thread::sleep(Duration::from_millis(200));
}

#[test]
fn a_transaction_that_frees_a_page_and_takes_it_again_ends() {
    let large = vec![b'x'; VALUE_BYTES];
    let free: [&[&[u8]]; 5] = [
        &[b"del", b"a"],
        &[b"getdel", b"a"],
        &[b"set", b"a", b""],
        &[b"expire", b"a", b"-1"],
        &[b"rename", b"a", b"c"],
    ];
    for frees in free {
        let server = server();
        let mut client = server.client();
        for _ in 0..4 {
            let commands: [&[&[u8]]; 5] = [
                &[b"set", b"a", &large],
                frees,
                &[b"select", b"1"],
                &[b"set", b"b", b"v"],
                &[b"select", b"0"],
            ];
            round(&mut client, &commands);
        }
    }
}
