// SPDX-License-Identifier: GPL-2.0

//! Peers and callers that do what they like.

use core::time::Duration;

use proptest::prelude::*;

use super::{headers, psn, QPN};
use crate::{
    access::Access,
    key::{Imm, Key},
    mtu::PathMtu,
    opcode::{Position, MAX_HEADER_LEN},
    psn::Msn,
    rc::{
        requester::Phase,
        Action,
        Done,
        ExecError,
        Operation,
        ReceiveConfig,
        ReceiveSource,
        Request,
        RequestFlags,
        Requester,
        Responder,
        Response,
        ResponsePlan,
        RetryLimit,
        Saved,
        SendConfig,
        SendQueue,
        Take,
        Window,
        WqeSeq, //
    },
    status::{NakCode, WcStatus},
    time::Instant,
    timers::{AckTimeout, RnrTimer},
    wire::{
        Aeth,
        AtomicEth,
        HeaderSpec,
        Headers,
        Kind,
        RcRequest,
        Reth,
        SendEnd,
        SendPart,
        Syndrome,
        WritePart, //
    },
};

const KEY: Key = Key(1);

struct Queue(Vec<Request>);

impl SendQueue for Queue {
    fn request(&self, wqe: WqeSeq) -> &Request {
        &self.0[wqe.get() as usize]
    }
}

/// What may happen to a requester.
#[derive(Clone, Debug)]
enum Happening {
    Post(Operation, u32, bool),
    Transmit(u32),
    Unsent(u32),
    Withheld(u32),
    Respond(Response),
    Pass(u64),
    Fail(u32),
    Complete,
    Drain,
    Resume,
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let (va, rkey) = (any::<u64>(), KEY);
    prop_oneof![
        Just(Operation::Send),
        Just(Operation::SendInv(KEY)),
        va.prop_map(move |va| Operation::Write { va, rkey }),
        va.prop_map(move |va| Operation::Read { va, rkey }),
        va.prop_map(move |va| Operation::FetchAdd { va, rkey, add: 1 }),
        va.prop_map(move |va| Operation::WriteImm {
            va,
            rkey,
            imm: Imm([0; 4])
        }),
    ]
}

fn any_len() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0..1000u32,
        1 => (1u32 << 31) - 300..=1 << 31,
        1 => 0..=1u32 << 31
    ]
}

fn any_psn() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..24u32, 1 => any::<u32>()]
}

fn any_position() -> impl Strategy<Value = Position> {
    prop_oneof![
        Just(Position::First),
        Just(Position::Middle),
        Just(Position::Last),
        Just(Position::Only),
    ]
}

fn any_aeth() -> impl Strategy<Value = Aeth> {
    let syndrome = prop_oneof![
        8 => Just(Syndrome::ACK),
        3 => Just(Syndrome::Nak(NakCode::Sequence)),
        1 => Just(Syndrome::Nak(NakCode::RemoteAccess)),
        1 => Just(Syndrome::Nak(NakCode::InvalidRdRequest)),
        3 => (0u8..32).prop_map(|code| Syndrome::RnrNak(RnrTimer::truncate(code))),
    ];
    (syndrome, any::<u32>()).prop_map(|(syndrome, msn)| Aeth::new(syndrome, Msn::truncate(msn)))
}

fn any_response() -> impl Strategy<Value = Response> {
    let payload = prop_oneof![Just(256u32), 0..300u32, any::<u32>()];
    prop_oneof![
        3 => (any_psn(), any_aeth()).prop_map(|(at, aeth)| Response::Ack { psn: psn(at), aeth }),
        3 => (any_psn(), any_position(), any_aeth(), payload).prop_map(
            |(at, position, aeth, len)| Response::Read {
                psn: psn(at),
                position,
                aeth: (position != Position::Middle).then_some(aeth),
                len,
            }
        ),
        1 => (any_psn(), any_aeth()).prop_map(|(at, aeth)| Response::Atomic {
            psn: psn(at),
            aeth,
            original: 1
        }),
    ]
}

fn any_happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (any_operation(), any_len(), any::<bool>())
            .prop_map(|(operation, len, fence)| Happening::Post(operation, len, fence)),
        6 => (0u32..20).prop_map(Happening::Transmit),
        1 => any_psn().prop_map(Happening::Unsent),
        1 => any_psn().prop_map(Happening::Withheld),
        8 => any_response().prop_map(Happening::Respond),
        2 => (0u64..1 << 24).prop_map(Happening::Pass),
        1 => (0u32..20).prop_map(Happening::Fail),
        2 => Just(Happening::Complete),
        1 => Just(Happening::Drain),
        1 => Just(Happening::Resume),
    ]
}

/// A requester and what must always be true of it.
struct Victim {
    side: Requester,
    queue: Queue,
    now: Instant,
    done: u32,
}

