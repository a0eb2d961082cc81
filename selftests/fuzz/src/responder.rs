// SPDX-License-Identifier: GPL-2.0

//! Any requests of a peer, to the responder of a reliable connection.

use arbitrary::{Arbitrary, Result, Unstructured};
use rrxe_proto::{
    mtu::{PathMtu, MAX_MESSAGE_LEN},
    psn::Psn,
    rc::{
        Action, Done, ExecError, ReceiveConfig, ReceiveSource, Responder, ResponsePlan, Saved,
        Take, Task, TaskKind,
    },
    status::WcStatus,
    timers::RnrTimer,
    wire::{Headers, Kind, RcRequest},
    Access,
};

use crate::packet;

const MTU: PathMtu = PathMtu::Mtu256;
const DEPTH: u8 = 2;

/// Opcodes of a reliable connection, responses among them, and some others.
const OPCODES: [u8; 36] = {
    let mut opcodes = [0; 36];
    let mut code = 0;
    while code < 32 {
        opcodes[code] = code as u8;
        code += 1;
    }
    opcodes[32] = 0x24;
    opcodes[33] = 0x2a;
    opcodes[34] = 0x64;
    opcodes[35] = 0x81;
    opcodes
};

/// Has a responder take in the packets that `data` describes.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut victim = Victim::new();
    // The input has come to its end: that is how the story ends.
    while !input.is_empty() && victim.suffer(&mut input).is_ok() {}
    victim.end();
}

struct Victim {
    side: Responder,
    saved: [Saved; DEPTH as usize],
    receives: Receives,
    /// The PSN that follows what has been executed.
    due: Psn,
    reported: usize,
}

/// A receive queue whose content is made up as it is asked for.
#[derive(Default)]
struct Receives {
    next: u8,
    taken: usize,
    capacity: u64,
}

impl ReceiveSource for Receives {
    fn take(&mut self) -> Take {
        let (capacity, take) = match self.next & 7 {
            0 => return Take::Empty,
            1 => (0, Take::Invalid(WcStatus::LocalProtection)),
            2 => (300, Take::Taken { capacity: 300 }),
            _ => (1 << 31, Take::Taken { capacity: 1 << 31 }),
        };
        self.taken += 1;
        self.capacity = capacity;
        take
    }
}

impl Victim {
    fn new() -> Self {
        let due = Psn::truncate(0x00ff_fff0);
        let config = ReceiveConfig {
            max_dest_rd_atomic: DEPTH,
            min_rnr_timer: RnrTimer::truncate(1),
            access: Access::REMOTE,
        };
        Self {
            side: Responder::new(MTU, due, config),
            saved: [Saved::EMPTY; DEPTH as usize],
            receives: Receives::default(),
            due,
            reported: 0,
        }
    }

    fn suffer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match u8::arbitrary(input)? {
            0..=191 => self.request(input)?,
            192..=239 => self.transmit(input)?,
            240..=247 => while self.side.poll_event().is_some() {},
            _ => self.receives.next = u8::arbitrary(input)?,
        }
        Ok(())
    }

    fn request(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let Some(headers) = packet::headers(input, &OPCODES, self.due)? else {
            return Ok(());
        };
        let action = self
            .side
            .on_request(&headers, &mut self.receives, &mut self.saved);
        let Action::Execute(task) = action else {
            return Ok(());
        };
        assert_eq!(headers.psn(), self.due, "only what is due is executed");
        self.check(&task, &headers);
        let outcome = match u8::arbitrary(input)? {
            0 => Err(ExecError::RemoteAccess),
            1 => Err(ExecError::RemoteOperation),
            2 => Err(ExecError::LocalProtection),
            3 => Err(ExecError::LocalLength),
            4 => Err(ExecError::Invalidate),
            original => Ok(Done {
                original: original.into(),
            }),
        };
        if outcome.is_ok() {
            self.due = self.due.wrapping_add(psns(&headers));
        }
        let completion = self.side.commit(task, outcome, &mut self.saved);
        self.reported += usize::from(completion.is_some());
        assert!(self.reported <= self.receives.taken);
        Ok(())
    }

    /// What a task says must make sense to who carries it out without another look.
    fn check(&self, task: &Task, headers: &Headers) {
        match task.kind() {
            TaskKind::PlaceReceive { offset, len } => {
                assert!(u64::from(offset) + u64::from(len) <= self.receives.capacity);
                assert!(len <= headers.payload_len());
            }
            TaskKind::Write { len, remaining, .. } => {
                assert!(len != 0 && len <= headers.payload_len());
                assert!(len <= remaining && remaining <= MAX_MESSAGE_LEN);
            }
            TaskKind::Read { len, .. } => assert!(len != 0 && len <= MAX_MESSAGE_LEN),
            TaskKind::Atomic { va, .. } => assert_eq!(va % 8, 0),
            TaskKind::AtomicWrite { va, .. } => assert_eq!((va % 8, headers.payload_len()), (0, 8)),
            TaskKind::Flush(flush) => {
                assert!(flush.placement.is_valid() && flush.len <= MAX_MESSAGE_LEN);
            }
            TaskKind::Nothing => (),
            TaskKind::PlaceDatagram { .. } => panic!("no datagrams on a connection"),
        }
    }

    fn transmit(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let max = input.int_in_range(1..=20)?;
        let Some(plan) = self.side.poll_transmit(max, &mut self.saved) else {
            return Ok(());
        };
        assert!(plan.count() >= 1 && plan.count() <= max);
        for packet in plan.packets() {
            assert!(packet.len <= MTU.bytes());
        }
        match (u8::arbitrary(input)?, &plan) {
            (0..=31, _) => {
                let psn = plan
                    .psn()
                    .wrapping_add(input.int_in_range(0..=plan.count())?);
                self.side.unsent(&plan, psn, &mut self.saved);
            }
            (32..=47, ResponsePlan::Read(reply)) => self.side.fail_read(reply, &mut self.saved),
            _ => (),
        }
        Ok(())
    }

    /// What has been taken is reported, once, and there is an end to what is owed.
    fn end(mut self) {
        // A READ of the largest length has 2^23 packets of this size, and it may be asked for anew.
        for _ in 0..2 * usize::from(DEPTH) + 2 {
            if self.side.poll_transmit(u32::MAX, &mut self.saved).is_none() {
                break;
            }
        }
        assert!(self.side.poll_transmit(1, &mut self.saved).is_none());
        self.side.enter_error();
        self.reported += usize::from(self.side.poll_flush().is_some());
        assert_eq!(self.reported, self.receives.taken);
        assert!(self.side.poll_flush().is_none());
    }
}

/// PSNs that a request takes.
fn psns(headers: &Headers) -> u32 {
    match headers.kind() {
        Kind::RcRequest(RcRequest::Read(reth)) => MTU.packets(reth.dma_len()),
        _ => 1,
    }
}
