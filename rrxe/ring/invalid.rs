// SPDX-License-Identifier: GPL-2.0

//! Work requests that make no sense.

use rrxe_proto::status::WcStatus;

/// Why a work request cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidWqe {
    /// No such operation, or not one of this service, or not one for user space, or not in this form.
    Unsupported,
    /// No such flag.
    UnknownFlags,
    /// The operation takes no inline data.
    Inline,
    /// More inline data than the queue has room for.
    InlineLength,
    /// More gather or scatter elements than the queue has room for.
    TooManySges,
    /// The elements do not add up to the length that is given.
    LengthMismatch,
    /// Longer than any message, or an atomic on other than eight bytes, or data for what takes none.
    Length,
    /// A datagram to a queue pair that cannot be, or without an address handle.
    Destination,
}

impl InvalidWqe {
    /// What the request completes with.
    pub(crate) const fn status(self) -> WcStatus {
        match self {
            Self::Unsupported
            | Self::UnknownFlags
            | Self::Inline
            | Self::TooManySges
            | Self::Destination => WcStatus::LocalQpOperation,
            Self::InlineLength | Self::LengthMismatch | Self::Length => WcStatus::LocalLength,
        }
    }
}