impl Victim {
    fn new() -> Self {
        let config = SendConfig {
            timeout: AckTimeout::new(10).unwrap(),
            retry: RetryLimit::from_retry_cnt(7),
            rnr_retry: RetryLimit::from_rnr_retry(7),
            max_rd_atomic: 2,
            window: Window {
                bytes: 4000,
                packets: 10,
            },
        };
        Self {
            side: Requester::new(PathMtu::Mtu256, psn(0), config),
            queue: Queue(Vec::new()),
            now: Instant::from_nanos(0),
            done: 0,
        }
    }

    fn suffer(&mut self, happening: Happening) {
        let (side, queue) = (&mut self.side, &mut self.queue);
        match happening {
            Happening::Post(operation, len, fence) => {
                let flags = RequestFlags {
                    fence,
                    ..RequestFlags::default()
                };
                let request = Request::new(operation, len, flags)
                    .or(Request::new(operation, 8, flags))
                    .unwrap();
                queue.0.push(request);
                side.post();
            }
            Happening::Transmit(max) => {
                if let Some(plan) = side.poll_transmit(self.now, max, queue) {
                    assert!(plan.count() >= 1 && plan.count() <= max);
                    assert_eq!(plan.packets().count(), plan.count() as usize);
                }
                if side.phase == Phase::Running && side.is_waiting() && max != 0 {
                    assert!(side.next_deadline().is_some());
                }
            }
            Happening::Unsent(at) => side.unsent(self.now, psn(at), queue),
            Happening::Withheld(at) => side.withheld(psn(at), queue),
            Happening::Respond(response) => {
                let _ = side.on_response(self.now, &response, queue);
            }
            Happening::Pass(nanos) => {
                self.now = self.now.saturating_add(Duration::from_nanos(nanos));
                side.on_timeout(self.now);
            }
            Happening::Fail(wqe) => {
                let wqe = (0..wqe).fold(WqeSeq::ZERO, |wqe, _| wqe.next());
                side.fail(wqe, WcStatus::LocalProtection);
            }
            Happening::Complete => self.complete(),
            Happening::Drain => side.drain(),
            Happening::Resume => side.resume(),
        }
    }

    fn complete(&mut self) {
        while let Some(done) = self.side.poll_completion(&self.queue) {
            assert_eq!(done.wqe.get(), self.done);
            self.done += 1;
        }
    }

    fn check(&self) {
        let side = &self.side;
        let load = side.next.load.since(side.acked.load);
        assert!(load.packets <= 10 && load.bytes <= 4000);
        assert!(load.responses <= 2);
        let span = side.sent.offset_from(side.acked.psn);
        assert!(span <= 1 << 23);
        assert!(side.next.psn.offset_from(side.acked.psn) <= span);
        assert!(side.inquired.offset_from(side.acked.psn) <= span);
        for (before, after) in [
            (side.head(), side.tail()),
            (side.acked.wqe, side.next.wqe),
            (side.next.wqe, side.begun.next()),
            (side.begun, side.tail()),
        ] {
            assert!(!after.is_before(before), "{side:?}");
        }
        // What is about to be sent again has the wait begin.
        let is_about_to_send = side.resend.is_some_and(|resend| resend.left != 0);
        if side.phase == Phase::Running && side.has_sent_oldest() && !is_about_to_send {
            assert!(side.next_deadline().is_some());
        }
    }
}

struct Receives(u8);

impl ReceiveSource for Receives {
    fn take(&mut self) -> Take {
        self.0 = self.0.wrapping_mul(5).wrapping_add(3);
        match self.0 >> 5 {
            0 => Take::Empty,
            1 => Take::Taken { capacity: 300 },
            _ => Take::Taken { capacity: 1 << 40 },
        }
    }
}

fn any_request() -> impl Strategy<Value = RcRequest> {
    let len = || prop_oneof![9 => 0u32..2000, 1 => (1 << 31) + 1..=u32::MAX];
    let reth = || (0u64..1 << 12, len()).prop_map(|(va, len)| Reth::new(va, KEY, len));
    let send = any_position()
        .prop_map(|position| RcRequest::Send(SendPart::new(position, SendEnd::Plain)));
    let write = (any_position(), reth(), any::<bool>()).prop_map(|(position, reth, imm)| {
        RcRequest::Write(WritePart::new(position, reth, imm.then_some(Imm([0; 4]))))
    });
    let atomic = (0u64..4)
        .prop_map(|va| RcRequest::FetchAdd(AtomicEth::fetch_add(va.wrapping_mul(8), KEY, 1)));
    prop_oneof![3 => send, 3 => write, 2 => reth().prop_map(RcRequest::Read), 1 => atomic]
}

