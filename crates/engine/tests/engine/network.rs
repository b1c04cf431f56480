//! Sockets on the core loop. Clients are served by the queue that reads flash. Slow readers cost
//! their core nothing. A core stops with connections open.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::{Addr, Memory, PAGE_BYTES, Time};
use ebbtide_engine::device::Device;
use ebbtide_engine::device::aio::Aio;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::{
    Engine, FlashMemory, JobError, NetEvent, Network, Offer, Options, Service, SocketId, Timing,
};

use crate::common;

/// Answers every byte with the word at that page, from flash.
struct Echo {
    listener: RefCell<Option<OwnedFd>>,
    network: RefCell<Option<Network>>,
    received: RefCell<VecDeque<(SocketId, Vec<u8>)>>,
    stop: Arc<AtomicBool>,
    closed: Cell<usize>,
}

impl Echo {
    fn network(&self) -> Network {
        self.network.borrow().clone().expect("attached")
    }
}

impl Service for Echo {
    type Job = (SocketId, Vec<u8>);

    fn attach(&self, network: &Network) {
        assert!(network.is_available());
        let listener = network.listen(self.listener.take().expect("attached once"));
        network.accept(listener);
        *self.network.borrow_mut() = Some(network.clone());
    }

    fn network(&self, event: NetEvent) {
        let network = self.network();
        match event {
            NetEvent::Accepted { listener, socket } => {
                network.accept(listener);
                network.open(listener, socket.expect("accepted"));
            }
            NetEvent::Opened { socket, .. } => network.receive(socket),
            NetEvent::Received { socket, bytes } => match bytes {
                Ok(bytes) if !bytes.is_empty() => {
                    self.received.borrow_mut().push_back((socket, bytes));
                }
                _ => {
                    self.closed.set(self.closed.get() + 1);
                    network.close(socket);
                }
            },
            NetEvent::Stalled { socket } => network.close(socket),
            NetEvent::Sent { socket, buffer, result } => {
                assert!(buffer.is_empty());
                if result.is_ok() {
                    network.receive(socket);
                }
            }
        }
    }

    fn next(&self, _now: Time) -> Offer<Self::Job> {
        match self.received.borrow_mut().pop_front() {
            Some(job) => Offer::Job(job),
            None if self.stop.load(Ordering::SeqCst) => Offer::End,
            None => Offer::Empty,
        }
    }

    fn run(&self, (socket, bytes): &mut Self::Job, memory: &mut FlashMemory<'_>) {
        let mut word = |byte: &u8| memory.load::<u64>(Addr(u64::from(*byte) * PAGE_BYTES as u64));
        let reply = bytes.iter().flat_map(|byte| word(byte).to_le_bytes()).collect();
        self.network().send(*socket, reply);
    }

    fn done(&self, _job: Self::Job, result: Result<(), JobError>, _timing: Timing) {
        result.expect("no fault here");
    }

