// SPDX-License-Identifier: GPL-2.0

//! Completing work requests that will not be carried out.

use super::cq::{
    Cq,
    Full, //
};
use crate::ring::Wc;
use core::time::Duration;

/// How soon to look again for requests to flush, or for room to report them.
const FIRST_DELAY: Duration = Duration::from_millis(10);

/// How often the delay doubles while nothing changes.
const DOUBLINGS: u32 = 7;

/// Reports flushed requests, of which there may be more than the completion queue has room for.
///
/// User space neither tells when it posts a receive nor when it polls completions. So whoever
/// flushes has to look again and again, less and less often.
#[derive(Default)]
pub(super) struct Flush {
    /// A completion that found no room.
    parked: Option<Wc>,
    /// How often in a row there was nothing to do.
    idle: u32,
}

impl Flush {
    /// Reports `wc`, now or, if there is no room, before anything else is reported.
    pub(super) fn post(&mut self, cq: &Cq, wc: Wc) -> Result<(), Full> {
        self.idle = 0;
        cq.post_if_room(&wc).inspect_err(|_| self.parked = Some(wc))
    }

    /// Reports what found no room the last time.
    pub(super) fn settle(&mut self, cq: &Cq) -> Result<(), Full> {
        match self.parked.take() {
            Some(wc) => self.post(cq, wc),
            None => Ok(()),
        }
    }

    /// When to look again.
    pub(super) fn delay(&mut self) -> Duration {
        let delay = FIRST_DELAY.saturating_mul(1 << self.idle.min(DOUBLINGS));
        self.idle = self.idle.saturating_add(1);
        delay
    }
}