proptest! {
    #[test]
    fn a_requester_survives_any_responses(
        happenings in prop::collection::vec(any_happening(), 1..120)
    ) {
        let mut victim = Victim::new();
        for happening in happenings {
            victim.suffer(happening);
            victim.check();
        }
        victim.side.enter_error();
        victim.complete();
        prop_assert_eq!(victim.done as usize, victim.queue.0.len());
    }

    #[test]
    fn a_responder_survives_any_requests(
        packets in prop::collection::vec(
            (
                any_request(),
                prop_oneof![12 => Just(0i32), 3 => -12..0, 4 => 1..9, 1 => any::<i32>()],
                prop_oneof![3 => Just(256u32), 2 => 0..300u32],
                any::<bool>(),
            ),
            1..80,
        ),
        poll_after in 0usize..6,
        luck: u8,
    ) {
        let config = ReceiveConfig {
            max_dest_rd_atomic: 2,
            min_rnr_timer: RnrTimer::truncate(1),
            access: Access::REMOTE,
        };
        let mut side = Responder::new(PathMtu::Mtu256, psn(3), config);
        let mut receives = Receives(luck);
        let mut saved = [Saved::EMPTY; 2];
        let mut kept = vec![None; Responder::PLACES];
        for (at, (request, offset, len, ask)) in packets.into_iter().enumerate() {
            let spec = HeaderSpec {
                ack_request: ask,
                ..HeaderSpec::new(
                    Kind::RcRequest(request),
                    QPN,
                    side.expected.wrapping_add(offset as u32),
                )
            };
            let mut next = Some(headers(&spec, len));
            while let Some(headers) = next {
                let before = side.expected;
                let action = side.on_request(&headers, &mut receives, &mut saved);
                prop_assert_eq!(side.expected, before);
                match action {
                    Action::Execute(task) => {
                        prop_assert_eq!(headers.psn(), before);
                        let outcome = match luck.wrapping_add(at as u8) {
                            0 => Err(ExecError::RemoteAccess),
                            _ => Ok(Done::default()),
                        };
                        let _ = side.commit(task, outcome, &mut saved);
                    }
                    Action::Keep(keep) => {
                        prop_assert!(headers.psn().is_after(before));
                        prop_assert!(kept[keep.place()].replace(headers).is_none());
                        side.keep(keep);
                    }
                    Action::None | Action::Repeated | Action::Dropped(_) => (),
                }
                next = side.poll_kept().map(|place| kept[place].take().unwrap());
            }
            if at % 6 >= poll_after {
                let plan = side.poll_transmit(3, &mut saved);
                if let Some(plan) = plan {
                    // Never about what has not been executed, but for a NAK.
                    let last = plan.psn().wrapping_add(plan.count() - 1);
                    let nak = matches!(&plan, ResponsePlan::Ack { aeth, .. }
                        if !matches!(aeth.syndrome(), Syndrome::Ack(_)));
                    prop_assert!(nak || last.is_before(side.expected));
                    match luck.wrapping_mul(at as u8) % 9 {
                        7 => side.unsent(&plan, plan.psn(), &mut saved),
                        8 => if let ResponsePlan::Read(reply) = &plan {
                            side.fail_read(reply, &mut saved);
                        }
                        _ => (),
                    }
                }
            }
        }
        side.enter_error();
        let _ = side.poll_flush();
        prop_assert!(side.poll_flush().is_none());
    }

    #[test]
    fn any_headers_are_survived(
        bytes in prop::array::uniform32(any::<u8>()),
        opcode in 0u8..0x20,
        at in prop_oneof![Just(0u8), any::<u8>()],
        len in 0usize..400,
    ) {
        let mut head = [0; MAX_HEADER_LEN];
        head[..32].copy_from_slice(&bytes);
        head[0] = opcode;
        head[1] &= 0xf0;
        head[9..12].copy_from_slice(&[0, 0, at]);
        let total = (MAX_HEADER_LEN + len) & !3;
        if let Ok(headers) = Headers::parse(&head, total) {
            let config = ReceiveConfig {
                max_dest_rd_atomic: 1,
                min_rnr_timer: RnrTimer::truncate(1),
                access: Access::REMOTE,
            };
            let mut saved = [Saved::EMPTY];
            let mut side = Responder::new(PathMtu::Mtu256, psn(0), config);
            let action = side.on_request(&headers, &mut Receives(0), &mut saved);
            if let Action::Execute(task) = action {
                let _ = side.commit(task, Ok(Done::default()), &mut saved);
            }
            while let Some(plan) = side.poll_transmit(1 << 24, &mut saved) {
                prop_assert!(plan.packet(plan.count() - 1).is_some());
            }
            if let Some(response) = Response::from_headers(&headers) {
                let mut victim = Victim::new();
                victim.suffer(Happening::Post(Operation::Send, 300, false));
                victim.suffer(Happening::Transmit(9));
                victim.suffer(Happening::Respond(response));
                victim.check();
            }
        }
    }
}
