//! Policies that Ebbtide does not have, as their papers define them. They see every access in
//! order, over pages numbered from 0. The code is plain rather than fast.

/// A cache under one policy.
pub(crate) trait Peer {
    /// Accesses `page`. Returns whether it missed.
    fn misses(&mut self, page: u32) -> bool;
}

/// Makes a peer for a number of frames and a number of pages.
pub(crate) type Make = fn(frames: usize, pages: usize) -> Box<dyn Peer>;

/// The peers by name.
pub(crate) const PEERS: [(&str, Make); 4] = [
    ("arc", |frames, pages| Box::new(Arc::new(frames, pages))),
    ("lirs", |frames, pages| Box::new(Lirs::new(frames, pages))),
    ("sieve", |frames, pages| Box::new(Sieve::new(frames, pages))),
    ("w-tinylfu", |frames, pages| Box::new(TinyLfu::new(frames, pages))),
];

/// Doubly linked lists of pages, newest in front. A page is in at most one of them.
struct Lists {
    /// The page before and the page behind each page, then each list's ends.
    links: Vec<(u32, u32)>,
    /// The list that each page is in.
    list_of: Vec<Option<u8>>,
    lengths: Vec<usize>,
    pages: usize,
}

impl Lists {
    fn new(pages: usize, lists: usize) -> Lists {
        let ends = (pages..pages + lists).map(|end| (end as u32, end as u32));
        let links = (0..pages).map(|_| (0, 0)).chain(ends).collect();
        Lists { links, list_of: vec![None; pages], lengths: vec![0; lists], pages }
    }

    fn list_of(&self, page: u32) -> Option<u8> {
        self.list_of[page as usize]
    }

    fn len(&self, list: u8) -> usize {
        self.lengths[usize::from(list)]
    }

    fn remove(&mut self, page: u32) {
        let Some(list) = self.list_of[page as usize].take() else { return };
        let (before, behind) = self.links[page as usize];
        self.links[before as usize].1 = behind;
        self.links[behind as usize].0 = before;
        self.lengths[usize::from(list)] -= 1;
    }

    /// Moves `page` to the front of `list`.
    fn put(&mut self, list: u8, page: u32) {
        self.remove(page);
        let end = (self.pages + usize::from(list)) as u32;
        let first = self.links[end as usize].1;
        self.links[page as usize] = (end, first);
        self.links[first as usize].0 = page;
        self.links[end as usize].1 = page;
        self.list_of[page as usize] = Some(list);
        self.lengths[usize::from(list)] += 1;
    }

    fn last(&self, list: u8) -> Option<u32> {
        self.page(self.links[self.pages + usize::from(list)].0)
    }

    /// The next newer page of the same list.
    fn newer(&self, page: u32) -> Option<u32> {
        self.page(self.links[page as usize].0)
    }

    fn page(&self, node: u32) -> Option<u32> {
        ((node as usize) < self.pages).then_some(node)
    }
}

/// ARC (Megiddo and Modha, FAST 2003), Figure 4.
struct Arc {
    frames: usize,
    lists: Lists,
    /// The length that T1 should have.
    target: f64,
}

impl Arc {
    const T1: u8 = 0;
    const T2: u8 = 1;
    const B1: u8 = 2;
    const B2: u8 = 3;

    fn new(frames: usize, pages: usize) -> Arc {
        Arc { frames, lists: Lists::new(pages, 4), target: 0.0 }
    }

    fn len(&self, list: u8) -> f64 {
        self.lists.len(list) as f64
    }

    /// REPLACE of the figure.
    fn replace(&mut self, wanted_in_b2: bool) {
        let t1 = self.len(Arc::T1);
        let from_t1 = t1 >= 1.0 && (t1 > self.target || wanted_in_b2 && t1 == self.target);
        let (list, ghosts) = if from_t1 { (Arc::T1, Arc::B1) } else { (Arc::T2, Arc::B2) };
        if let Some(victim) = self.lists.last(list) {
            self.lists.put(ghosts, victim);
        }
    }

