//! [`Recent`]: the pages that stay for a fiber, so that an instruction that needs several of them
//! ends.

/// Pages that one instruction can need at once: two operands, each across two pages.
pub(super) const PAGES_OF_INSTRUCTION: usize = 4;

/// The pages that a fiber's last instruction faulted on.
#[derive(Default)]
pub(super) struct Recent {
    instruction: usize,
    tokens: [Option<u32>; PAGES_OF_INSTRUCTION],
    next: usize,
}

impl Recent {
    /// Adds the page of `token` for `instruction`. Calls `release` for each page that need not stay
    /// any more: those of another instruction, or the oldest of this one.
    pub(super) fn add(&mut self, instruction: usize, token: u32, mut release: impl FnMut(u32)) {
        if self.instruction != instruction {
            self.instruction = instruction;
            self.tokens.iter_mut().filter_map(Option::take).for_each(&mut release);
        }
        if let Some(oldest) = self.tokens[self.next].replace(token) {
            release(oldest);
        }
        self.next = (self.next + 1) % PAGES_OF_INSTRUCTION;
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_four_pages_of_an_instruction_stay_and_those_of_another_go() {
        let (mut recent, mut released) = (Recent::default(), Vec::new());
        for token in 0..6 {
            recent.add(100, token, |token| released.push(token));
        }
        assert_eq!(released, [0, 1]);
        recent.add(200, 6, |token| released.push(token));
        released[2..].sort_unstable();
        assert_eq!(released, [0, 1, 2, 3, 4, 5]);
    }
}
