// SPDX-License-Identifier: GPL-2.0

//! Moving bytes between packets and the memory that keys stand for.

use super::{
    arrival::Payload,
    fast_region::FastRegion,
    node::Node,
    paging::Missing,
    region::{
        Fault,
        Mr,
        PdId, //
    },
    window::Window, //
};
use crate::{
    kapi::{
        mem::{
            write_back,
            Chunk,
            ChunkMut,
            ReadOnly,
            Rights, //
        },
        rdma::{
            Chunks,
            MissingPage, //
        },
    },
    ring::Sge, //
};
use core::cell::Cell;
use kernel::{
    prelude::*,
    sync::{
        barrier::smp_mb,
        rcu,
        ArcBorrow, //
    },
};
use rrxe_proto::{
    access::Access,
    mw::{
        Place,
        QpId, //
    },
    rc::{
        AtomicOp,
        Binding,
        ExecError,
        Flush,
        LocalFailed,
        Registration, //
    },
    status::WcStatus,
    wire::Selectivity,
    Key, //
};

/// The memory that a queue pair may touch, for a moment: a region that is deregistered meanwhile
/// stays until this is dropped.
pub(super) struct Memory<'a> {
    node: &'a Node,
    pd: PdId,
    qp: QpId,
    guard: rcu::Guard,
    /// The page for want of which something was denied.
    missing: Cell<Option<Missing>>,
}

impl<'a> Memory<'a> {
    /// The memory of the queue pair `qp`, which is of the protection domain `pd` of `node`.
    pub(super) fn new(node: &'a Node, pd: PdId, qp: QpId) -> Self {
        Self {
            node,
            pd,
            qp,
            guard: rcu::read_lock(),
            missing: Cell::new(None),
        }
    }

    /// The page for want of which something has failed: once that is there it has to be tried again.
    pub(super) fn take_missing(&self) -> Option<Missing> {
        self.missing.take()
    }

    /// Hands the memory of `len` bytes from `offset` on in what `sges` name to `take`, piece by
    /// piece, each with its distance from `offset`.
    ///
    /// # Errors
    ///
    /// `LocalProtection` if an element may not be used for `access`, `LocalLength` if there are not
    /// as many bytes, `LocalQpOperation` if `take` fails.
    pub(super) fn gather<R: Rights>(
        &self,
        sges: &[Sge],
        access: Access,
        offset: u32,
        len: u32,
        mut take: impl FnMut(usize, Chunk<'_, R>) -> Result,
    ) -> Result<(), WcStatus> {
        let mut skip = offset;
        let mut done = 0;
        for sge in sges {
            if done == len {
                break;
            }
            let Some(room) = sge.length.checked_sub(skip).filter(|room| *room != 0) else {
                skip = skip.saturating_sub(sge.length);
                continue;
            };
            let part = room.min(len.saturating_sub(done));
            let va = sge.addr.wrapping_add(u64::from(skip));
            skip = 0;
            self.visit(Key(sge.lkey), access, va, part, |at, chunk| {
                take((done as usize).saturating_add(at), chunk)
            })?;
            done = done.saturating_add(part);
        }
        if done == len {
            Ok(())
        } else {
            Err(WcStatus::LocalLength)
        }
    }

    /// Copies `payload` to what `sges` name, from `offset` on.
    pub(super) fn scatter(
        &self,
        sges: &[Sge],
        offset: u32,
        payload: Payload<'_>,
    ) -> Result<(), WcStatus> {
        self.gather(
            sges,
            Access::LOCAL_WRITE,
            offset,
            payload.len(),
            |at, chunk: ChunkMut<'_>| payload.copy_to(at, chunk),
        )
    }

    /// Copies `bytes` to the beginning of what `sges` name.
    pub(super) fn scatter_bytes(&self, sges: &[Sge], bytes: &[u8]) -> Result<(), WcStatus> {
        self.gather(
            sges,
            Access::LOCAL_WRITE,
            0,
            bytes.len() as u32,
            |at, chunk: ChunkMut<'_>| {
                let part = bytes.get(at..).and_then(|rest| rest.get(..chunk.len()));
                chunk.copy_from_slice(part.ok_or(EINVAL)?)
            },
        )
    }

