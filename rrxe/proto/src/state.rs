// SPDX-License-Identifier: GPL-2.0

//! States of a queue pair, and what a change of state needs and admits.

use core::{
    fmt,
    ops::BitOr, //
};

/// State of a queue pair. The numbers are those of the verbs' `ib_qp_state`.
///
/// ```text
/// RESET --> INIT --> RTR --> RTS <--> SQD
///                             |
///                             |  requester error, UC and UD
///                             v
///                            SQE --> RTS
///
/// any --> RESET, any but RESET --> ERR
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum QpState {
    /// As created.
    Reset = 0,
    /// Receives may be posted.
    Init = 1,
    /// Ready to receive.
    Rtr = 2,
    /// Ready to send, and to receive.
    Rts = 3,
    /// Send queue drained, or being drained.
    Sqd = 4,
    /// The send queue stands after an error; receives go on.
    Sqe = 5,
    /// All work is flushed.
    Error = 6,
}

impl QpState {
    /// All of them, by number.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::Rtr,
        Self::Rts,
        Self::Sqd,
        Self::Sqe,
        Self::Error,
    ];

    /// Takes an `ib_qp_state`, or `None` if it is none.
    pub fn from_ib(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// The `ib_qp_state`.
    pub const fn to_ib(self) -> u32 {
        self as u32
    }
}

/// What a queue pair offers, as far as its states go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// General services: a datagram queue pair whose port is given.
    Gsi,
}

/// Set of queue pair attributes. The bits are those of the verbs' `ib_qp_attr_mask`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct AttrMask(u32);

macro_rules! attributes {
    ($($(#[$doc:meta])* $name:ident = $bit:literal;)*) => {
        impl AttrMask {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*
        }

        impl fmt::Debug for AttrMask {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut set = f.debug_set();
                let mut rest = *self;
                $(
                    if self.contains(Self::$name) {
                        set.entry(&format_args!(stringify!($name)));
                        rest = rest.without(Self::$name);
                    }
                )*
                if rest != Self::NONE {
                    set.entry(&format_args!("{:#x}", rest.0));
                }
                set.finish()
            }
        }
    };
}

attributes! {
    /// The state to go to.
    STATE = 0;
    /// The state the caller believes to be the present one.
    CUR_STATE = 1;
    /// Whether to tell when the send queue is drained.
    EN_SQD_ASYNC_NOTIFY = 2;
    /// What a peer may do.
    ACCESS_FLAGS = 3;
    /// Index of the partition key.
    PKEY_INDEX = 4;
    /// The port.
    PORT = 5;
    /// The queue key.
    QKEY = 6;
    /// Address vector: the path to the peer.
    AV = 7;
    /// The path MTU.
    PATH_MTU = 8;
    /// Local ACK timeout.
    TIMEOUT = 9;
    /// Retries when nothing, or a sequence NAK, comes back.
    RETRY_CNT = 10;
    /// Retries when an RNR NAK comes back.
    RNR_RETRY = 11;
    /// The first PSN to be received.
    RQ_PSN = 12;
    /// Reads and atomics outstanding as requester.
    MAX_QP_RD_ATOMIC = 13;
    /// The alternate path.
    ALT_PATH = 14;
    /// What RNR NAKs ask a peer to wait.
    MIN_RNR_TIMER = 15;
    /// The first PSN to be sent.
    SQ_PSN = 16;
    /// Reads and atomics outstanding as responder.
    MAX_DEST_RD_ATOMIC = 17;
    /// State of the migration to the alternate path.
    PATH_MIG_STATE = 18;
    /// Sizes of the queues.
    CAP = 19;
    /// Number of the peer's queue pair.
    DEST_QPN = 20;
    /// Limit of the packet rate. No transition admits it here.
    RATE_LIMIT = 25;
}

impl AttrMask {
    /// No attribute.
    pub const NONE: Self = Self(0);

    /// Takes the bits as they are, named or not.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all attributes in `other` are in `self`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The attributes in `self` that are not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The attributes in either.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOr for AttrMask {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

/// Why a queue pair is not modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionError {
    /// There is no way from the one state to the other.
    Forbidden,
    /// These attributes must be given, and are not.
    Missing(AttrMask),
    /// These attributes are given, and must not be.
    Unexpected(AttrMask),
    /// The queue pair is not in the state that the caller believes.
    WrongState(QpState),
}

/// Decides whether `mask` is the right set of attributes for taking a queue pair from state `from`
/// to state `to`. To modify it without [`STATE`](AttrMask::STATE), let `to` be `from`.
///
/// # Errors
///
/// [`Forbidden`](TransitionError::Forbidden), [`Missing`](TransitionError::Missing),
/// [`Unexpected`](TransitionError::Unexpected): the first that holds.
pub fn check_transition(
    service: Service,
    from: QpState,
    to: QpState,
    mask: AttrMask,
) -> Result<(), TransitionError> {
    let attributes = attributes(service, from, to).ok_or(TransitionError::Forbidden)?;
    let missing = attributes.required.without(mask);
    if missing != AttrMask::NONE {
        return Err(TransitionError::Missing(missing));
    }
    let unexpected = mask
        .without(attributes.required)
        .without(attributes.optional)
        .without(AttrMask::STATE);
    if unexpected != AttrMask::NONE {
        return Err(TransitionError::Unexpected(unexpected));
    }
    Ok(())
}

/// Decides whether a caller that gave [`CUR_STATE`](AttrMask::CUR_STATE) as `believed` knows the
/// queue pair's state, `actual`.
///
/// # Errors
///
/// [`WrongState`](TransitionError::WrongState) with the actual state.
pub fn check_current(actual: QpState, believed: QpState) -> Result<(), TransitionError> {
    if actual != believed {
        return Err(TransitionError::WrongState(actual));
    }
    Ok(())
}

/// Attributes of a transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Those that must be given.
    pub required: AttrMask,
    /// Those that may be.
    pub optional: AttrMask,
}