    fn has_more(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

/// Serves 256 pages while `body` runs, once through io_uring and once through Linux AIO and epoll.
/// Page `n` begins with the word `n · 3`. Returns the number of closed connections of each.
fn serve(mut body: impl FnMut(SocketAddr)) -> [usize; 2] {
    let uring = |file| Arc::new(Uring::new(file).expect("io_uring")) as Arc<dyn Device>;
    let aio = |file| Arc::new(Aio::new(file).expect("Linux AIO")) as Arc<dyn Device>;
    [serve_over(uring, &mut body), serve_over(aio, &mut body)]
}

fn serve_over(
    device: impl FnOnce(Arc<std::fs::File>) -> Arc<dyn Device>,
    body: &mut impl FnMut(SocketAddr),
) -> usize {
    let file = tempfile::tempfile_in(".").expect("a file");
    let pages = 256u64;
    for page in 0..pages {
        let word = (page * 3).to_le_bytes();
        std::os::unix::fs::FileExt::write_all_at(&file, &word, page * PAGE_BYTES as u64).unwrap();
    }
    file.set_len(pages * PAGE_BYTES as u64).unwrap();
    let device = device(Arc::new(file));
    let options = Options::new(4 << 20);
    let engine = Engine::over_device(device, pages, &options).expect("an engine");
    assert!(engine.has_network());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let listener = std::sync::Mutex::new(Some(OwnedFd::from(listener)));
    std::thread::scope(|scope| {
        let (engine, stop, listener) = (&engine, &stop, &listener);
        let core = scope.spawn(move || {
            let make = |_| Echo {
                listener: RefCell::new(listener.lock().unwrap().take()),
                network: RefCell::default(),
                received: RefCell::default(),
                stop: stop.clone(),
                closed: Cell::new(0),
            };
            let run = || engine.run(make, |echo| echo.closed.get()).expect("it ran");
            common::watched(engine, run)
        });
        body(address);
        stop.store(true, Ordering::SeqCst);
        engine.rouse(0);
        core.join().expect("no panic")[0]
    })
}

fn expected(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| (u64::from(*byte) * 3).to_le_bytes()).collect()
}

#[test]
fn many_clients_are_answered_from_flash_and_closed_clients_are_noticed() {
    let closed = serve(|address| {
        let mut clients: Vec<_> =
            (0..40).map(|_| TcpStream::connect(address).expect("a connection")).collect();
        for round in 0..5u8 {
            for (number, client) in clients.iter_mut().enumerate() {
                client.write_all(&[number as u8 * 6 + round]).unwrap();
            }
            for (number, client) in clients.iter_mut().enumerate() {
                let mut reply = [0; 8];
                client.read_exact(&mut reply).unwrap();
                assert_eq!(reply[..], expected(&[number as u8 * 6 + round]));
            }
        }
        for client in &mut clients {
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(client.read(&mut [0; 8]).unwrap(), 0, "the server closes too");
        }
    });
    assert_eq!(closed, [40, 40]);
}

#[test]
fn a_reply_larger_than_all_buffers_arrives_whole_while_others_are_served() {
    serve(|address| {
        let mut slow = TcpStream::connect(address).unwrap();
        let question: Vec<u8> = (0..200_000u32).map(|i| i as u8).collect();
        let mut asked = slow.try_clone().unwrap();
        let sent = question.clone();
        let writer = std::thread::spawn(move || asked.write_all(&sent).unwrap());
        // The slow one has read nothing: its first reply fills the buffers on the way.
        let mut other = TcpStream::connect(address).unwrap();
        other.write_all(&[7]).unwrap();
        let mut reply = [0; 8];
        other.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..], expected(&[7]));
        let mut replies = vec![0; question.len() * 8];
        slow.read_exact(&mut replies).unwrap();
        assert_eq!(replies, expected(&question));
        writer.join().unwrap();
    });
}

#[test]
fn a_core_stops_with_connections_open_and_replies_unread() {
    let mut left = Vec::new();
    serve(|address| {
        for _ in 0..3 {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(&[9; 10_000]).unwrap();
            client.read_exact(&mut [0; 8]).unwrap();
            left.push(client);
        }
    });
    assert_eq!(left.len(), 6);
}

#[test]
fn a_device_without_sockets_says_so_to_the_engine_and_to_its_services() {
    /// Ends at once.
    struct Looks(Cell<bool>);

    impl Service for Looks {
        type Job = ();

        fn attach(&self, network: &Network) {
            self.0.set(network.is_available());
        }

        fn next(&self, _now: Time) -> Offer<()> {
            Offer::End
        }

        fn run(&self, _job: &mut (), _memory: &mut FlashMemory<'_>) {}

        fn done(&self, _job: (), _result: Result<(), JobError>, _timing: Timing) {}
    }

    let device = Arc::new(Ram::new(16, Latency::Looks(0), |_, _| {}));
    let engine = Engine::over_device(device, 16, &Options::new(4 << 20)).expect("an engine");
    assert!(!engine.has_network());
    let run = || engine.run(|_| Looks(Cell::new(true)), |looks| looks.0.get()).expect("it ran");
    assert_eq!(common::watched(&engine, run), [false]);
}