    /// Copies `payload` to `va` in the memory of `rkey`, all of whose next `remaining` bytes the
    /// peer must be allowed to write.
    pub(super) fn write(
        &self,
        rkey: Key,
        va: u64,
        remaining: u32,
        payload: Payload<'_>,
    ) -> Result<(), ExecError> {
        self.check(rkey, Access::REMOTE_WRITE, va, remaining)?;
        self.visit(
            rkey,
            Access::REMOTE_WRITE,
            va,
            payload.len(),
            |at, chunk: ChunkMut<'_>| payload.copy_to(at, chunk),
        )?;
        Ok(())
    }

    /// Whether the memory of `key` from `va` on gives `access` to `len` bytes.
    pub(super) fn check(&self, key: Key, access: Access, va: u64, len: u32) -> Result<(), Denied> {
        self.with_range(key, access, va, len, |_: Chunks<'_, ReadOnly>| Ok(()))
    }

    /// Hands `len` bytes at `va` in the memory of `key`, if that gives `access` to them, to `take`,
    /// piece by piece, each with its distance from `va`.
    pub(super) fn visit<R: Rights>(
        &self,
        key: Key,
        access: Access,
        va: u64,
        len: u32,
        mut take: impl FnMut(usize, Chunk<'_, R>) -> Result,
    ) -> Result<(), Denied> {
        self.with_range(key, access, va, len, |chunks| {
            let mut at = 0;
            for chunk in chunks {
                let chunk = chunk?;
                let len = chunk.len();
                take(at, chunk).map_err(|_| Denied::Copy)?;
                at = at.saturating_add(len);
            }
            Ok(())
        })
    }

    /// Does `op` to the eight bytes at `va` in the memory of `rkey`, and returns what was there.
    pub(super) fn atomic(&self, rkey: Key, va: u64, op: AtomicOp) -> Result<u64, ExecError> {
        let len = size_of::<u64>() as u32;
        let mut original = 0;
        self.visit(
            rkey,
            Access::REMOTE_ATOMIC,
            va,
            len,
            |_, chunk: ChunkMut<'_>| {
                let word = chunk.into_atomic().ok_or(EINVAL)?;
                original = match op {
                    AtomicOp::CompareSwap { compare, swap } => word.compare_swap(compare, swap),
                    AtomicOp::FetchAdd { add } => word.fetch_add(add),
                };
                Ok(())
            },
        )?;
        Ok(original)
    }

    /// Stores the eight bytes of `payload` at `va` in the memory of `rkey`, in one step.
    pub(super) fn atomic_write(
        &self,
        rkey: Key,
        va: u64,
        payload: Payload<'_>,
    ) -> Result<(), ExecError> {
        let word = payload.word().map_err(|_| ExecError::RemoteOperation)?;
        let len = size_of::<u64>() as u32;
        self.visit(
            rkey,
            Access::REMOTE_WRITE,
            va,
            len,
            |_, chunk: ChunkMut<'_>| {
                chunk.into_atomic().ok_or(EINVAL)?.store(word);
                Ok(())
            },
        )?;
        Ok(())
    }

    /// Has all that was written before get as far as `flush` says.
    ///
    /// What is written to memory that may be asked to be persistent is so at once: a peer can
    /// ask for gigabytes, but writes a packet at a time.
    pub(super) fn flush(&self, flush: &Flush) -> Result<(), ExecError> {
        let access = flush.placement.access();
        match flush.selectivity {
            Selectivity::Range => self.check(flush.rkey, access, flush.va, flush.len)?,
            Selectivity::Region => self.admit(flush.rkey, access)?,
        }
        smp_mb();
        Ok(())
    }

    /// Checks that the memory of `key` gives `access`, whatever its range.
    fn admit(&self, key: Key, access: Access) -> Result<(), Denied> {
        if let Some(mr) = self.region(key) {
            return Ok(mr.admit(key, self.pd, access)?);
        }
        self.window(key)
            .filter(|window| window.admits(key, (self.qp, self.pd), access))
            .map(drop)
            .ok_or(Denied::Access)
    }

