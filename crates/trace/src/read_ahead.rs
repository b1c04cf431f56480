//! [`ReadAhead`]: a source that is read on a thread of its own.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::{Access, Source, TraceError};

/// Batches that are read before they are asked for: one in use, one ready, one being read.
const BATCHES: usize = 1;

/// What a call of [`Source::fill`] gave.
type Filled = (Vec<Access>, Result<bool, TraceError>);

/// A source read ahead by a few batches, so that reading and decoding a trace go on while it is
/// worked with. Memory stays bounded.
pub struct ReadAhead {
    filled: Receiver<Filled>,
    /// Batches go back to be filled again.
    used: Sender<Vec<Access>>,
    /// Until the source has ended.
    reader: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins to read `source`.
    pub fn new(source: impl Source + Send + 'static) -> ReadAhead {
        let (give, filled) = sync_channel(BATCHES);
        let (used, take) = channel();
        let reader = thread::spawn(move || read(source, &give, &take));
        ReadAhead { filled, used, reader: Some(reader) }
    }
}

/// Fills batches until the source ends or nobody wants them any more.
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
                // The reader needs it no more once it has ended.
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
