// SPDX-License-Identifier: GPL-2.0

//! Datagrams over links that lose, copy and damage packets: each that comes through to a
//! receiver with its key, a receive and room for it is received, as it was sent, and nothing else.

use rrxe_proto::{
    mtu::PathMtu,
    psn::Psn,
    rc::{
        Action,
        Discard,
        Done,
        Operation,
        ReceiveSource,
        Request,
        RequestFlags,
        SendQueue,
        Take,
        TaskKind,
        WqeSeq, //
    },
    status::{
        WcOpcode,
        WcStatus, //
    },
    time::Instant,
    ud::{
        DatagramQueue,
        Destination,
        Receiver,
        Sender,
        GRH_LEN, //
    },
    wire::Packet,
    Imm,
    Pkey,
    Qkey,
    Qpn, //
};
use rrxe_sim::{
    frame::Frame,
    link::{
        BurstLoss,
        Corrupt,
        Duplicate,
        Link,
        Loss,
        Patience, //
    },
    rng::Rng, //
};

const SCENARIOS: u64 = 3_000;
const PEERS: usize = 3;
/// What the port lets through. Longer messages are not sent.
const PORT: PathMtu = PathMtu::Mtu512;
const LONGEST: u64 = 700;

/// A message, and what has become of it.
struct Message {
    to: usize,
    qkey: Qkey,
    imm: Option<Imm>,
    payload: Vec<u8>,
    /// Its sender finds that it may not read the payload.
    at_fault: bool,
}

/// Requests that have been posted, by their numbers.
#[derive(Default)]
struct Queue(Vec<(Request, Destination)>);

impl SendQueue for Queue {
    fn request(&self, wqe: WqeSeq) -> &Request {
        &self.0[wqe.get() as usize].0
    }
}

impl DatagramQueue for Queue {
    fn destination(&self, wqe: WqeSeq) -> Option<Destination> {
        Some(self.0[wqe.get() as usize].1)
    }
}

/// Receives that are left, by their capacities, and whether one is in use.
#[derive(Default)]
struct Receives {
    posted: Vec<u64>,
    held: Option<u64>,
}

impl ReceiveSource for Receives {
    fn take(&mut self) -> Take {
        assert_eq!(self.held, None, "two at a time");
        if self.posted.is_empty() {
            return Take::Empty;
        }
        let capacity = self.posted.remove(0);
        self.held = Some(capacity);
        Take::Taken { capacity }
    }
}

/// A queue pair that receives.
struct Peer {
    qpn: Qpn,
    qkey: Qkey,
    side: Receiver,
    receives: Receives,
}

struct World {
    rng: Rng,
    now: Instant,
    link: Link,
    sender: Sender,
    /// The number of the sender and its own key.
    own: (Qpn, Qkey),
    queue: Queue,
    messages: Vec<Message>,
    statuses: Vec<WcStatus>,
    peers: Vec<Peer>,
    received: usize,
}

