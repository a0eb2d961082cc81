// SPDX-License-Identifier: GPL-2.0

//! Local operations: work requests that are carried out without the peer.

use super::qp::Qp;
use rrxe_proto::rc::{
    Local,
    LocalFailed, //
};

/// Carries out `local`, which was posted to `qp`.
pub(super) fn execute(_qp: &Qp, local: &Local) -> Result<(), LocalFailed> {
    match local {
        // No key can be made invalid yet, and there are no windows.
        Local::Invalidate(_) | Local::Bind(_) => Err(LocalFailed),
    }
}
