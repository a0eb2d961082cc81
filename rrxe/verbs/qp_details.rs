// SPDX-License-Identifier: GPL-2.0

//! What a queue pair tells of itself: `rdma resource show qp -dd`.

use crate::{
    datapath::{
        qp::Qp,
        respond::ReceiveSide, //
    },
    kapi::rdma::{
        Details,
        QpCaps, //
    },
};
use rrxe_proto::rc::{
    Activity,
    ReceiveSnapshot,
    SendSnapshot, //
};

/// Tells of both sides of a queue pair with these sizes. Process context, may sleep.
pub(super) fn describe(qp: &Qp, caps: QpCaps, details: &mut Details) {
    let send = qp.update_send(|side| side.report());
    let receive = qp.update_receive(ReceiveSide::report);
    details
        .number(c"sq_size", caps.max_send_wr)
        .number(c"sq_pending", send.pending);
    if let Some(connection) = &send.connection {
        sending(connection, details);
    }
    details
        .number(c"rq_size", caps.max_recv_wr)
        .number(c"rq_posted", receive.posted);
    if let Some(connection) = &receive.connection {
        receiving(connection, details);
    }
    if let Some(rate) = qp.rate_mbps() {
        details.number(c"rate_mbps", rate);
    }
}

fn sending(connection: &SendSnapshot, details: &mut Details) {
    let activity = match connection.activity {
        Activity::Idle => c"idle",
        Activity::Sending => c"sending",
        Activity::NotReady => c"peer-not-ready",
        Activity::Draining => c"draining",
        Activity::Flushing => c"flushing",
    };
    details
        .word(c"sending", activity)
        .number(c"unacked_psn", connection.acked.get())
        .number(c"next_psn", connection.sent.get())
        .number(c"retries", connection.retries)
        .number(c"rnr_retries", connection.rnr_retries);
}

fn receiving(connection: &ReceiveSnapshot, details: &mut Details) {
    details
        .number(c"expected_psn", connection.expected.get())
        .number(c"msn", connection.msn.get())
        .number(c"early_packets", connection.kept as u64);
}
