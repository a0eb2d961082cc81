// SPDX-License-Identifier: GPL-2.0

//! What an element of a send queue says, and whether that makes sense.
//!
//! The fields in which an implementation may keep its progress are not looked at: the user library
//! leaves in them what an earlier request left there.

use rrxe_proto::{
    mtu::MAX_MESSAGE_LEN,
    opcode::Transport,
    rc::{
        Binding,
        Flush,
        Local,
        Operation,
        Registration,
        Request,
        RequestFlags, //
    },
    status::WcOpcode,
    ud::Destination,
    wire::{
        Placement,
        Selectivity, //
    },
    Access,
    Imm,
    Key,
    Qkey,
    Qpn, //
};
use zerocopy::{
    transmute,
    transmute_ref,
    IntoBytes, //
};

use super::{
    abi::{
        self,
        send_flags,
        wr_opcode,
        AtomicOperands,
        BindOperands,
        DatagramOperands,
        FlushOperands,
        RdmaOperands,
        RegisterOperands,
        Sge, //
    },
    element::{
        copy_sges,
        total,
        Element, //
    },
    InvalidWqe, //
};

/// Words before the gather elements or the inline data.
const HEAD_WORDS: usize = size_of::<abi::SendWqe>() / size_of::<u64>();

/// What stands in for a request that cannot be carried out.
const PLACEHOLDER: Request = {
    let flags = RequestFlags {
        signaled: true,
        solicited: false,
        fence: false,
    };
    match Request::new(Operation::Send, 0, flags) {
        Some(request) => request,
        // Evaluated by the compiler.
        None => panic!("a send may be empty"),
    }
};

/// Which work requests ask for a completion when they succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signalling {
    /// Those that say so.
    Requested,
    /// All.
    All,
}

/// Who posts work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poster {
    /// A user process.
    User,
    /// A consumer inside the kernel.
    Kernel,
}

/// What a send queue lets its user post.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendRules {
    /// Service of the queue pair.
    pub(crate) transport: Transport,
    /// Whose requests they are.
    pub(crate) poster: Poster,
    /// Which requests are reported.
    pub(crate) signalling: Signalling,
    /// Most gather elements of a request.
    pub(crate) max_sge: u32,
    /// Most bytes of data in a request itself.
    pub(crate) max_inline: u32,
}

/// A send request in private memory, but for its gather elements or inline data: those are kept
/// next to it, in cells of sixteen bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendWqe {
    wr_id: u64,
    opcode: WcOpcode,
    carrier: Carrier,
    request: Request,
    addressee: Option<Addressee>,
}

/// Whom a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addressee {
    /// Number of the address handle.
    pub(crate) handle: u32,
    /// Which queue pair there.
    pub(crate) destination: Destination,
}

/// Where a request's data is.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    /// In the first bytes of the cells.
    Inline(usize),
    /// In user memory, named by the first cells.
    Sges(usize),
}

/// Local side of a request: what is sent, or where what comes back goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalData<'a> {
    /// User memory. No element is empty.
    Sges(&'a [Sge]),
    /// A private copy of the data itself.
    Inline(&'a [u8]),
}

impl SendWqe {
    /// What a place holds that no request was stored in.
    pub(crate) const EMPTY: Self = Self {
        wr_id: 0,
        opcode: WcOpcode::Send,
        carrier: Carrier::Sges(0),
        request: PLACEHOLDER,
        addressee: None,
    };

    /// The user's name for the request.
    pub(crate) const fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// What its completion is of. A request that is none counts as a send.
    pub(crate) const fn opcode(&self) -> WcOpcode {
        self.opcode
    }

    /// What it asks for: an empty send if it turned out to be invalid.
    pub(crate) const fn request(&self) -> &Request {
        &self.request
    }

    /// Whom it is for, if it is a datagram.
    pub(crate) const fn addressee(&self) -> Option<Addressee> {
        self.addressee
    }

    /// Its local side, of which `cells` holds the elements or the data.
    pub(crate) fn local<'a>(&self, cells: &'a [Sge]) -> LocalData<'a> {
        match self.carrier {
            Carrier::Sges(count) => LocalData::Sges(cells.get(..count).unwrap_or_default()),
            Carrier::Inline(bytes) => {
                LocalData::Inline(cells.as_bytes().get(..bytes).unwrap_or_default())
            }
        }
    }

    /// Takes the request that `element` holds, and copies elements or data to `cells`, which has
    /// room for as many as `rules` admits.
    ///
    /// An invalid request still has its name and its kind, for the completion that reports it.
    pub(crate) fn load(
        element: &impl Element,
        rules: &SendRules,
        cells: &mut [Sge],
    ) -> (Self, Result<(), InvalidWqe>) {
        let head: abi::SendWqe = transmute!(element.words::<HEAD_WORDS>(0));
        let wqe = Self {
            wr_id: head.wr.wr_id,
            opcode: completion_opcode(head.wr.opcode),
            ..Self::EMPTY
        };
        let validated = validate(&head, rules).and_then(|(operation, flags, place)| {
            let addressee = addressee(&head.wr, rules.transport)?;
            let (carrier, len) = match place {
                Place::Inline => (
                    copy_inline(element, head.dma.length, cells),
                    head.dma.length,
                ),
                Place::Sges => gather(element, head.dma.num_sge, head.dma.length, cells)?,
                Place::Nowhere => (Carrier::Sges(0), 0),
            };
            let request = Request::new(operation, len, flags).ok_or(InvalidWqe::Length)?;
            Ok(Self {
                carrier,
                request,
                addressee,
                ..wqe
            })
        });
        match validated {
            Ok(wqe) => (wqe, Ok(())),
            Err(invalid) => (wqe, Err(invalid)),
        }
    }
}