/// The attributes of a transition, [`STATE`](AttrMask::STATE) aside, or `None` if there is no such
/// transition.
pub fn attributes(service: Service, from: QpState, to: QpState) -> Option<Attributes> {
    use QpState::{
        Error,
        Init,
        Reset,
        Rtr,
        Rts,
        Sqd,
        Sqe, //
    };

    if service == Service::Rc && (from, to) == (Sqe, Rts) {
        return None;
    }
    let by_service: &ByService = match (from, to) {
        (_, Reset) => &NOTHING,
        (Reset, Error) => return None,
        (_, Error) => &NOTHING,
        (Reset, Init) => &RESET_TO_INIT,
        (Init, Init) => &INIT_TO_INIT,
        (Init, Rtr) => &INIT_TO_RTR,
        (Rtr, Rts) => &RTR_TO_RTS,
        (Rts | Sqd, Rts) => &RTS_OR_SQD_TO_RTS,
        (Rts, Sqd) => &RTS_TO_SQD,
        (Sqd, Sqd) => &SQD_TO_SQD,
        (Sqe, Rts) => &SQE_TO_RTS,
        _ => return None,
    };
    Some(match service {
        Service::Rc => by_service.rc,
        Service::Uc => by_service.uc,
        Service::Ud => by_service.ud,
        Service::Gsi => by_service.gsi,
    })
}

struct ByService {
    rc: Attributes,
    uc: Attributes,
    ud: Attributes,
    gsi: Attributes,
}

/// A row of the table: each service with what it requires, and what it admits besides.
macro_rules! transition {
    ($($service:ident: [$($required:ident)*] [$($optional:ident)*],)*) => {
        ByService {
            $($service: Attributes {
                required: AttrMask::NONE $(.with(AttrMask::$required))*,
                optional: AttrMask::NONE $(.with(AttrMask::$optional))*,
            },)*
        }
    };
}

static NOTHING: ByService = transition! {
    rc: [] [],
    uc: [] [],
    ud: [] [],
    gsi: [] [],
};

static RESET_TO_INIT: ByService = transition! {
    rc: [PKEY_INDEX PORT ACCESS_FLAGS] [],
    uc: [PKEY_INDEX PORT ACCESS_FLAGS] [],
    ud: [PKEY_INDEX PORT QKEY] [],
    gsi: [PKEY_INDEX QKEY] [],
};

static INIT_TO_INIT: ByService = transition! {
    rc: [] [PKEY_INDEX PORT ACCESS_FLAGS],
    uc: [] [PKEY_INDEX PORT ACCESS_FLAGS],
    ud: [] [PKEY_INDEX PORT QKEY],
    gsi: [] [PKEY_INDEX QKEY],
};

