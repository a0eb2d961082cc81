// SPDX-License-Identifier: GPL-2.0

//! As much of the `kernel` crate as `rrxe/ring` needs, on the host.

pub mod prelude {
    use std::{collections::TryReserveError, num::TryFromIntError, ops};

    /// An errno.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Error(i32);

    pub type Result<T = (), E = Error> = core::result::Result<T, E>;

    pub const ENOMEM: Error = Error(-12);
    pub const EINVAL: Error = Error(-22);

    impl From<TryFromIntError> for Error {
        fn from(_: TryFromIntError) -> Self {
            EINVAL
        }
    }

    impl From<TryReserveError> for Error {
        fn from(_: TryReserveError) -> Self {
            ENOMEM
        }
    }

    pub struct Flags;

    pub const GFP_KERNEL: Flags = Flags;
    pub const GFP_KERNEL_ACCOUNT: Flags = Flags;

    pub struct KVVec<T>(Vec<T>);

    impl<T: Clone> KVVec<T> {
        pub fn from_elem(value: T, n: usize, _: Flags) -> Result<Self, TryReserveError> {
            let mut vec = Vec::new();
            vec.try_reserve_exact(n)?;
            vec.resize(n, value);
            Ok(Self(vec))
        }
    }

    impl<T> ops::Deref for KVVec<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T> ops::DerefMut for KVVec<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

pub mod sync {
    pub use std::sync::Arc;

    pub mod atomic {
        use std::sync::atomic::{AtomicU32, Ordering};

        pub struct Acquire;
        pub struct Release;
        pub struct Relaxed;

        /// The orderings a load may have.
        pub trait Load {
            const ORDERING: Ordering;
        }

        /// The orderings a store may have.
        pub trait Store {
            const ORDERING: Ordering;
        }

        impl Load for Acquire {
            const ORDERING: Ordering = Ordering::Acquire;
        }

        impl Load for Relaxed {
            const ORDERING: Ordering = Ordering::Relaxed;
        }

        impl Store for Release {
            const ORDERING: Ordering = Ordering::Release;
        }

        impl Store for Relaxed {
            const ORDERING: Ordering = Ordering::Relaxed;
        }

        /// An `Atomic<u32>` of memory in 64-bit words: the lower half of a word.
        #[repr(transparent)]
        pub struct Atomic<T>(AtomicU32, core::marker::PhantomData<T>);

        impl Atomic<u32> {
            pub fn new(value: u32) -> Self {
                Self(AtomicU32::new(value), core::marker::PhantomData)
            }

            pub fn load<O: Load>(&self, _: O) -> u32 {
                self.0.load(O::ORDERING)
            }

            pub fn store<O: Store>(&self, value: u32, _: O) {
                self.0.store(value, O::ORDERING);
            }
        }
    }
}
