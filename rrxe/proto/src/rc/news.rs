// SPDX-License-Identifier: GPL-2.0

//! What a receive side has to tell its consumer.

use crate::rc::task::{Event, Failure};

/// Events to be told, each once.
#[derive(Debug)]
pub(crate) struct News {
    contact: Contact,
    failure: Option<Failure>,
}

/// Whether the first request has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contact {
    None,
    Made,
    Told,
}

impl News {
    /// Nothing has happened.
    pub(crate) const fn new() -> Self {
        Self {
            contact: Contact::None,
            failure: None,
        }
    }

    /// A request that is due has arrived.
    pub(crate) fn arrived(&mut self) {
        if self.contact == Contact::None {
            self.contact = Contact::Made;
        }
    }

    /// The receive side has failed.
    pub(crate) fn failed(&mut self, failure: Failure) {
        self.failure = Some(failure);
    }

    /// The next event.
    pub(crate) fn poll(&mut self) -> Option<Event> {
        if self.contact == Contact::Made {
            self.contact = Contact::Told;
            return Some(Event::CommunicationEstablished);
        }
        self.failure.take().map(Event::Failed)
    }
}
