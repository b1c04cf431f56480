//! The states of a mapped page, and every transition between them.
//!
//! ```text
//! absent → reading → clean → unprotecting → dirty → protecting → cleaning → clean
//! clean → zapping → absent
//! ```
//!
//! Protecting, unprotecting and removing a page take a system call each. So each of them is a state
//! of its own, which begins before the call and ends after it. No store is lost, because a page
//! leaves only from *clean*. A clean page is write-protected, and its copy in the engine is
//! current.

/// Where a page of a mapped region is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// Only the engine has it.
    Absent = 0,
    /// A fiber reads it.
    Reading = 1,
    /// Mapped and write-protected. The engine has the same contents.
    Clean = 2,
    /// Mapped and writable.
    Dirty = 3,
    /// A call that makes it writable is under way.
    Unprotecting = 4,
    /// A call that write-protects it is under way.
    Protecting = 5,
    /// Mapped and write-protected. The engine does not have its contents yet.
    Cleaning = 6,
    /// A call that removes it is under way.
    Zapping = 7,
}

/// What happens to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A load faulted.
    LoadFault,
    /// A store faulted.
    StoreFault,
    /// Its contents are there, for a load.
    ArrivedForLoad,
    /// Its contents are there, for a store.
    ArrivedForStore,
    /// The call that makes it writable has returned.
    Unprotected,
    /// It is to be written to the engine.
    Clean,
    /// The call that write-protects it has returned.
    Protected,
    /// The engine has its contents.
    Copied,
    /// It is to leave.
    Evict,
    /// The call that removes it has returned.
    Zapped,
}

/// What the caller of a transition does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Make the access again.
    Retry,
    /// Wait until the page has arrived, then make the access again.
    AwaitArrival,
    /// Wait for a system call of another core, then look again.
    AwaitCall,
    /// Read the page.
    Read,
    /// Make the page writable.
    Unprotect,
    /// Write-protect the page.
    Protect,
    /// Give the engine the contents.
    Copy,
    /// Remove the page.
    Zap,
    /// Wake the fibers that wait for the page.
    Wake,
    /// The page keeps its state, and the caller leaves it alone.
    LeaveAlone,
    /// Nothing is left to do.
    Done,
}

impl State {
    /// All states.
    pub(crate) const ALL: [State; 8] = [
        State::Absent,
        State::Reading,
        State::Clean,
        State::Dirty,
        State::Unprotecting,
        State::Protecting,
        State::Cleaning,
        State::Zapping,
    ];

    /// True if loads need no fault.
    pub(crate) fn is_mapped(self) -> bool {
        !matches!(self, State::Absent | State::Reading | State::Zapping)
    }

    /// Returns the state after `event`, and what its caller does next. `None` if the event cannot
    /// occur in this state.
    pub(crate) fn after(self, event: Event) -> Option<(State, Action)> {
        use {Action as A, Event as E, State as S};
        let next = match (event, self) {
            (E::LoadFault | E::StoreFault, S::Absent) => (S::Reading, A::Read),
            (E::LoadFault | E::StoreFault, S::Reading) => (S::Reading, A::AwaitArrival),
            (E::LoadFault | E::StoreFault, S::Zapping) => (S::Zapping, A::AwaitCall),
            // Another core has mapped it since.
            (E::LoadFault, mapped) => (mapped, A::Retry),
            (E::StoreFault, S::Dirty) => (S::Dirty, A::Retry),
            // The copy that is being made counts for nothing: the page is dirty again.
            (E::StoreFault, S::Clean | S::Cleaning) => (S::Unprotecting, A::Unprotect),
            (E::StoreFault, busy @ (S::Unprotecting | S::Protecting)) => (busy, A::AwaitCall),
            (E::ArrivedForLoad, S::Reading) => (S::Clean, A::Wake),
            (E::ArrivedForStore, S::Reading) => (S::Dirty, A::Wake),
            (E::Unprotected, S::Unprotecting) => (S::Dirty, A::Done),
            (E::Clean, S::Dirty) => (S::Protecting, A::Protect),
            (E::Protected, S::Protecting) => (S::Cleaning, A::Copy),
            (E::Copied, S::Cleaning) => (S::Clean, A::Done),
            (E::Evict, S::Clean) => (S::Zapping, A::Zap),
            (E::Zapped, S::Zapping) => (S::Absent, A::Done),
            // A fault has changed its state since the evictor looked.
            (E::Clean | E::Evict | E::Copied, other) => (other, A::LeaveAlone),
            (E::ArrivedForLoad | E::ArrivedForStore, _) => return None,
            (E::Unprotected | E::Protected | E::Zapped, _) => return None,
        };
        Some(next)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const EVENTS: [Event; 10] = [
        Event::LoadFault,
        Event::StoreFault,
        Event::ArrivedForLoad,
        Event::ArrivedForStore,
        Event::Unprotected,
        Event::Clean,
        Event::Protected,
        Event::Copied,
        Event::Evict,
        Event::Zapped,
    ];

    /// Every state with every event. A letter is the next state, and the action is behind it.
    #[test]
    fn every_transition_is_as_the_table_says() {
        let table = "
            event          absent    reading   clean     dirty     unprot    prot      cleaning  zapping
            LoadFault      R:Read    R:AwaitArrival C:Retry D:Retry U:Retry  P:Retry   L:Retry   Z:AwaitCall
            StoreFault     R:Read    R:AwaitArrival U:Unprotect D:Retry U:AwaitCall P:AwaitCall U:Unprotect Z:AwaitCall
            ArrivedForLoad -         C:Wake    -         -         -         -         -         -
            ArrivedForStore -        D:Wake    -         -         -         -         -         -
            Unprotected    -         -         -         -         D:Done    -         -         -
            Clean          A:LeaveAlone R:LeaveAlone C:LeaveAlone P:Protect U:LeaveAlone P:LeaveAlone L:LeaveAlone Z:LeaveAlone
            Protected      -         -         -         -         -         L:Copy    -         -
            Copied         A:LeaveAlone R:LeaveAlone C:LeaveAlone D:LeaveAlone U:LeaveAlone P:LeaveAlone C:Done Z:LeaveAlone
            Evict          A:LeaveAlone R:LeaveAlone Z:Zap D:LeaveAlone U:LeaveAlone P:LeaveAlone L:LeaveAlone Z:LeaveAlone
            Zapped         -         -         -         -         -         -         -         A:Done";
        let letters = "ARCDUPLZ";
        let rows: Vec<Vec<&str>> =
            table.trim().lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), EVENTS.len());
        for (row, event) in rows.iter().zip(EVENTS) {
            assert_eq!(row[0], format!("{event:?}"));
            for (cell, state) in row[1..].iter().zip(State::ALL) {
                let got = state.after(event).map_or("-".to_string(), |(next, action)| {
                    format!("{}:{action:?}", &letters[next as usize..][..1])
                });
                assert_eq!(got, *cell, "{state:?} on {event:?}");
            }
        }
    }

    #[test]
    fn a_page_leaves_only_when_it_is_clean_and_is_writable_only_when_it_is_dirty() {
        for (state, event) in State::ALL.iter().flat_map(|s| EVENTS.map(|event| (*s, event))) {
            let Some((next, _)) = state.after(event) else { continue };
            if next == State::Zapping && state != State::Zapping {
                assert_eq!(state, State::Clean);
            }
            if next == State::Clean && state != State::Clean {
                assert!(matches!(state, State::Reading | State::Cleaning), "{state:?}");
            }
            if next == State::Dirty && state != State::Dirty {
                assert!(matches!(state, State::Reading | State::Unprotecting), "{state:?}");
            }
        }
    }
}
