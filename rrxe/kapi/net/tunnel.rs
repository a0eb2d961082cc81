// SPDX-License-Identifier: GPL-2.0

//! Receiving the packets of one UDP port in a network namespace, for as long as somebody listens.

use super::{
    netns::Net,
    pernet::{
        self,
        Pernet,
        PernetId, //
    },
    route::Version,
    rx::RxPacket,
    skb::Skb,
    socket::EncapSocket,
};
use crate::kapi::{
    bindings as b,
    sync::{
        grace_period,
        wait_for_burials, //
    },
};
use core::ptr::NonNull;
use kernel::{
    ffi::*,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};

/// Where the packets of a namespace go.
pub(crate) trait Receiver: Send + Sync + Sized + 'static {
    /// The UDP port.
    const PORT: u16;

    /// Where the number of this receiver's namespaces is kept: always the same `static`.
    fn pernet_id() -> &'static PernetId<Namespace<Self>>;

    /// An initialiser of the receiver of one namespace. Process context, may sleep.
    fn new() -> impl PinInit<Self, Error>;

    /// Takes a packet that has arrived.
    ///
    /// Called in softirq context, or in process context with softirqs disabled, on several CPUs at
    /// once, in an RCU read section and with no lock held. Called from the creation of the first
    /// [`Listener`] of the namespace to the drop of the last, or to the namespace's end.
    fn receive(&self, packet: RxPacket);

    /// Lets go of all that belongs to the namespace, which ends: routes above all.
    ///
    /// Called in process context, once, after the last call of [`receive`](Self::receive) and after
    /// the network devices have left the namespace, if there has been a [`Listener`]. May sleep.
    fn namespace_ends(&self);
}

/// What a network namespace has for receiver `R`.
#[pin_data]
pub(crate) struct Namespace<R: Receiver> {
    #[pin]
    receiver: R,
    #[pin]
    state: Mutex<State>,
}

/// The sockets, which are open while there are listeners.
struct State {
    listeners: usize,
    v4: Option<EncapSocket>,
    v6: Option<EncapSocket>,
    /// They have been open: there may be traces of the namespace.
    was_open: bool,
    /// The namespace is gone.
    closed: bool,
}

impl<R: Receiver> Namespace<R> {
    /// What namespace `net` has, once a [`Registration`](super::pernet::Registration) of this type
    /// exists.
    pub(crate) fn of(net: &Net) -> Option<Arc<Self>> {
        pernet::get(net)
    }

    /// The receiver.
    #[inline]
    pub(crate) fn receiver(&self) -> &R {
        &self.receiver
    }

    /// Opens the sockets, unless they are open already. Process context, sleeps.
    ///
    /// `EADDRINUSE` if somebody else has the port in this namespace, `ENODEV` if the namespace is
    /// being torn down. `net` must be the namespace that `self` is of.
    fn open(&self, net: &Net) -> Result {
        let mut state = self.state.lock();
        if state.closed {
            return Err(ENODEV);
        }
        if state.listeners == 0 {
            let context = core::ptr::from_ref(self).cast();
            let open = |version| {
                // SAFETY: `close` drops the sockets and waits for a grace period, before the last
                // listener, each of which has a reference to `self`, and before the namespace ends.
                // The receiving function is in this module, whose unloading unregisters all
                // namespaces.
                unsafe { EncapSocket::open(net, version, R::PORT, receive::<R>, context) }
            };
            let v4 = open(Version::V4)?;
            let v6 = match open(Version::V6) {
                Ok(socket) => Some(socket),
                // IPv6 is switched off, or not there.
                Err(error) if error.to_errno() == -(b::EAFNOSUPPORT as c_int) => None,
                Err(error) => {
                    drop(v4);
                    grace_period();
                    return Err(error);
                }
            };
            state.v4 = Some(v4);
            state.v6 = v6;
            state.was_open = true;
        }
        state.listeners = state.listeners.saturating_add(1);
        Ok(())
    }

    /// Closes the sockets and waits until no packet can arrive any more. Process context, sleeps.
    fn close(state: &mut State) {
        let sockets = (state.v4.take(), state.v6.take());
        if sockets.0.is_some() || sockets.1.is_some() {
            drop(sockets);
            grace_period();
        }
    }
}

impl<R: Receiver> Pernet for Namespace<R> {
    fn id() -> &'static PernetId<Self> {
        R::pernet_id()
    }

    fn init() -> Result<Arc<Self>> {
        const {
            // Sockets keep flags in the low bits of the pointer.
            assert!(align_of::<Self>() >= 8);
        }
        Arc::pin_init(
            try_pin_init!(Self {
                receiver <- R::new(),
                state <- new_mutex!(State {
                    listeners: 0,
                    v4: None,
                    v6: None,
                    was_open: false,
                    closed: false,
                }),
            }? Error),
            GFP_KERNEL,
        )
    }

    fn exit(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        Self::close(&mut state);
        let was_open = state.was_open;
        drop(state);
        if was_open {
            self.receiver.namespace_ends();
            // What has been left to RCU may have routes as well.
            wait_for_burials();
        }
    }
}

/// Keeps the sockets of a namespace open.
///
/// May outlive the namespace, whose sockets are closed when it ends. Dropping the last of a namespace
/// closes them; process context, sleeps.
pub(crate) struct Listener<R: Receiver> {
    namespace: Arc<Namespace<R>>,
}

impl<R: Receiver> Listener<R> {
    /// Opens the sockets of `net`, or makes sure that they stay open. Process context, sleeps.
    ///
    /// `EADDRINUSE` if somebody else has the port in this namespace, `ENODEV` if the namespace is
    /// being torn down or the receiver is not registered.
    pub(crate) fn new(net: &Net) -> Result<Self> {
        let namespace = Namespace::of(net).ok_or(ENODEV)?;
        namespace.open(net)?;
        Ok(Self { namespace })
    }

    /// The receiver.
    #[inline]
    pub(crate) fn receiver(&self) -> &R {
        self.namespace.receiver()
    }
}

impl<R: Receiver> Drop for Listener<R> {
    fn drop(&mut self) {
        let mut state = self.namespace.state.lock();
        state.listeners = state.listeners.saturating_sub(1);
        if state.listeners == 0 {
            Namespace::<R>::close(&mut state);
        }
    }
}

/// The function that the sockets give packets to.
///
/// # Safety
///
/// To be called by the UDP stack, with a socket of a [`Namespace<R>`] and a packet of the caller's.
unsafe extern "C" fn receive<R: Receiver>(sk: *mut b::sock, skb: *mut b::sk_buff) -> c_int {
    let Some(skb) = NonNull::new(skb) else {
        return 0;
    };
    // SAFETY: The packet is ours now.
    let skb = unsafe { Skb::from_raw(skb) };
    // SAFETY: The socket is alive, in the RCU read section of the caller.
    let context = unsafe { b::helpers::rcu_dereference_sk_user_data(sk) }.cast::<Namespace<R>>();
    // A socket that is being released has none; the packet is dropped.
    if let Some(context) = NonNull::new(context) {
        // SAFETY: The namespace waits for a grace period after it has released the socket, so it is
        // alive until we return.
        let namespace = unsafe { context.as_ref() };
        // SAFETY: The packet comes from the UDP stack, just now.
        if let Some(packet) = unsafe { RxPacket::from_encap(skb) } {
            namespace.receiver.receive(packet);
        }
    }
    0
}