/// Where the head of an element says that the data is.
enum Place {
    Inline,
    Sges,
    /// There is none: the length is that of something else.
    Nowhere,
}

/// Holds all of an element's head against the rules.
fn validate(
    head: &abi::SendWqe,
    rules: &SendRules,
) -> Result<(Operation, RequestFlags, Place), InvalidWqe> {
    let flags = head.wr.send_flags;
    if flags & !send_flags::ALL != 0 {
        return Err(InvalidWqe::UnknownFlags);
    }
    let operation = operation(head, rules)?;
    let place = place(head, &operation, rules)?;
    let flags = RequestFlags {
        signaled: rules.signalling == Signalling::All || flags & send_flags::SIGNALED != 0,
        solicited: flags & send_flags::SOLICITED != 0,
        fence: flags & send_flags::FENCE != 0,
    };
    Ok((operation, flags, place))
}

fn operation(head: &abi::SendWqe, rules: &SendRules) -> Result<Operation, InvalidWqe> {
    let wr = &head.wr;
    let rdma: &RdmaOperands = transmute_ref!(&wr.operands);
    let atomic: &AtomicOperands = transmute_ref!(&wr.operands);
    let (va, rkey) = (rdma.remote_addr, Key(rdma.rkey));

    Ok(match (wr.opcode, rules.transport) {
        (wr_opcode::SEND, _) => Operation::Send,
        (wr_opcode::SEND_WITH_IMM, _) => Operation::SendImm(Imm(wr.ex)),
        (wr_opcode::SEND_WITH_INV, Transport::Rc) => {
            Operation::SendInv(Key(u32::from_ne_bytes(wr.ex)))
        }
        (wr_opcode::RDMA_WRITE, Transport::Rc | Transport::Uc) => Operation::Write { va, rkey },
        (wr_opcode::RDMA_WRITE_WITH_IMM, Transport::Rc | Transport::Uc) => Operation::WriteImm {
            va,
            rkey,
            imm: Imm(wr.ex),
        },
        (wr_opcode::RDMA_READ, Transport::Rc) => Operation::Read { va, rkey },
        (wr_opcode::ATOMIC_CMP_AND_SWP, Transport::Rc) => Operation::CompareSwap {
            va,
            rkey: Key(atomic.rkey),
            compare: atomic.compare_add,
            swap: atomic.swap,
        },
        (wr_opcode::ATOMIC_FETCH_AND_ADD, Transport::Rc) => Operation::FetchAdd {
            va,
            rkey: Key(atomic.rkey),
            add: atomic.compare_add,
        },
        (wr_opcode::ATOMIC_WRITE, Transport::Rc) => Operation::AtomicWrite { va, rkey },
        (wr_opcode::FLUSH, Transport::Rc) => Operation::Flush(flush(wr, head.dma.length)?),
        (wr_opcode::LOCAL_INV, Transport::Rc | Transport::Uc) => {
            Operation::Local(Local::Invalidate(Key(u32::from_ne_bytes(wr.ex))))
        }
        (wr_opcode::BIND_MW, Transport::Rc | Transport::Uc) => {
            Operation::Local(Local::Bind(binding(wr)))
        }
        (wr_opcode::REG_MR, Transport::Rc) if rules.poster == Poster::Kernel => {
            Operation::Local(Local::Register(registration(wr)))
        }
        _ => return Err(InvalidWqe::Unsupported),
    })
}

fn registration(wr: &abi::SendWr) -> Registration {
    let register: &RegisterOperands = transmute_ref!(&wr.operands);
    Registration {
        key: Key(register.key),
        va: register.addr,
        access: Access::from_bits(register.access),
    }
}

