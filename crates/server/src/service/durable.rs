//! Holds replies until the changes that they report are durable.

use ebbtide_core::durability::Lsn;

use super::CoreService;
use crate::client::Client;
use crate::clock::now_ms;
use crate::failure::Failure;

impl CoreService {
    /// Sends the replies whose changes have become durable.
    pub(super) fn release(&self) {
        if self.held.borrow().is_empty() && self.state.shared.saving().is_none() {
            return;
        }
        let Some(progress) = (self.progress)() else { return };
        let ended = progress.gives_up().cloned().map(Failure::from);
        let news = progress.acknowledged > self.acknowledged.get()
            || progress.durable > self.durable.get();
        self.acknowledged.set(progress.acknowledged);
        self.durable.set(progress.durable);
        // The changes of a save may have been durable before the save began.
        self.state.shared.saved(progress.durable, now_ms());
        if !news && ended.is_none() {
            return;
        }
        let held = std::mem::take(&mut *self.held.borrow_mut());
        for index in held {
            if let Some(failure) = &ended {
                self.give_up(index, failure);
            }
            self.advance(index);
        }
    }

    /// Reports to the operator when changes can no longer be saved, and when they can again.
    pub(super) fn watch_log(&self) {
        let Some(progress) = (self.progress)() else { return };
        let reason = progress.refused.map(|error| error.to_string());
        let mut unsaved = self.state.shared.unsaved.lock();
        if *unsaved == reason {
            return;
        }
        let text = match &reason {
            Some(reason) => format!("changes are refused, reads of saved values go on: {reason}"),
            None => "changes are taken and saved again".into(),
        };
        self.state.journal().tell("unsaved", text);
        *unsaved = reason;
    }

    /// Fails the replies of a connection that wait for changes that will never be durable.
    fn give_up(&self, index: usize, failure: &Failure) {
        let mut connections = self.connections.borrow_mut();
        let connection = connections.get_mut(index).and_then(Option::as_mut);
        let client = connection.and_then(|connection| connection.client.as_mut());
        if let Some(client) = client.filter(|client| self.waits(client)) {
            client.fail_all(failure);
            client.session.written = Lsn::ZERO;
            client.session.saved = Lsn::ZERO;
        }
    }

    /// True if a client's replies must wait for the log.
    pub(super) fn waits(&self, client: &Client) -> bool {
        let session = &client.session;
        session.written > self.acknowledged.get() || session.saved > self.durable.get()
    }
}
