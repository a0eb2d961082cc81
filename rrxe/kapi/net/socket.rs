// SPDX-License-Identifier: GPL-2.0

//! UDP sockets of the kernel whose packets go to a function instead of a queue.
//!
//! C header: [`include/net/udp_tunnel.h`](srctree/include/net/udp_tunnel.h)

use super::{
    netns::Net,
    route::Version, //
};
use crate::kapi::bindings as b;
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    error::to_result,
    ffi::*,
    prelude::*, //
};

/// The function that takes the packets of a socket, softirq or process context with softirqs disabled,
/// in an RCU read section. It owns the packet and returns zero.
pub(super) type EncapReceive = unsafe extern "C" fn(*mut b::sock, *mut b::sk_buff) -> c_int;

/// An open socket, bound to all addresses of its namespace.
///
/// # Invariants
///
/// `sk` is a UDP socket that [`finish`](Self::finish) has set up, and that this object owns.
pub(super) struct EncapSocket {
    sk: NonNull<b::sock>,
}

// SAFETY: Sockets may be used and released by any thread.
unsafe impl Send for EncapSocket {}

impl EncapSocket {
    /// Opens a socket on UDP port `port`: for IPv4, or for IPv6, that takes no IPv4 packets. Process
    /// context, sleeps.
    ///
    /// `EADDRINUSE` if the port is taken, `EAFNOSUPPORT` if IPv6 is switched off.
    ///
    /// Packets without a UDP checksum are taken: RoCE has a CRC of its own.
    ///
    /// # Safety
    ///
    /// `receive` may be called with a socket whose user data is `context`, until the RCU grace period
    /// after the socket is dropped has ended: everything that it uses must stay valid. The namespace
    /// must not be torn down before the socket is dropped. `context` must be a multiple of eight.
    pub(super) unsafe fn open(
        net: &Net,
        version: Version,
        port: u16,
        receive: EncapReceive,
        context: *const c_void,
    ) -> Result<Self> {
        let mut config = b::udp_port_cfg {
            local_udp_port: port.to_be(),
            ..Default::default()
        };
        let create: unsafe extern "C" fn(_, _, _) -> _ = match version {
            Version::V4 => b::udp_sock_create4,
            Version::V6 => {
                config.set_ipv6_v6only(1);
                b::udp_sock_create6
            }
        };
        let mut socket = ptr::null_mut();
        // SAFETY: The namespace is in use, the configuration is initialised.
        to_result(unsafe { create(net.as_ptr(), &mut config, &mut socket) })?;
        // SAFETY: A new socket of ours; the rest the caller promises.
        unsafe { Self::finish(net, socket, receive, context) }
    }

    /// Makes packets go to `receive`.
    ///
    /// # Safety
    ///
    /// `socket` must be a new UDP socket that nobody else uses; otherwise as for [`open`](Self::open).
    unsafe fn finish(
        net: &Net,
        socket: *mut b::socket,
        receive: EncapReceive,
        context: *const c_void,
    ) -> Result<Self> {
        // SAFETY: The socket is valid.
        let sk = NonNull::new(unsafe { (*socket).sk }).ok_or(EINVAL)?.cast();
        let mut config = b::udp_tunnel_sock_cfg {
            sk_user_data: context.cast_mut(),
            encap_type: 1,
            encap_rcv: Some(receive),
            ..pin_init::zeroed()
        };
        // SAFETY: Nobody has taken the new socket's locks yet.
        unsafe { b::helpers::sock_reclassify(sk.as_ptr()) };
        // SAFETY: A new socket, and a configuration whose function stays as the caller promises.
        unsafe { b::setup_udp_tunnel_sock(net.as_ptr(), sk.as_ptr(), &mut config) };
        // That asked for the checksum of each whole packet, for headers that RoCE does not have. If
        // the packet is a burst that is split for us it would be computed in software. Nothing else
        // depends on the count, the release of the socket does not touch it.
        // SAFETY: The count was just incremented, and nobody else uses the socket.
        unsafe { b::helpers::inet_dec_convert_csum(sk.as_ptr()) };
        // INVARIANT: The socket is set up.
        Ok(Self { sk })
    }
}

impl Drop for EncapSocket {
    /// Process context, sleeps.
    ///
    /// The receiving function may still run afterwards, on other CPUs, until an RCU grace period has
    /// passed: the release itself does not wait. See [`open`](Self::open).
    fn drop(&mut self) {
        // SAFETY: By the type invariant the socket is ours.
        unsafe { b::udp_tunnel_sock_release(self.sk.as_ptr()) };
    }
}
