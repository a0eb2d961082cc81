// SPDX-License-Identifier: GPL-2.0

//! Queues of packets.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use super::skb::Skb;
use crate::kapi::bindings as b;
use core::{
    marker::{
        PhantomData,
        PhantomPinned, //
    },
    ptr::NonNull,
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// A packet that is nothing but a socket buffer, with all it knows inside.
///
/// # Safety
///
/// [`from_skb`](Self::from_skb) of what [`into_skb`](Self::into_skb) returned must give the packet
/// back, after the buffer was on a list.
pub(crate) unsafe trait Packet: Sized {
    /// The socket buffer.
    fn into_skb(self) -> Skb;

    /// The packet again.
    ///
    /// # Safety
    ///
    /// `skb` must come from `into_skb` of this type.
    unsafe fn from_skb(skb: Skb) -> Self;
}

/// A queue of packets of one kind, first in, first out, with a lock of its own.
///
/// All operations may be used in any context.
///
/// # Invariants
///
/// `head` is an initialised list, and each buffer on it comes from [`Packet::into_skb`] of `P`.
#[pin_data(PinnedDrop)]
pub(crate) struct SkbQueue<P: Packet> {
    #[pin]
    head: Opaque<b::sk_buff_head>,
    limit: u32,
    packets: PhantomData<P>,
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: The queue may be emptied by any thread, and socket buffers be sent to it.
unsafe impl<P: Packet + Send> Send for SkbQueue<P> {}

// SAFETY: The queue is changed under its lock; its packets go from thread to thread.
unsafe impl<P: Packet + Send> Sync for SkbQueue<P> {}

impl<P: Packet> SkbQueue<P> {
    /// An initialiser of an empty queue for `limit` packets.
    pub(crate) fn new(limit: u32) -> impl PinInit<Self> {
        // INVARIANT: The list is initialised and empty.
        pin_init!(Self {
            // SAFETY: `slot` is valid for writes and pinned from now on.
            head <- Opaque::ffi_init(|slot| unsafe { b::helpers::skb_queue_head_init(slot) }),
            limit,
            packets: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Appends `packet`, or gives it back if the queue is full.
    ///
    /// When several CPUs append to a queue that is nearly full, it may get longer than its limit by
    /// one for each of them.
    #[inline]
    pub(crate) fn push(&self, packet: P) -> Result<(), P> {
        if self.len() >= self.limit {
            return Err(packet);
        }
        let skb = packet.into_skb().into_raw();
        // SAFETY: The list is initialised, the buffer is ours and on no list. INVARIANT: It came
        // from a packet of this type.
        unsafe { b::skb_queue_tail(self.head.get(), skb.as_ptr()) };
        Ok(())
    }

    /// Puts back the packet that was taken last: it is the first again, whatever the limit.
    #[inline]
    pub(crate) fn push_front(&self, packet: P) {
        let skb = packet.into_skb().into_raw();
        // SAFETY: The list is initialised, the buffer is ours and on no list. INVARIANT: It came
        // from a packet of this type.
        unsafe { b::skb_queue_head(self.head.get(), skb.as_ptr()) };
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn pop(&self) -> Option<P> {
        // Spares the lock when the queue is empty, which it most often is.
        if self.is_empty() {
            return None;
        }
        // SAFETY: The list is initialised.
        let skb = NonNull::new(unsafe { b::skb_dequeue(self.head.get()) })?;
        // SAFETY: The buffer is off the list and ours.
        let skb = unsafe { Skb::from_raw(skb) };
        // SAFETY: By the type invariant it came from a packet of this type.
        Some(unsafe { P::from_skb(skb) })
    }

    /// How many packets there are just now.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        // SAFETY: The list is initialised.
        unsafe { b::helpers::skb_queue_len_lockless(self.head.get()) }
    }

    /// Whether there are no packets just now.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all packets.
    pub(crate) fn purge(&self) {
        // SAFETY: The list is initialised, and its buffers own all they have.
        unsafe { b::helpers::skb_queue_purge(self.head.get()) };
    }
}

#[pinned_drop]
impl<P: Packet> PinnedDrop for SkbQueue<P> {
    fn drop(self: Pin<&mut Self>) {
        self.purge();
    }
}
