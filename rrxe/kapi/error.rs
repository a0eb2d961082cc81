// SPDX-License-Identifier: GPL-2.0

//! Error codes that `kernel::error::code` lacks.

use crate::kapi::bindings as b;
use kernel::prelude::*;

/// Operation not supported by this kind of object.
pub(crate) fn eopnotsupp() -> Error {
    Error::from_errno(-(b::EOPNOTSUPP as c_int))
}