fn flush(wr: &abi::SendWr, len: u32) -> Result<Flush, InvalidWqe> {
    let flush: &FlushOperands = transmute_ref!(&wr.operands);
    if len > MAX_MESSAGE_LEN {
        return Err(InvalidWqe::Length);
    }
    Ok(Flush {
        rkey: Key(flush.rkey),
        va: flush.remote_addr,
        len,
        placement: Placement::from_bits(flush.placement.into()).ok_or(InvalidWqe::Unsupported)?,
        selectivity: Selectivity::new(flush.selectivity).ok_or(InvalidWqe::Unsupported)?,
    })
}

fn binding(wr: &abi::SendWr) -> Binding {
    let bind: &BindOperands = transmute_ref!(&wr.operands);
    Binding {
        window: Key(bind.mw_rkey),
        tag: Key(bind.rkey).tag(),
        region: Key(bind.mr_lkey),
        va: bind.addr,
        len: bind.length,
        access: Access::from_bits(bind.access),
    }
}

/// Whom the request is for, if it is a datagram.
fn addressee(wr: &abi::SendWr, transport: Transport) -> Result<Option<Addressee>, InvalidWqe> {
    if transport != Transport::Ud {
        return Ok(None);
    }
    let datagram: &DatagramOperands = transmute_ref!(&wr.operands);
    // The address in the request itself would let its user send from any.
    if datagram.ah_num == 0 {
        return Err(InvalidWqe::Destination);
    }
    Ok(Some(Addressee {
        handle: datagram.ah_num,
        destination: Destination {
            qpn: Qpn::new(datagram.remote_qpn).ok_or(InvalidWqe::Destination)?,
            qkey: Qkey(datagram.remote_qkey),
        },
    }))
}

fn place(
    head: &abi::SendWqe,
    operation: &Operation,
    rules: &SendRules,
) -> Result<Place, InvalidWqe> {
    let dma = &head.dma;
    if let Operation::Flush(_) = operation {
        return Ok(Place::Nowhere);
    }
    // `ibv_wr_set_inline_data()` puts data into the element without a word in the flags. Nothing
    // else gives a length to a request without gather elements.
    let inline =
        head.wr.send_flags & send_flags::INLINE != 0 || (dma.num_sge == 0 && dma.length != 0);
    if !inline {
        if dma.num_sge > rules.max_sge {
            return Err(InvalidWqe::TooManySges);
        }
        return Ok(Place::Sges);
    }
    if !sends_data(operation) {
        return Err(InvalidWqe::Inline);
    }
    // `num_sge` is then the number of pieces that the user library put together.
    if dma.length > rules.max_inline {
        return Err(InvalidWqe::InlineLength);
    }
    Ok(Place::Inline)
}

/// Copies inline data to cells.
fn copy_inline(element: &impl Element, len: u32, cells: &mut [Sge]) -> Carrier {
    let len = len as usize;
    let used = len.div_ceil(size_of::<Sge>());
    for (index, cell) in cells.iter_mut().take(used).enumerate() {
        *cell = element.sge(HEAD_WORDS, index);
    }
    Carrier::Inline(len)
}

/// Copies gather elements to cells, and gives the length of the message that they make.
fn gather(
    element: &impl Element,
    count: u32,
    claimed: u32,
    cells: &mut [Sge],
) -> Result<(Carrier, u32), InvalidWqe> {
    let kept = copy_sges(element, HEAD_WORDS, count, cells);
    // The user library's sum is one of 32 bits.
    let len = u32::try_from(total(cells.get(..kept).unwrap_or_default()))
        .map_err(|_| InvalidWqe::Length)?;
    if len != claimed {
        return Err(InvalidWqe::LengthMismatch);
    }
    Ok((Carrier::Sges(kept), len))
}

/// Whether the operation sends data, which may then be inline.
const fn sends_data(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Send
            | Operation::SendImm(_)
            | Operation::SendInv(_)
            | Operation::Write { .. }
            | Operation::WriteImm { .. }
            | Operation::AtomicWrite { .. }
    )
}

const fn completion_opcode(opcode: u32) -> WcOpcode {
    match opcode {
        wr_opcode::RDMA_WRITE | wr_opcode::RDMA_WRITE_WITH_IMM => WcOpcode::RdmaWrite,
        wr_opcode::RDMA_READ => WcOpcode::RdmaRead,
        wr_opcode::ATOMIC_CMP_AND_SWP => WcOpcode::CompareSwap,
        wr_opcode::ATOMIC_FETCH_AND_ADD => WcOpcode::FetchAdd,
        wr_opcode::LOCAL_INV => WcOpcode::LocalInvalidate,
        wr_opcode::BIND_MW => WcOpcode::BindMw,
        wr_opcode::REG_MR => WcOpcode::RegisterMr,
        wr_opcode::FLUSH => WcOpcode::Flush,
        wr_opcode::ATOMIC_WRITE => WcOpcode::AtomicWrite,
        _ => WcOpcode::Send,
    }
}
