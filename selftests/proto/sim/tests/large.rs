// SPDX-License-Identifier: GPL-2.0

//! Messages of the greatest length, whose packets take half of all PSNs: both sides of the engine
//! face to face, without payload.

use rrxe_proto::{
    mtu::{
        PathMtu,
        MAX_MESSAGE_LEN, //
    },
    psn::Psn,
    rc::{
        Action,
        Done,
        Placement,
        ReceiveConfig,
        Requester,
        Responder,
        Response,
        Saved, //
    },
    status::WcStatus,
    time::Instant,
    timers::RnrTimer,
    wire::{
        HeaderBuf,
        HeaderSpec,
        Headers, //
    },
    Access,
    Pkey,
    Qpn, //
};
use rrxe_sim::{
    end,
    program::{
        Op,
        Settings,
        Work, //
    },
    queue::{
        ReceiveRing,
        SendRing, //
    },
};

const MTU: PathMtu = PathMtu::Mtu256;
const PSN: Psn = Psn::truncate(0xff_ff00);

fn received(spec: &HeaderSpec, payload_len: u32) -> Headers {
    let buf = HeaderBuf::new(spec, payload_len);
    Headers::parse(buf.as_bytes(), buf.packet_len()).expect("a packet")
}

/// Both sides, and how many PSNs are in flight at most.
struct Pair {
    requester: Requester,
    ring: SendRing,
    responder: Responder,
    saved: [Saved; 4],
    acked: Psn,
    sent: Psn,
    longest: u32,
    placed: u64,
}

impl Pair {
    fn new(works: &[Work]) -> Self {
        let settings = Settings {
            window_bytes: 1 << 16,
            ..Settings::PLAIN
        };
        let config = ReceiveConfig {
            max_dest_rd_atomic: 4,
            min_rnr_timer: RnrTimer::truncate(1),
            access: Access::REMOTE,
        };
        let mut pair = Self {
            requester: Requester::new(MTU, PSN, end::config(&settings)),
            ring: SendRing::new(works.len() as u32),
            responder: Responder::new(MTU, PSN, config),
            saved: [Saved::EMPTY; 4],
            acked: PSN,
            sent: PSN,
            longest: 0,
            placed: 0,
        };
        for work in works {
            pair.ring.store(pair.requester.tail(), end::request(work));
            pair.requester.post();
        }
        pair
    }

    /// Lets both sides send until neither has anything to say.
    fn run(&mut self) {
        let now = Instant::from_nanos(0);
        loop {
            let mut silent = true;
            while let Some(plan) = self.requester.poll_transmit(now, 64, &self.ring) {
                silent = false;
                for packet in plan.packets() {
                    let headers = received(&packet.header(Qpn::GSI, Pkey::DEFAULT), packet.len);
                    self.request(&headers);
                }
                let read = plan.request().operation();
                let span = if matches!(read, rrxe_proto::rc::Operation::Read { .. }) {
                    MTU.packets(plan.request().len())
                } else {
                    plan.count()
                };
                self.sent = plan.psn().wrapping_add(span);
                self.longest = self.longest.max(self.sent.offset_from(self.acked));
            }
            while let Some(plan) = self.responder.poll_transmit(64, &mut self.saved) {
                silent = false;
                for packet in plan.packets() {
                    let headers = received(&packet.header(Qpn::GSI, Pkey::DEFAULT), packet.len);
                    let response = Response::from_headers(&headers).expect("a response");
                    let placement = self.requester.on_response(now, &response, &self.ring);
                    if let Placement::Read { len, .. } = placement {
                        self.placed += u64::from(len);
                    }
                    self.acked = headers.psn().next();
                }
            }
            if silent {
                return;
            }
        }
    }

    fn request(&mut self, headers: &Headers) {
        let mut receives = ReceiveRing::default();
        let action = self
            .responder
            .on_request(headers, &mut receives, &mut self.saved);
        let Action::Execute(task) = action else {
            panic!("{headers:?}: {action:?}");
        };
        let done = self
            .responder
            .commit(task, Ok(Done::default()), &mut self.saved);
        assert_eq!(done, None);
    }

    fn succeeds(&mut self, works: usize) {
        for _ in 0..works {
            let done = self.requester.poll_completion(&self.ring).expect("done");
            assert_eq!(done.status, WcStatus::Success);
        }
    }
}

fn longest(op: Op) -> Work {
    Work {
        len: MAX_MESSAGE_LEN,
        ..Work::new(op, 0)
    }
}

#[test]
fn a_read_of_two_gigabytes_leaves_no_psn_for_another() {
    let another = Work::new(Op::Read { va: 0, rkey: 1 }, 300);
    let mut pair = Pair::new(&[longest(Op::Read { va: 0, rkey: 1 }), another]);
    pair.run();
    pair.succeeds(2);
    assert_eq!(pair.placed, u64::from(MAX_MESSAGE_LEN) + 300);
    assert!(pair.longest <= 1 << 23, "{} PSNs in flight", pair.longest);
}

#[test]
fn a_write_of_two_gigabytes_goes_through_a_small_window() {
    let mut pair = Pair::new(&[longest(Op::Write { va: 0, rkey: 1 })]);
    pair.run();
    pair.succeeds(1);
    assert!(pair.longest <= 256, "{} PSNs in flight", pair.longest);
}
