//! A counter service under tokio: a client sends a name in a line and gets its count, which
//! survives crashes.
//!
//! ```sh
//! cargo run --release --example counters -p ebbtide -- counts.ebb 127.0.0.1:7000
//! ```

use std::env;
use std::error::Error;
use std::io;

use ebbtide::{Futures, Store};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "counts.ebb".into());
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7000".into());
    let store = Store::builder(path).size("64MiB").dram("16MiB").open()?;
    let counts = store.map("counts")?.futures();
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(serve(client, counts.clone()));
    }
}

/// Answers one client. While a count waits for flash, the thread serves other clients.
async fn serve(mut client: TcpStream, counts: Futures) -> io::Result<()> {
    let (from, mut to) = client.split();
    let mut names = BufReader::new(from).lines();
    while let Some(name) = names.next_line().await? {
        let increment = |old: Option<&[u8]>| Some((count(old) + 1).to_le_bytes().to_vec());
        let reply = match counts.update(&name, increment).await {
            Ok(new) => format!("{}\n", count(new.as_deref())),
            Err(error) => format!("error: {error}\n"),
        };
        to.write_all(reply.as_bytes()).await?;
    }
    Ok(())
}

fn count(value: Option<&[u8]>) -> u64 {
    let word = value.and_then(|value| value.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
