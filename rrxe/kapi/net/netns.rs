// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use crate::kapi::{
    bindings as b,
    counted::counted, //
};
use kernel::types::Opaque;

/// A network namespace that is in use.
///
/// Holding a reference keeps it from being torn down: hold one for the length of an operation, never
/// in anything that the tear-down is to remove.
///
/// # Invariants
///
/// The C object's reference count is not zero while a reference to it exists.
#[repr(transparent)]
pub(crate) struct Net(Opaque<b::net>);

counted!(Net(net), b::helpers::get_net, b::helpers::put_net);
