// SPDX-License-Identifier: GPL-2.0

//! Packets of one request to be sent in a row.

use crate::{
    key::Pkey,
    mtu::PathMtu,
    opcode::Position,
    psn::Psn,
    qpn::Qpn,
    rc::{
        cursor::byte_offset,
        request::{Operation, Request, WqeSeq}, //
    },
    wire::{
        AtomicEth,
        Deth,
        HeaderSpec,
        Kind,
        RcRequest,
        Reth,
        SendEnd,
        SendPart,
        UcRequest,
        WritePart, //
    },
};

/// Packets of one request to be sent in a row.
///
/// All but the last packet of a message carry a full path MTU of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPlan {
    wqe: WqeSeq,
    request: Request,
    mtu: PathMtu,
    psn: Psn,
    first: u32,
    count: u32,
    /// Responses that a READ asks for at most.
    responses: u32,
    repeated: u32,
    ack_request: AckRequest,
    service: Service,
}

/// What kind of queue pair a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Reliable,
    Unreliable,
    Datagram(Deth),
}

/// Whether the last packet of a plan asks for an acknowledgement. No other does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckRequest {
    Yes,
    No,
}

/// One packet of a [`RequestPlan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPacket {
    /// What the packet is.
    pub kind: Kind,
    /// Its PSN.
    pub psn: Psn,
    /// Where its payload starts in the message, in bytes.
    pub offset: u32,
    /// Bytes of payload.
    pub len: u32,
    /// AckReq.
    pub ack_request: bool,
    /// SE.
    pub solicited: bool,
}

impl RequestPlan {
    /// Packets `first` and following of `request`, `count` of them. A READ is one packet, and asks
    /// for responses `first` and following to its end.
    pub(super) fn new(
        wqe: WqeSeq,
        request: &Request,
        mtu: PathMtu,
        (first, psn): (u32, Psn),
        count: u32,
        ack_request: AckRequest,
    ) -> Self {
        Self {
            wqe,
            request: *request,
            mtu,
            psn,
            first,
            count,
            responses: u32::MAX,
            repeated: 0,
            ack_request,
            service: Service::Reliable,
        }
    }

    /// The same for a READ that asks for no more than `responses` of the responses.
    pub(super) fn asking_for(self, responses: u32) -> Self {
        Self { responses, ..self }
    }

    /// The same, of which the first `packets` packets have been sent before, if there are so many.
    pub(super) fn repeating(self, packets: u32) -> Self {
        Self {
            repeated: packets.min(self.count),
            ..self
        }
    }

    /// The same on an unreliable connection, or `None` if the operation is none for it.
    pub(crate) fn unreliable(self) -> Option<Self> {
        let plan = Self {
            ack_request: AckRequest::No,
            service: Service::Unreliable,
            ..self
        };
        plan.packet(0).map(|_| plan)
    }

    /// The same of an [unreliable](Self::unreliable) plan as datagrams that show `deth`, or `None` if
    /// the operation is none for them.
    pub(crate) fn datagram(self, deth: Deth) -> Option<Self> {
        let plan = Self {
            service: Service::Datagram(deth),
            ..self
        };
        plan.packet(0).map(|_| plan)
    }

    /// The request.
    pub fn wqe(&self) -> WqeSeq {
        self.wqe
    }

    /// What it asks for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The PSN of the first packet.
    pub fn psn(&self) -> Psn {
        self.psn
    }

    /// The index of the first packet in its message. Of a READ: of the response.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Packets to send, at least one.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Packets of it that have been sent before: the first ones.
    pub fn repeated(&self) -> u32 {
        self.repeated
    }

    /// Whether its last packet asks for an acknowledgement.
    pub(super) fn ack_request(&self) -> AckRequest {
        self.ack_request
    }

    /// Where the payload of the plan starts in the message, in bytes.
    pub fn offset(&self) -> u32 {
        byte_offset(self.first, self.mtu)
    }

