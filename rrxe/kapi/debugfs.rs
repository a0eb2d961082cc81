// SPDX-License-Identifier: GPL-2.0

//! The module's directory in debugfs.

use kernel::{
    debugfs::Dir,
    global_lock,
    prelude::*,
    str::CStr,
    sync::SetOnce, //
};

global_lock! {
    // SAFETY: Only used by `Root::new`, which initializes it, and once that is done.
    unsafe(uninit) static ROOT: Mutex<Option<Dir>> = None;
}

/// Set when `ROOT` is initialized.
static READY: SetOnce<()> = SetOnce::new();

/// The directory, for as long as this exists and anything is in it.
pub(crate) struct Root(());

impl Root {
    /// Makes the directory `name`. `EBUSY` but for the first time in the life of the module.
    ///
    /// If debugfs does not let it be made, nothing appears there, and that is no error.
    pub(crate) fn new(name: &CStr) -> Result<Self> {
        static CLAIMED: SetOnce<()> = SetOnce::new();

        if !CLAIMED.populate(()) {
            return Err(EBUSY);
        }
        // SAFETY: Only one caller gets here, once.
        unsafe { ROOT.init() };
        *ROOT.lock() = Some(Dir::new(name));
        READY.populate(());
        Ok(Self(()))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let root = ROOT.lock().take();
        // Not with the lock held: this may wait for readers.
        drop(root);
    }
}

/// A directory in that of the module, which goes with the last of its files. `ENODEV` if the module
/// has none. Process context, may sleep.
pub(crate) fn subdirectory(name: &CStr) -> Result<Dir> {
    READY.as_ref().ok_or(ENODEV)?;
    let root = ROOT.lock();
    root.as_ref().map(|root| root.subdir(name)).ok_or(ENODEV)
}
