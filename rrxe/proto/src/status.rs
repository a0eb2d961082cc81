// SPDX-License-Identifier: GPL-2.0

//! How work ends: what a responder tells its peer, and what a completion tells its reader.

/// Why a responder refuses a request. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing: send again from the PSN of the NAK.
    Sequence = 0,
    /// The request makes no sense here.
    InvalidRequest = 1,
    /// The request may not touch that memory.
    RemoteAccess = 2,
    /// The responder failed.
    RemoteOperational = 3,
    /// Refused by a reliable datagram context. Not sent here.
    InvalidRdRequest = 4,
}

impl NakCode {
    /// Takes a code from the wire, or `None` if it is reserved.
    pub const fn new(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Sequence,
            1 => Self::InvalidRequest,
            2 => Self::RemoteAccess,
            3 => Self::RemoteOperational,
            4 => Self::InvalidRdRequest,
            _ => return None,
        })
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The status the refused request completes with, or `None` if it is retried.
    pub const fn status(self) -> Option<WcStatus> {
        Some(match self {
            Self::Sequence => return None,
            Self::InvalidRequest => WcStatus::RemoteInvalidRequest,
            Self::RemoteAccess => WcStatus::RemoteAccess,
            Self::RemoteOperational => WcStatus::RemoteOperation,
            Self::InvalidRdRequest => WcStatus::RemoteInvalidRdRequest,
        })
    }
}

/// Status of a work completion. The numbers are those of the verbs' `ib_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WcStatus {
    /// Done.
    Success = 0,
    /// Longer than the local buffers or the longest message.
    LocalLength = 1,
    /// The work request makes no sense for its queue pair.
    LocalQpOperation = 2,
    /// Reliable datagram only.
    LocalEecOperation = 3,
    /// A local scatter or gather entry may not be used so.
    LocalProtection = 4,
    /// Not begun, or not ended, when the queue pair went to the error state.
    WrFlush = 5,
    /// A memory window could not be bound.
    MwBind = 6,
    /// The response is not one to the request.
    BadResponse = 7,
    /// A peer's write could not be done to local memory.
    LocalAccess = 8,
    /// The responder found the request invalid.
    RemoteInvalidRequest = 9,
    /// The responder found the access forbidden.
    RemoteAccess = 10,
    /// The responder failed.
    RemoteOperation = 11,
    /// The peer does not answer.
    RetryExceeded = 12,
    /// The peer posts no receive.
    RnrRetryExceeded = 13,
    /// Reliable datagram only.
    LocalRddViolation = 14,
    /// Reliable datagram only.
    RemoteInvalidRdRequest = 15,
    /// The responder gave up.
    RemoteAborted = 16,
    /// Reliable datagram only.
    InvalidEecn = 17,
    /// Reliable datagram only.
    InvalidEecState = 18,
    /// The device failed.
    Fatal = 19,
    /// No response in time.
    ResponseTimeout = 20,
    /// Anything else.
    General = 21,
}

impl WcStatus {
    /// The `ib_wc_status`.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

/// What a work completion is of. The numbers are those of the verbs' `ib_wc_opcode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum WcOpcode {
    /// A send, in any form.
    Send = 0,
    /// An RDMA write, with immediate data or without.
    RdmaWrite = 1,
    /// An RDMA read.
    RdmaRead = 2,
    /// An atomic compare and swap.
    CompareSwap = 3,
    /// An atomic fetch and add.
    FetchAdd = 4,
    /// The binding of a memory window.
    BindMw = 5,
    /// A local invalidation.
    LocalInvalidate = 6,
    /// A flush.
    Flush = 8,
    /// An atomic write.
    AtomicWrite = 9,
    /// A fast registration. The kernel's own users only.
    RegisterMr = 10,
    /// A receive filled by a send.
    Receive = 128,
    /// A receive used up by an RDMA write with immediate data.
    ReceiveRdmaWithImm = 129,
}

impl WcOpcode {
    /// The `ib_wc_opcode`.
    pub const fn code(self) -> u32 {
        self as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // PROTOCOL rule 5.
    #[test]
    fn nak_codes() {
        for code in 0..=4 {
            assert_eq!(NakCode::new(code).unwrap().code(), code);
        }
        assert!((5..=255).all(|code| NakCode::new(code).is_none()));
    }

    #[test]
    fn completions_have_the_numbers_of_the_verbs() {
        assert_eq!(WcStatus::LocalLength.code(), 1);
        assert_eq!(WcStatus::LocalQpOperation.code(), 2);
        assert_eq!(WcStatus::LocalProtection.code(), 4);
        assert_eq!(WcStatus::WrFlush.code(), 5);
        assert_eq!(WcStatus::MwBind.code(), 6);
        assert_eq!(WcStatus::BadResponse.code(), 7);
        assert_eq!(WcStatus::LocalAccess.code(), 8);
        assert_eq!(WcStatus::RemoteInvalidRequest.code(), 9);
        assert_eq!(WcStatus::RemoteAccess.code(), 10);
        assert_eq!(WcStatus::RemoteOperation.code(), 11);
        assert_eq!(WcStatus::RetryExceeded.code(), 12);
        assert_eq!(WcStatus::RnrRetryExceeded.code(), 13);
        assert_eq!(WcStatus::General.code(), 21);
        assert_eq!(WcOpcode::LocalInvalidate.code(), 6);
        assert_eq!(WcOpcode::Flush.code(), 8);
        assert_eq!(WcOpcode::AtomicWrite.code(), 9);
        assert_eq!(WcOpcode::Receive.code(), 0x80);
        assert_eq!(WcOpcode::ReceiveRdmaWithImm.code(), 0x81);
    }

    #[test]
    fn only_a_sequence_nak_is_retried() {
        assert_eq!(NakCode::Sequence.status(), None);
        assert_eq!(
            NakCode::InvalidRequest.status(),
            Some(WcStatus::RemoteInvalidRequest)
        );
        assert_eq!(NakCode::RemoteAccess.status(), Some(WcStatus::RemoteAccess));
        assert_eq!(
            NakCode::RemoteOperational.status(),
            Some(WcStatus::RemoteOperation)
        );
    }
}
