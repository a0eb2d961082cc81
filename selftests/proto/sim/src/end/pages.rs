// SPDX-License-Identifier: GPL-2.0

//! Local memory whose pages come when they are needed: what is sent may have to wait for its data.

use std::collections::HashMap;

use crate::{
    agenda::Nanos,
    rng::Rng,
    scenario::Paging, //
};

/// A page: of a work, what a packet of it carries.
pub type Page = (usize, u32);

/// The pages of all that is sent.
#[derive(Debug)]
pub struct Pages {
    plan: Paging,
    /// When those are there that somebody has asked for.
    coming: HashMap<Page, Nanos>,
    rng: Rng,
}

impl Pages {
    pub(super) fn new(plan: Paging, rng: Rng) -> Self {
        Self {
            plan,
            coming: HashMap::new(),
            rng,
        }
    }

    /// Asks for `page`. If it is not there, when it will be comes back. One that has come may be gone
    /// again when it is asked for once more.
    pub(super) fn ask(&mut self, now: Nanos, page: Page) -> Result<(), Nanos> {
        match self.coming.get(&page) {
            Some(&at) if at > now => Err(at),
            Some(_) => {
                self.coming.remove(&page);
                Ok(())
            }
            None if self.rng.chance(self.plan.missing_per_mille) => {
                let at = now + self.rng.range(1, self.plan.longest);
                self.coming.insert(page, at);
                Err(at)
            }
            None => Ok(()),
        }
    }
}