    fn drop_last(&mut self, list: u8) {
        let last = self.lists.last(list).expect("a list that is not empty");
        self.lists.remove(last);
    }
}

impl Peer for Arc {
    fn misses(&mut self, page: u32) -> bool {
        let frames = self.frames as f64;
        let (b1, b2) = (self.len(Arc::B1), self.len(Arc::B2));
        match self.lists.list_of(page) {
            Some(Arc::T1 | Arc::T2) => {
                self.lists.put(Arc::T2, page);
                return false;
            }
            Some(Arc::B1) => {
                self.target = (self.target + (b2 / b1).max(1.0)).min(frames);
                self.replace(false);
                self.lists.put(Arc::T2, page);
            }
            Some(_) => {
                self.target = (self.target - (b1 / b2).max(1.0)).max(0.0);
                self.replace(true);
                self.lists.put(Arc::T2, page);
            }
            None => {
                let (t1, t2) = (self.lists.len(Arc::T1), self.lists.len(Arc::T2));
                let (b1, b2) = (self.lists.len(Arc::B1), self.lists.len(Arc::B2));
                if t1 + b1 == self.frames {
                    if t1 < self.frames {
                        self.drop_last(Arc::B1);
                        self.replace(false);
                    } else {
                        self.drop_last(Arc::T1);
                    }
                } else if t1 + t2 + b1 + b2 >= self.frames {
                    if t1 + t2 + b1 + b2 == 2 * self.frames {
                        self.drop_last(Arc::B2);
                    }
                    self.replace(false);
                }
                self.lists.put(Arc::T1, page);
            }
        }
        true
    }
}

/// LIRS (Jiang and Zhang, SIGMETRICS 2002), section 3.3. HIR pages have 1% of the frames. The
/// number of pages without a frame in the stack is not bounded.
struct Lirs {
    lir_frames: usize,
    hir_frames: usize,
    /// Stack S of recency.
    stack: Lists,
    /// Queue Q of HIR pages with a frame.
    queue: Lists,
    is_lir: Vec<bool>,
    lir: usize,
}

impl Lirs {
    fn new(frames: usize, pages: usize) -> Lirs {
        let hir_frames = (frames / 100).max(1);
        Lirs {
            lir_frames: frames - hir_frames,
            hir_frames,
            stack: Lists::new(pages, 1),
            queue: Lists::new(pages, 1),
            is_lir: vec![false; pages],
            lir: 0,
        }
    }

    /// Removes HIR pages from the bottom of the stack until a LIR page is there.
    fn prune(&mut self) {
        while let Some(last) = self.stack.last(0).filter(|page| !self.is_lir[*page as usize]) {
            self.stack.remove(last);
        }
    }

    /// Makes the LIR page at the bottom of the stack a HIR page.
    fn demote(&mut self) {
        if let Some(last) = self.stack.last(0) {
            self.is_lir[last as usize] = false;
            self.lir -= 1;
            self.stack.remove(last);
            self.queue.put(0, last);
            self.prune();
        }
    }

    fn promote(&mut self, page: u32) {
        self.is_lir[page as usize] = true;
        self.lir += 1;
        self.queue.remove(page);
        if self.lir > self.lir_frames {
            self.demote();
        }
    }
}

impl Peer for Lirs {
    fn misses(&mut self, page: u32) -> bool {
        let in_stack = self.stack.list_of(page).is_some();
        if self.is_lir[page as usize] {
            self.stack.put(0, page);
            self.prune();
            return false;
        }
        let hit = self.queue.list_of(page).is_some();
        if !hit && self.queue.len(0) == self.hir_frames {
            let last = self.queue.last(0).expect("a queue that is full");
            self.queue.remove(last);
        }
        self.stack.put(0, page);
        self.queue.put(0, page);
        if in_stack || !hit && self.lir < self.lir_frames {
            self.promote(page);
        }
        !hit
    }
}

