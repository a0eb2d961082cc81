// SPDX-License-Identifier: GPL-2.0

//! What a device counts.
//!
//! Names and order of the first seventeen are those of `rdma_rxe`, for the programs that know them.

use crate::kapi::{
    percpu::PerCpuCounters,
    rdma::StatDesc, //
};
use kernel::prelude::*;
use rrxe_proto::{
    status::{
        NakCode,
        WcStatus, //
    },
    wire::Syndrome, //
};

macro_rules! counters {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// Something that a device counts.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[$doc])* $variant,)*
        }

        impl Counter {
            const COUNT: usize = [$($name),*].len();
        }

        static DESCS: [StatDesc; Counter::COUNT] = [$(StatDesc::new($name)),*];
    };
}

counters! {
    /// Packets handed to the network.
    SentPackets = c"sent_pkts",
    /// Packets that came in for a queue pair of the device, undamaged.
    ReceivedPackets = c"rcvd_pkts",
    /// Requests that had been executed before.
    DuplicateRequests = c"duplicate_request",
    /// Requests that came after one that is missing.
    OutOfSequence = c"out_of_seq_request",
    /// RNR NAKs from peers.
    ReceivedRnrNaks = c"rcvd_rnr_err",
    /// RNR NAKs to peers.
    SentRnrNaks = c"send_rnr_err",
    /// Sequence NAKs from peers.
    ReceivedSequenceNaks = c"rcvd_seq_err",
    /// Turns of a queue pair that were left to a thread.
    Deferred = c"ack_deferred",
    /// Requests that failed for want of an answer.
    RetryExceeded = c"retry_exceeded_err",
    /// Requests that failed as the peer was never ready.
    RnrRetryExceeded = c"retry_rnr_exceeded_err",
    /// Packets sent again.
    Retransmitted = c"completer_retry_err",
    /// Packets for which there was no room in the network's queues.
    SendFailures = c"send_err",
    /// How often the link has gone down.
    LinkDowned = c"link_downed",
    /// Send requests that have completed with success.
    Sends = c"rdma_sends",
    /// Receive requests that have completed with success.
    Receives = c"rdma_recvs",
    /// Bytes of packets handed to the network, from BTH to ICRC.
    SentBytes = c"sent_bytes",
    /// Bytes of packets that came in for a queue pair of the device, from BTH to ICRC.
    ReceivedBytes = c"rcvd_bytes",
    /// Packets dropped as they make no sense: length, version, opcode.
    Malformed = c"rx_malformed",
    /// Packets dropped as no queue pair has their number.
    NoQueuePair = c"rx_no_qp",
    /// Packets dropped for their partition key.
    BadPkey = c"rx_bad_pkey",
    /// Datagrams dropped for their queue key.
    BadQkey = c"rx_bad_qkey",
    /// Packets dropped for their ICRC.
    BadIcrc = c"rx_icrc_errors",
    /// Packets dropped as too many waited for their queue pair.
    BacklogFull = c"rx_backlog_drops",
    /// Packets with data that had met congestion.
    CongestedPackets = c"np_ecn_marked_roce_packets",
    /// Notifications of congestion to peers.
    SentNotifications = c"np_cnp_sent",
    /// Notifications of congestion from peers that a queue pair has reacted to.
    HandledNotifications = c"rp_cnp_handled",
    /// Notifications of congestion from peers, as reacting was off.
    IgnoredNotifications = c"rp_cnp_ignored",
}

impl Counter {
    /// What a response with `syndrome` from a peer counts as.
    pub(super) fn of_received(syndrome: Syndrome) -> Option<Self> {
        match syndrome {
            Syndrome::RnrNak(_) => Some(Self::ReceivedRnrNaks),
            Syndrome::Nak(NakCode::Sequence) => Some(Self::ReceivedSequenceNaks),
            _ => None,
        }
    }

    /// What a response with `syndrome` to a peer counts as.
    pub(super) fn of_sent(syndrome: Syndrome) -> Option<Self> {
        match syndrome {
            Syndrome::RnrNak(_) => Some(Self::SentRnrNaks),
            _ => None,
        }
    }

    /// What the completion of a send request counts as.
    pub(super) fn of_sending(status: WcStatus) -> Option<Self> {
        match status {
            WcStatus::Success => Some(Self::Sends),
            WcStatus::RetryExceeded => Some(Self::RetryExceeded),
            WcStatus::RnrRetryExceeded => Some(Self::RnrRetryExceeded),
            _ => None,
        }
    }
}

/// The counters of a device.
pub(crate) struct Counters(PerCpuCounters<{ Counter::COUNT }>);

impl Counters {
    /// Counters that are zero. May sleep. `ENOMEM` when out of memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(PerCpuCounters::new()?))
    }

    /// Names of the counters, in the order of [`get`](Self::get).
    pub(crate) fn descriptions() -> &'static [StatDesc] {
        &DESCS
    }

    /// Counts one more. Any context.
    pub(crate) fn count(&self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `n` more. Any context.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, n: u64) {
        self.0.add(counter as usize, n);
    }

    /// The counter at `index`; zero if there is none.
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0.sum(index)
    }
}