    /// Packet `index` of the plan, or `None` past its end.
    pub fn packet(&self, index: u32) -> Option<RequestPacket> {
        if index >= self.count {
            return None;
        }
        let len = self.request.len();
        let packet = self.first.saturating_add(index);
        let offset = byte_offset(packet, self.mtu);
        let position = Position::of(packet, self.mtu.packets(len));
        let request = match self.request.operation() {
            Operation::Send => send(position, SendEnd::Plain),
            Operation::SendImm(imm) => send(position, SendEnd::Imm(imm)),
            Operation::SendInv(key) => send(position, SendEnd::Invalidate(key)),
            Operation::Write { va, rkey } => {
                RcRequest::Write(WritePart::new(position, Reth::new(va, rkey, len), None))
            }
            Operation::WriteImm { va, rkey, imm } => RcRequest::Write(WritePart::new(
                position,
                Reth::new(va, rkey, len),
                Some(imm),
            )),
            // A READ that is sent again asks for no more than is missing.
            Operation::Read { va, rkey } => RcRequest::Read(Reth::new(
                va.wrapping_add(u64::from(offset)),
                rkey,
                len.saturating_sub(offset)
                    .min(byte_offset(self.responses, self.mtu)),
            )),
            Operation::CompareSwap {
                va,
                rkey,
                compare,
                swap,
            } => RcRequest::CompareSwap(AtomicEth::compare_swap(va, rkey, compare, swap)),
            Operation::FetchAdd { va, rkey, add } => {
                RcRequest::FetchAdd(AtomicEth::fetch_add(va, rkey, add))
            }
            Operation::Flush(flush) => {
                let (feth, reth) = flush.headers();
                RcRequest::Flush(feth, reth)
            }
            Operation::AtomicWrite { va, rkey } => RcRequest::AtomicWrite(Reth::new(va, rkey, len)),
            Operation::Local(_) => return None,
        };
        let payload = match request {
            RcRequest::Send(_) | RcRequest::Write(_) | RcRequest::AtomicWrite(_) => {
                self.mtu.payload_of(packet, len)
            }
            _ => 0,
        };
        let solicited = self.request.flags().solicited && completes_receive(&request);
        Some(RequestPacket {
            kind: match self.service {
                Service::Reliable => Kind::RcRequest(request),
                Service::Unreliable => Kind::Uc(UcRequest::from_rc(&request)?),
                Service::Datagram(deth) => datagram(deth, &request)?,
            },
            psn: self.psn.wrapping_add(index),
            offset,
            len: payload,
            ack_request: self.ack_request == AckRequest::Yes
                && index.saturating_add(1) == self.count,
            solicited,
        })
    }

    /// The packets in the order of their PSNs.
    pub fn packets(&self) -> impl Iterator<Item = RequestPacket> + '_ {
        (0..self.count).filter_map(|index| self.packet(index))
    }
}

impl RequestPacket {
    /// All that the headers tell, in a packet to `dest_qp` in the partition `pkey`.
    pub fn header(&self, dest_qp: Qpn, pkey: Pkey) -> HeaderSpec {
        HeaderSpec {
            pkey,
            solicited: self.solicited,
            ack_request: self.ack_request,
            ..HeaderSpec::new(self.kind, dest_qp, self.psn)
        }
    }
}

fn send(position: Position, end: SendEnd) -> RcRequest {
    RcRequest::Send(SendPart::new(position, end))
}

/// The datagram with the message that `request` is all of.
fn datagram(deth: Deth, request: &RcRequest) -> Option<Kind> {
    match *request {
        RcRequest::Send(SendPart::Only(SendEnd::Plain)) => Some(Kind::Ud(deth, None)),
        RcRequest::Send(SendPart::Only(SendEnd::Imm(imm))) => Some(Kind::Ud(deth, Some(imm))),
        _ => None,
    }
}

/// Whether a packet completes a receive work request: no other may carry SE.
fn completes_receive(kind: &RcRequest) -> bool {
    matches!(
        kind,
        RcRequest::Send(SendPart::Last(_) | SendPart::Only(_))
            | RcRequest::Write(WritePart::Last(Some(_)) | WritePart::Only(_, Some(_)))
    )
}
