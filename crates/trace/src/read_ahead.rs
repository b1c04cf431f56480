//! [`ReadAhead`]: a source that another thread reads ahead.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::{Access, Source, TraceError};

/// The capacity of the channel of batches. One batch is in use, one is ready, one is being read.
const BATCHES: usize = 1;

/// The result of a call of [`Source::fill`].
type Filled = (Vec<Access>, Result<bool, TraceError>);

/// A source that a thread reads ahead by a few batches, so that reading and decoding a trace
/// overlap with its use. Memory stays bounded.
pub struct ReadAhead {
    filled: Receiver<Filled>,
    /// Returns batches for reuse.
    used: Sender<Vec<Access>>,
    /// `None` once the source has ended.
    reader: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Starts the thread that reads `source`.
    pub fn new(source: impl Source + Send + 'static) -> ReadAhead {
        let (give, filled) = sync_channel(BATCHES);
        let (used, take) = channel();
        let reader = thread::spawn(move || read(source, &give, &take));
        ReadAhead { filled, used, reader: Some(reader) }
    }
}

/// Fills batches until the source ends or the receiver is dropped.
fn read(mut source: impl Source, give: &SyncSender<Filled>, used: &Receiver<Vec<Access>>) {
    loop {
        let mut batch = used.try_recv().unwrap_or_default();
        let result = source.fill(&mut batch);
        let goes_on = matches!(result, Ok(true));
        if give.send((batch, result)).is_err() || !goes_on {
            return;
        }
    }
}

impl Source for ReadAhead {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        match self.filled.recv() {
            Ok((filled, result)) => {
                // The thread may have ended and not take it.
                let _ = self.used.send(std::mem::replace(batch, filled));
                result
            }
            Err(_) => {
                batch.clear();
                if let Some(Err(panic)) = self.reader.take().map(JoinHandle::join) {
                    resume_unwind(panic);
                }
                Ok(false)
            }
        }
    }
}