/// SIEVE (Zhang et al., NSDI 2024), Algorithm 1.
struct Sieve {
    frames: usize,
    queue: Lists,
    visited: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    fn new(frames: usize, pages: usize) -> Sieve {
        Sieve { frames, queue: Lists::new(pages, 1), visited: vec![false; pages], hand: None }
    }

    fn evict(&mut self) {
        let oldest = |queue: &Lists| queue.last(0).expect("a queue that is full");
        let mut hand = self.hand.unwrap_or_else(|| oldest(&self.queue));
        while std::mem::take(&mut self.visited[hand as usize]) {
            hand = self.queue.newer(hand).unwrap_or_else(|| oldest(&self.queue));
        }
        self.hand = self.queue.newer(hand);
        self.queue.remove(hand);
    }
}

impl Peer for Sieve {
    fn misses(&mut self, page: u32) -> bool {
        if self.queue.list_of(page).is_some() {
            self.visited[page as usize] = true;
            return false;
        }
        if self.queue.len(0) == self.frames {
            self.evict();
        }
        self.queue.put(0, page);
        self.visited[page as usize] = false;
        true
    }
}

/// W-TinyLFU (Einziger et al., ACM Transactions on Storage 2017), section 4. It has a window of 1%
/// and a main cache with 80% protected. Counts of every page go up to 15, and are halved after ten
/// accesses a frame. They are exact, where the paper's are sketched.
struct TinyLfu {
    window: usize,
    protected: usize,
    main: usize,
    lists: Lists,
    count: Vec<u8>,
    counted: usize,
    sample: usize,
}

impl TinyLfu {
    const WINDOW: u8 = 0;
    const PROBATION: u8 = 1;
    const PROTECTED: u8 = 2;

    fn new(frames: usize, pages: usize) -> TinyLfu {
        let window = (frames / 100).max(1);
        let main = frames - window;
        TinyLfu {
            window,
            protected: main * 8 / 10,
            main,
            lists: Lists::new(pages, 3),
            count: vec![0; pages],
            counted: 0,
            sample: 10 * frames,
        }
    }

    fn count(&mut self, page: u32) {
        let count = &mut self.count[page as usize];
        *count = (*count + 1).min(15);
        self.counted += 1;
        if self.counted >= self.sample {
            self.counted /= 2;
            self.count.iter_mut().for_each(|count| *count /= 2);
        }
    }
}

impl Peer for TinyLfu {
    fn misses(&mut self, page: u32) -> bool {
        self.count(page);
        match self.lists.list_of(page) {
            Some(TinyLfu::WINDOW) => self.lists.put(TinyLfu::WINDOW, page),
            Some(_) => {
                self.lists.put(TinyLfu::PROTECTED, page);
                if self.lists.len(TinyLfu::PROTECTED) > self.protected {
                    let last = self.lists.last(TinyLfu::PROTECTED).expect("not empty");
                    self.lists.put(TinyLfu::PROBATION, last);
                }
            }
            None => {
                self.lists.put(TinyLfu::WINDOW, page);
                if self.lists.len(TinyLfu::WINDOW) > self.window {
                    let candidate = self.lists.last(TinyLfu::WINDOW).expect("not empty");
                    self.lists.put(TinyLfu::PROBATION, candidate);
                    let main =
                        self.lists.len(TinyLfu::PROBATION) + self.lists.len(TinyLfu::PROTECTED);
                    if main > self.main {
                        let victim = self.lists.last(TinyLfu::PROBATION).expect("not empty");
                        let count = |page: u32| self.count[page as usize];
                        let admitted = count(candidate) > count(victim);
                        self.lists.remove(if admitted { victim } else { candidate });
                    }
                }
                return true;
            }
        }
        false
    }
}