static INIT_TO_RTR: ByService = transition! {
    rc: [AV PATH_MTU DEST_QPN RQ_PSN MAX_DEST_RD_ATOMIC MIN_RNR_TIMER]
        [ALT_PATH ACCESS_FLAGS PKEY_INDEX],
    uc: [AV PATH_MTU DEST_QPN RQ_PSN] [ALT_PATH ACCESS_FLAGS PKEY_INDEX],
    ud: [] [PKEY_INDEX QKEY],
    gsi: [] [PKEY_INDEX QKEY],
};

static RTR_TO_RTS: ByService = transition! {
    rc: [SQ_PSN TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC]
        [CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE],
    uc: [SQ_PSN] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE],
    ud: [SQ_PSN] [CUR_STATE QKEY],
    gsi: [SQ_PSN] [CUR_STATE QKEY],
};

static RTS_OR_SQD_TO_RTS: ByService = transition! {
    rc: [] [CUR_STATE ALT_PATH ACCESS_FLAGS MIN_RNR_TIMER PATH_MIG_STATE],
    uc: [] [CUR_STATE ALT_PATH ACCESS_FLAGS PATH_MIG_STATE],
    ud: [] [CUR_STATE QKEY],
    gsi: [] [CUR_STATE QKEY],
};

static RTS_TO_SQD: ByService = transition! {
    rc: [] [EN_SQD_ASYNC_NOTIFY],
    uc: [] [EN_SQD_ASYNC_NOTIFY],
    ud: [] [EN_SQD_ASYNC_NOTIFY],
    gsi: [] [EN_SQD_ASYNC_NOTIFY],
};

/// The kernel's system call adds PORT to AV, whatever the service.
static SQD_TO_SQD: ByService = transition! {
    rc: [] [
        PORT AV TIMEOUT RETRY_CNT RNR_RETRY MAX_QP_RD_ATOMIC MAX_DEST_RD_ATOMIC ALT_PATH
        ACCESS_FLAGS PKEY_INDEX MIN_RNR_TIMER PATH_MIG_STATE
    ],
    uc: [] [PORT AV ALT_PATH ACCESS_FLAGS PKEY_INDEX PATH_MIG_STATE],
    ud: [] [PKEY_INDEX QKEY],
    gsi: [] [PKEY_INDEX QKEY],
};

/// There is no row for reliable connections: their requesters' errors end in the error state.
static SQE_TO_RTS: ByService = transition! {
    rc: [] [],
    uc: [] [CUR_STATE ACCESS_FLAGS],
    ud: [] [CUR_STATE QKEY],
    gsi: [] [CUR_STATE QKEY],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_the_verbs() {
        for (code, state) in QpState::ALL.into_iter().enumerate() {
            assert_eq!(state.to_ib(), code as u32);
            assert_eq!(QpState::from_ib(code as u32), Some(state));
        }
        assert_eq!(QpState::from_ib(7), None);
    }

    // PROTOCOL requirement 21.
    #[test]
    fn the_believed_state_is_compared_with_the_actual_one() {
        assert_eq!(
            check_current(QpState::Rts, QpState::Rtr),
            Err(TransitionError::WrongState(QpState::Rts))
        );
        assert_eq!(check_current(QpState::Rts, QpState::Rts), Ok(()));
    }

    #[test]
    fn attributes_are_a_set() {
        let both = AttrMask::PORT | AttrMask::QKEY;
        assert_eq!(both | AttrMask::PORT, both);
        assert_eq!(both.bits(), 0x60);
    }

    #[test]
    fn an_error_names_the_attributes() {
        let given = AttrMask::STATE | AttrMask::PORT | AttrMask::QKEY;
        assert_eq!(
            check_transition(Service::Rc, QpState::Reset, QpState::Init, given),
            Err(TransitionError::Missing(
                AttrMask::PKEY_INDEX | AttrMask::ACCESS_FLAGS
            ))
        );
        let given = AttrMask::PKEY_INDEX | AttrMask::RATE_LIMIT | AttrMask::from_bits(1 << 31);
        let error = check_transition(Service::Rc, QpState::Init, QpState::Init, given);
        assert_eq!(
            format!("{error:?}"),
            "Err(Unexpected({RATE_LIMIT, 0x80000000}))"
        );
    }
}