fn some_key(rng: &mut Rng) -> Qkey {
    rng.pick(&[Qkey(0x11), Qkey(0x22), Qkey(0x33)])
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let link = Link::new()
            .through(Loss::new(rng.pick(&[0, 20, 200]), rng.fork()))
            .through(BurstLoss::new(rng.pick(&[0, 0, 20]), 12, rng.fork()))
            .through(Duplicate::new(rng.pick(&[0, 0, 100]), 0, rng.fork()))
            .through(Corrupt::new(rng.pick(&[0, 0, 50]), rng.fork()));
        let own = (Qpn::truncate(rng.bits() as u32), some_key(&mut rng));
        let peers = (0..PEERS)
            .map(|index| {
                let qkey = some_key(&mut rng);
                let posted = (0..rng.below(20))
                    .map(|_| rng.pick(&[0, 39, 40, 100, 552, 800]))
                    .collect();
                Peer {
                    qpn: Qpn::truncate(0x100 + index as u32),
                    qkey,
                    side: Receiver::new(qkey),
                    receives: Receives { posted, held: None },
                }
            })
            .collect();
        let messages = (0..rng.range(1, 40))
            .map(|_| Message::random(&mut rng))
            .collect();
        Self {
            now: Instant::from_nanos(1),
            link,
            sender: Sender::new(own.0, own.1, Psn::truncate(rng.bits() as u32)),
            own,
            queue: Queue::default(),
            messages,
            statuses: Vec::new(),
            peers,
            received: 0,
            rng,
        }
    }

    fn run(&mut self) {
        let mut first = 0;
        while first < self.messages.len() {
            let end = self
                .messages
                .len()
                .min(first + 1 + self.rng.below(8) as usize);
            for message in &self.messages[first..end] {
                self.queue.0.push(message.request());
                self.sender.post();
            }
            while self.transmit() {}
            self.complete(first, end);
            first = end;
        }
        for peer in &mut self.peers {
            assert_eq!(peer.side.poll_event(), None);
            peer.side.enter_error();
            // A receive that was taken in vain is given back, once.
            let flushed = peer.side.poll_flush().map(|done| done.status);
            assert_eq!(flushed, peer.receives.held.map(|_| WcStatus::WrFlush));
            assert_eq!(peer.side.poll_flush(), None);
        }
    }

    /// Sends one packet, or lets time pass. False if there is nothing to send.
    fn transmit(&mut self) -> bool {
        let Some(plan) = self.sender.poll_transmit(self.now, PORT, &self.queue) else {
            let Some(deadline) = self.sender.next_deadline() else {
                return false;
            };
            self.now = deadline;
            self.sender.on_timeout(deadline);
            return true;
        };
        assert_eq!(plan.count(), 1);
        let index = plan.wqe().get() as usize;
        if self.messages[index].at_fault {
            self.sender.fail(plan.wqe(), WcStatus::LocalProtection);
            return true;
        }
        if self.rng.chance(50) {
            self.sender.unsent(self.now, plan.psn(), &self.queue);
            return true;
        }
        let packet = plan.packet(0).expect("a packet");
        let to = self.queue.0[index].1.qpn;
        let payload = self.messages[index].payload.clone();
        assert_eq!((packet.offset, packet.len as usize), (0, payload.len()));
        assert!(packet.len <= PORT.bytes());
        let frame = Frame::new(0, 0, &packet.header(to, Pkey::DEFAULT), &payload);
        let parcels = self.link.carry(0, frame, &mut Patience::endless());
        for parcel in parcels.iter().filter(|parcel| parcel.frame.is_intact()) {
            let packet = Packet::parse(parcel.frame.transport()).expect("a packet");
            self.take_in(index, &packet);
        }
        true
    }

    /// Message `index` arrives, maybe not for the first time.
    fn take_in(&mut self, index: usize, packet: &Packet<'_>) {
        let message = &self.messages[index];
        let shown = message.qkey.or_own(self.own.1);
        let peer = &mut self.peers[message.to];
        assert_eq!(packet.headers().dest_qp(), peer.qpn);
        let needed = u64::from(GRH_LEN) + message.payload.len() as u64;
        let next = peer.receives.held.or(peer.receives.posted.first().copied());
        let expected = match next {
            _ if shown != peer.qkey => Some(Discard::WrongQkey),
            None => Some(Discard::NotReady),
            Some(capacity) if capacity < needed => Some(Discard::Refused),
            Some(_) => None,
        };
        match peer.side.on_request(packet.headers(), &mut peer.receives) {
            Action::Dropped(why) => assert_eq!(Some(why), expected),
            Action::Execute(task) => {
                assert_eq!(expected, None);
                let len = packet.payload().len() as u32;
                assert_eq!(task.kind(), TaskKind::PlaceDatagram { len });
                assert_eq!(packet.payload(), message.payload);
                let done = peer.side.commit(task, Ok(Done::default()));
                let done = done.expect("a datagram completes its receive");
                assert_eq!(
                    (done.status, done.opcode),
                    (WcStatus::Success, WcOpcode::Receive)
                );
                assert_eq!(u64::from(done.byte_len), needed);
                assert_eq!((done.imm, done.source), (message.imm, Some(self.own.0)));
                peer.receives.held = None;
                self.received += 1;
            }
            other => panic!("{other:?}"),
        }
    }

    /// Messages `first..end`, which were posted together, are done up to one that is at fault.
    fn complete(&mut self, first: usize, end: usize) {
        while let Some(done) = self.sender.poll_completion(&self.queue) {
            assert_eq!(done.wqe.get() as usize, self.statuses.len());
            self.statuses.push(done.status);
        }
        assert_eq!(self.statuses.len(), end);
        let fault = self.messages[first..end]
            .iter()
            .position(|message| message.at_fault && message.is_sent());
        for (index, status) in self.statuses[first..].iter().enumerate() {
            let expected = match fault {
                Some(fault) if index == fault => WcStatus::LocalProtection,
                Some(fault) if index > fault => WcStatus::WrFlush,
                _ => WcStatus::Success,
            };
            assert_eq!(*status, expected);
        }
        if fault.is_some() {
            self.sender.restart();
        }
    }
}

impl Message {
    fn random(rng: &mut Rng) -> Self {
        let len = rng.pick(&[0, 1, 60, 511, 512, 513, 700]).min(LONGEST) as usize;
        let any = rng.below(LONGEST + 1) as usize;
        let imm = rng.bytes(4).try_into().expect("four bytes");
        let len = if rng.chance(500) { len } else { any };
        let payload = rng.bytes(len);
        Self {
            to: rng.below(PEERS as u64) as usize,
            qkey: rng.pick(&[Qkey(0x11), Qkey(0x22), Qkey(0x33), Qkey(1 << 31)]),
            imm: rng.chance(300).then_some(Imm(imm)),
            payload,
            at_fault: rng.chance(20),
        }
    }

    /// Whether the port lets it through.
    fn is_sent(&self) -> bool {
        self.payload.len() <= PORT.bytes() as usize
    }

    fn request(&self) -> (Request, Destination) {
        let operation = match self.imm {
            Some(imm) => Operation::SendImm(imm),
            None => Operation::Send,
        };
        let flags = RequestFlags {
            signaled: true,
            ..RequestFlags::default()
        };
        let request = Request::new(operation, self.payload.len() as u32, flags);
        let destination = Destination {
            qpn: Qpn::truncate(0x100 + self.to as u32),
            qkey: self.qkey,
        };
        (request.expect("a short message"), destination)
    }
}

// PROTOCOL rules 16 and 17, requirements 7, 10 and 19.
#[test]
fn what_comes_through_with_the_right_key_is_received() {
    let (mut sent, mut received) = (0, 0);
    for seed in 1..=SCENARIOS {
        let mut world = World::new(seed);
        println!("seed {seed}");
        world.run();
        sent += world.messages.len();
        received += world.received;
    }
    assert!(received > sent / 20, "{sent} sent, {received} received");
}
