// SPDX-License-Identifier: GPL-2.0

//! Any responses of a peer, to the requester of a reliable connection.

use core::time::Duration;
use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Result, Unstructured};
use rrxe_proto::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Binding, Flush, Local, LocalFailed, Operation, Placement, Request, RequestFlags, Requester,
        Response, RetryLimit, SendConfig, SendQueue, Window, WqeSeq,
    },
    status::WcStatus,
    time::Instant,
    timers::AckTimeout,
    wire::{self, Selectivity},
    Access, Imm, Key,
};

use crate::packet;

const MTU: PathMtu = PathMtu::Mtu256;
const RKEY: Key = Key(1);
/// Responses, and a request.
const OPCODES: [u8; 7] = [0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12, 0x04];

/// Has a requester digest the responses that `data` describes.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut victim = Victim::new();
    // The input has come to its end: that is how the story ends.
    while !input.is_empty() && victim.suffer(&mut input).is_ok() {}
    victim.end();
}

struct Victim {
    side: Requester,
    posted: Posted,
    now: Instant,
    /// The first PSN that is not acknowledged, as far as the packets sent tell.
    oldest: Psn,
    done: usize,
}

/// Work requests, and what has been placed of each.
#[derive(Default)]
struct Posted(Vec<(Request, Placed)>);

/// Lengths of what has been placed, by offset.
type Placed = BTreeMap<u32, u32>;

impl SendQueue for Posted {
    fn request(&self, wqe: WqeSeq) -> &Request {
        &self.0[wqe.get() as usize].0
    }
}

impl Victim {
    fn new() -> Self {
        let start = Psn::truncate(0x00ff_fff0);
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
            side: Requester::new(MTU, start, config),
            posted: Posted::default(),
            now: Instant::from_nanos(0),
            oldest: start,
            done: 0,
        }
    }

    fn suffer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match u8::arbitrary(input)? {
            0..=47 => self.post(input)?,
            48..=95 => self.transmit(input)?,
            96..=207 => self.respond(input)?,
            208..=223 => {
                let nanos = u32::arbitrary(input)? >> 8;
                self.now = self.now.saturating_add(Duration::from_nanos(nanos.into()));
                self.side.on_timeout(self.now);
            }
            224..=247 => self.complete(),
            248..=249 => self.side.drain(),
            250..=253 => self.side.resume(),
            _ => {
                let wqe = u8::arbitrary(input)?;
                let wqe = (0..wqe).fold(WqeSeq::ZERO, |wqe, _| wqe.next());
                self.side.fail(wqe, WcStatus::LocalProtection);
            }
        }
        Ok(())
    }

    fn post(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let va = u64::arbitrary(input)?;
        let rkey = RKEY;
        let operation = match input.int_in_range(0..=11)? {
            0 => Operation::Send,
            1 => Operation::SendImm(Imm([1, 2, 3, 4])),
            2 => Operation::SendInv(rkey),
            3 => Operation::Write { va, rkey },
            4 => Operation::WriteImm {
                va,
                rkey,
                imm: Imm([1, 2, 3, 4]),
            },
            5 => Operation::FetchAdd { va, rkey, add: 1 },
            6 => Operation::AtomicWrite { va, rkey },
            7 => Operation::Flush(Flush {
                rkey,
                va,
                len: 1000,
                placement: wire::Placement::GLOBAL,
                selectivity: Selectivity::Range,
            }),
            8 => Operation::Local(Local::Invalidate(rkey)),
            9 => Operation::Local(Local::Bind(Binding {
                window: rkey,
                tag: 1,
                region: rkey,
                va,
                len: 1,
                access: Access::REMOTE_READ,
            })),
            _ => Operation::Read { va, rkey },
        };
        let len = match u8::arbitrary(input)? {
            0..=239 => input.int_in_range(0..=1500)?,
            _ => u32::arbitrary(input)? >> 1,
        };
        let flags = RequestFlags {
            fence: bool::arbitrary(input)?,
            signaled: true,
            ..RequestFlags::default()
        };
        let request = Request::new(operation, len, flags)
            .or(Request::new(operation, Request::ATOMIC_LEN, flags))
            .or(Request::new(operation, 0, flags))
            .expect("one of the lengths is right");
        self.posted.0.push((request, Placed::new()));
        self.side.post();
        Ok(())
    }

    fn transmit(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        if let Some(task) = self.side.poll_local(&self.posted) {
            assert!(task.wqe().get() as usize >= self.done);
            let outcome = match u8::arbitrary(input)? {
                0..=7 => Err(LocalFailed),
                _ => Ok(()),
            };
            self.side.commit_local(task, outcome, &self.posted);
            return Ok(());
        }
        let max = input.int_in_range(1..=20)?;
        let Some(plan) = self.side.poll_transmit(self.now, max, &self.posted) else {
            return Ok(());
        };
        assert!(plan.count() >= 1 && plan.count() <= max);
        for packet in plan.packets() {
            assert!(packet.len <= MTU.bytes());
            assert!(packet.offset + packet.len <= plan.request().len());
        }
        self.oldest = plan.psn();
        if u8::arbitrary(input)? < 32 {
            let psn = plan
                .psn()
                .wrapping_add(input.int_in_range(0..=plan.count())?);
            self.side.unsent(self.now, psn, &self.posted);
        }
        Ok(())
    }

    fn respond(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let headers = packet::headers(input, &OPCODES, self.oldest)?;
        let Some(response) = headers.as_ref().and_then(Response::from_headers) else {
            return Ok(());
        };
        match self.side.on_response(self.now, &response, &self.posted) {
            Placement::None => (),
            Placement::Dropped(_) => return Ok(()),
            Placement::Read { wqe, offset, len } => {
                let (request, placed) = self.outstanding(wqe);
                assert!(matches!(request.operation(), Operation::Read { .. }));
                let end = offset.checked_add(len).expect("no message is that long");
                assert!(end <= request.len());
                assert_eq!(offset % MTU.bytes(), 0);
                placed.insert(offset, len);
            }
            Placement::Atomic { wqe, .. } => {
                let (request, placed) = self.outstanding(wqe);
                placed.insert(0, request.len());
            }
        }
        self.oldest = response.psn().next();
        Ok(())
    }

    /// A request that may have something placed.
    fn outstanding(&mut self, wqe: WqeSeq) -> &mut (Request, Placed) {
        let index = wqe.get() as usize;
        assert!(index >= self.done);
        &mut self.posted.0[index]
    }

    /// Each request completes once, in its turn, and none with success that lacks a byte.
    fn complete(&mut self) {
        while let Some(completion) = self.side.poll_completion(&self.posted) {
            assert_eq!(completion.wqe.get() as usize, self.done);
            let (request, placed) = &self.posted.0[self.done];
            let fetches = matches!(
                request.operation(),
                Operation::Read { .. } | Operation::FetchAdd { .. }
            );
            if fetches && completion.status == WcStatus::Success {
                assert_eq!(placed.values().sum::<u32>(), request.len());
            }
            self.done += 1;
        }
    }

    fn end(mut self) {
        self.side.enter_error();
        self.complete();
        assert_eq!(self.done, self.posted.0.len());
        assert!(self.side.poll_local(&self.posted).is_none());
        assert!(self.side.poll_transmit(self.now, 1, &self.posted).is_none());
        assert!(self.side.next_deadline().is_none());
    }
}
