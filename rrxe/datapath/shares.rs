// SPDX-License-Identifier: GPL-2.0

//! What each user may take of something that there is only so much of.

use crate::kapi::process::User;
use kernel::{
    prelude::*,
    rbtree::RBTree, //
};

/// How much each user has taken.
pub(super) struct Shares {
    /// What one user may take.
    limit: u32,
    /// Those who have taken something.
    taken: RBTree<User, u32>,
}

impl Shares {
    /// Nobody has taken anything yet; `limit` is what one user may.
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            taken: RBTree::new(),
        }
    }

    /// Takes one for `user`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOSPC` if `user` has taken all it may, `ENOMEM`.
    pub(super) fn take(&mut self, user: User) -> Result {
        match self.taken.get_mut(&user) {
            Some(taken) if *taken >= self.limit => Err(ENOSPC),
            Some(taken) => {
                *taken = taken.saturating_add(1);
                Ok(())
            }
            None => self
                .taken
                .try_create_and_insert(user, 1, GFP_KERNEL)
                .map(drop),
        }
    }

    /// Gives back one that `user` has taken.
    pub(super) fn give_back(&mut self, user: User) {
        let left = self.taken.get_mut(&user).map(|taken| {
            *taken = taken.saturating_sub(1);
            *taken
        });
        if left == Some(0) {
            self.taken.remove(&user);
        }
    }
}
