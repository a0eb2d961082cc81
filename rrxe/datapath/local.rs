// SPDX-License-Identifier: GPL-2.0

//! Local operations: work requests that are carried out without the peer.

use super::qp::Qp;
use rrxe_proto::rc::{
    Local,
    LocalFailed, //
};

/// Carries out `local`, which was posted to `qp`.
pub(super) fn execute(qp: &Qp, local: &Local) -> Result<(), LocalFailed> {
    let memory = qp.memory();
    match local {
        Local::Invalidate(key) => memory.invalidate(*key),
        Local::Bind(binding) => memory.bind(binding),
        Local::Register(registration) => memory.register(registration),
    }
}
