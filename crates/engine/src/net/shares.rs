//! [`Shares`]: how many bytes the kernel may buffer for each socket, in one direction.
//!
//! A socket begins with [`LEAST_BYTES`], enough for small requests and replies. A larger transfer
//! makes it a user of the pool. Users share the pool evenly, up to [`MOST_BYTES`] each. A user
//! keeps its share until others need it. So idle sockets cost little, and the sum of all buffers is
//! bounded.

use std::os::fd::OwnedFd;

use super::socket_options::{memory_bytes, set_option};

/// Bytes of a socket that is no user, and the most bytes of a user.
pub(super) const LEAST_BYTES: usize = 4 << 10;
pub(super) const MOST_BYTES: usize = 64 << 10;

/// Bytes that the kernel charges for one byte: it counts its own records too.
const PER_BYTE: usize = 2;

/// A user without a large transfer for this many rounds may lose its share.
const IDLE_ROUNDS: u64 = 10;

/// A direction through a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    In,
    Out,
}

impl Way {
    fn option(self) -> libc::c_int {
        match self {
            Way::In => libc::SO_RCVBUF,
            Way::Out => libc::SO_SNDBUF,
        }
    }
}

/// A socket's share.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Share {
    /// Bytes that the kernel may buffer; 0 before the first setting.
    bytes: usize,
    /// The round of the last large transfer, if the socket is a user.
    used: Option<u64>,
}

/// A socket with its share.
pub(super) struct Sharing<'a> {
    pub(super) socket: &'a OwnedFd,
    pub(super) share: &'a mut Share,
}

impl Sharing<'_> {
    fn limit(&mut self, way: Way, bytes: usize) {
        if self.share.bytes != bytes {
            self.share.bytes = bytes;
            set_option(self.socket, libc::SOL_SOCKET, way.option(), bytes as libc::c_int);
        }
    }
}

/// The owner of the sockets, by their slots.
pub(super) trait Owner {
    fn sharing(&mut self, way: Way, slot: u32) -> Sharing<'_>;
}

/// The sockets that share a pool.
pub(super) struct Shares {
    way: Way,
    pool_bytes: usize,
    /// Their slots.
    users: Vec<u32>,
    /// The round of the last look at the users.
    looked: u64,
}

impl Shares {
    pub(super) fn new(way: Way, pool_bytes: usize) -> Shares {
        Shares { way, pool_bytes, users: Vec::new(), looked: 0 }
    }

    pub(super) fn set_pool(&mut self, bytes: usize) {
        self.pool_bytes = bytes;
    }

    /// Returns the bytes of each of `users` users. They halve whenever the number of users has
    /// doubled.
    fn each(&self, users: usize) -> usize {
        let each = self.pool_bytes / PER_BYTE / users.max(1).next_power_of_two();
        each.clamp(LEAST_BYTES, MOST_BYTES)
    }

    /// Whether users have less than they could use.
    pub(super) fn is_short(&self) -> bool {
        self.each(self.users.len()) < MOST_BYTES
    }

    pub(super) fn users(&self) -> &[u32] {
        &self.users
    }

    /// A socket that begins.
    pub(super) fn begin(&self, mut sharing: Sharing<'_>) {
        sharing.limit(self.way, LEAST_BYTES);
    }

    /// The socket of slot `number` has a large transfer in this round.
    pub(super) fn uses(&mut self, number: u32, round: u64, owner: &mut impl Owner) {
        let way = self.way;
        let is_new = owner.sharing(way, number).share.used.replace(round).is_none();
        if is_new {
            if self.each(self.users.len() + 1) < MOST_BYTES && self.looked != round {
                self.looked = round;
                self.users.retain(|user| keeps(owner.sharing(way, *user), way, round));
            }
            let before = self.each(self.users.len());
            self.users.push(number);
            let each = self.each(self.users.len());
            if each < before {
                let users = self.users.iter();
                users.for_each(|user| owner.sharing(way, *user).limit(way, each));
            }
        }
        owner.sharing(way, number).limit(way, self.each(self.users.len()));
    }

    /// The socket of slot `number` is closed.
    pub(super) fn end(&mut self, number: u32, share: &mut Share) {
        if std::mem::take(share).used.is_some() {
            self.users.retain(|user| *user != number);
        }
    }
}

/// Returns true if a user keeps its share: it has used it lately, or the kernel still holds bytes.
/// Otherwise takes the share away.
fn keeps(mut sharing: Sharing<'_>, way: Way, round: u64) -> bool {
    let used = sharing.share.used.expect("it is a user");
    if round < used + IDLE_ROUNDS || memory_bytes(sharing.socket) > LEAST_BYTES {
        return true;
    }
    sharing.share.used = None;
    sharing.limit(way, LEAST_BYTES);
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    struct Pool {
        sockets: Vec<(OwnedFd, Share)>,
        all: Shares,
    }

    impl Owner for Vec<(OwnedFd, Share)> {
        fn sharing(&mut self, _way: Way, slot: u32) -> Sharing<'_> {
            let (socket, share) = &mut self[slot as usize];
            Sharing { socket, share }
        }
    }

    impl Pool {
        /// Room for four users.
        fn of(sockets: usize) -> Pool {
            let socket =
                |_| (OwnedFd::from(UnixStream::pair().expect("sockets").0), Share::default());
            let all = Shares::new(Way::Out, 4 * PER_BYTE * MOST_BYTES);
            Pool { sockets: (0..sockets).map(socket).collect(), all }
        }

        fn uses(&mut self, number: u32, round: u64) {
            self.all.uses(number, round, &mut self.sockets);
        }

        fn bytes(&self, number: usize) -> usize {
            self.sockets[number].1.bytes
        }
    }

    #[test]
    fn users_share_the_pool_and_get_more_when_others_leave() {
        let mut pool = Pool::of(9);
        (0..4).for_each(|user| pool.uses(user, 0));
        assert_eq!(pool.bytes(0), MOST_BYTES);
        (4..9).for_each(|user| pool.uses(user, 0));
        // Nine count as sixteen.
        assert!((0..9).all(|user| pool.bytes(user) == MOST_BYTES / 4));
        (0..6).for_each(|user| pool.all.end(user, &mut pool.sockets[user as usize].1));
        pool.uses(7, 1);
        assert_eq!(pool.bytes(7), MOST_BYTES);
    }

    #[test]
    fn an_idle_user_keeps_its_share_until_others_need_it() {
        let mut pool = Pool::of(5);
        (0..4).for_each(|user| pool.uses(user, 0));
        (0..3).for_each(|user| pool.uses(user, IDLE_ROUNDS));
        assert_eq!(pool.bytes(3), MOST_BYTES);
        pool.uses(4, IDLE_ROUNDS);
        assert_eq!((pool.bytes(3), pool.bytes(4)), (LEAST_BYTES, MOST_BYTES));
    }
}