    /// Finds `len` bytes at `va` in the memory of `key`, if that gives `access` to them, and has
    /// them used.
    fn with_range<R: Rights>(
        &self,
        key: Key,
        access: Access,
        va: u64,
        len: u32,
        use_range: impl FnOnce(Chunks<'_, R>) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        if let Some(mr) = self.region(key) {
            return self.with_range_of(&mr, Place { region: key, va }, access, len, use_range);
        }
        if let Some(window) = self.window(key) {
            let by = (self.qp, self.pd);
            return window.with_place(key, by, access, va, len, |place| {
                let mr = self.region(place.region).ok_or(Denied::Access)?;
                // What a window shows it has been given.
                self.with_range_of(&mr, place, Access::NONE, len, use_range)
            });
        }
        let region = self.fast_region(key).ok_or(Denied::Access)?;
        region.with_range(key, self.pd, access, va, len, use_range)
    }

    /// Has the `len` bytes at `place`, which is in `mr`, used if that gives `access` to them.
    fn with_range_of<R: Rights>(
        &self,
        mr: &Mr,
        place: Place,
        access: Access,
        len: u32,
        use_range: impl FnOnce(Chunks<'_, R>) -> Result<(), Denied>,
    ) -> Result<(), Denied> {
        let Place { region, va } = place;
        let range = mr.range(region, self.pd, access, va, len, &self.guard)?;
        self.note(region, use_range(range))?;
        if R::WRITE && mr.is_persistent() {
            // It is pinned, so that nothing is missing.
            let range =
                mr.range::<ReadOnly>(region, self.pd, Access::NONE, va, len, &self.guard)?;
            write_back(range.flatten());
        }
        Ok(())
    }

    /// Takes note of a page of the region `key` that is missing.
    fn note(&self, key: Key, used: Result<(), Denied>) -> Result<(), Denied> {
        if let Err(Denied::Missing(page)) = used {
            self.missing.set(Some(Missing { key, page }));
        }
        used
    }

    /// Binds a window as a work request says.
    pub(super) fn bind(&self, binding: &Binding) -> Result<(), LocalFailed> {
        let region = self
            .region(binding.region)
            .filter(|region| binding.len != 0 && region.is_named(binding.region, self.pd));
        self.window(binding.window).ok_or(LocalFailed)?.bind(
            binding,
            region.as_deref(),
            self.qp,
            self.pd,
        )
    }

    /// Registers listed memory as a work request says.
    pub(super) fn register(&self, registration: &Registration) -> Result<(), LocalFailed> {
        self.fast_region(registration.key)
            .ok_or(LocalFailed)?
            .register(registration, self.pd)
    }

    /// Makes `key` invalid, because the queue pair or its peer says so.
    pub(super) fn invalidate(&self, key: Key) -> Result<(), LocalFailed> {
        if let Some(region) = self.fast_region(key) {
            return region.invalidate(key, self.pd);
        }
        self.window(key)
            .ok_or(LocalFailed)?
            .invalidate(key, self.qp, self.pd)
    }

    /// The region with the index of `key`.
    fn region(&self, key: Key) -> Option<ArcBorrow<'_, Mr>> {
        self.node.mrs().get(key.index(), &self.guard)
    }

    /// The region of listed memory with the index of `key`.
    fn fast_region(&self, key: Key) -> Option<ArcBorrow<'_, FastRegion>> {
        self.node.fast_regions().get(key.index(), &self.guard)
    }

    /// The window with the index of `key`.
    fn window(&self, key: Key) -> Option<ArcBorrow<'_, Window>> {
        self.node.windows().get(key.index(), &self.guard)
    }
}

/// Why memory was not used.
#[derive(Clone, Copy)]
pub(super) enum Denied {
    /// The key does not give that access, or there is no memory behind it.
    Access,
    /// A page [has to come in](Memory::take_missing) first.
    Missing(MissingPage),
    /// It does, but the bytes could not be copied, or not in one step.
    Copy,
}

impl From<Fault> for Denied {
    fn from(_: Fault) -> Self {
        Self::Access
    }
}

impl From<MissingPage> for Denied {
    fn from(page: MissingPage) -> Self {
        Self::Missing(page)
    }
}

impl From<Denied> for ExecError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Access | Denied::Missing(_) => Self::RemoteAccess,
            Denied::Copy => Self::RemoteOperation,
        }
    }
}

impl From<Denied> for WcStatus {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Access | Denied::Missing(_) => Self::LocalProtection,
            Denied::Copy => Self::LocalQpOperation,
        }
    }
}
