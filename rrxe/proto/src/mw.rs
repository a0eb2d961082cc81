// SPDX-License-Identifier: GPL-2.0

//! Memory windows: keys that show a part of a region to peers, and that their owner binds and takes
//! back by work requests.

use crate::{
    access::Access,
    key::Key,
    rc::{Binding, LocalFailed}, //
};

/// Who may bind a window and use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowType {
    /// Bound as often as one likes; shows its memory to the peers of all queue pairs.
    One,
    /// Bound once, then to be invalidated; shows its memory to the peer of the queue pair that it
    /// was bound by (type 2B).
    Two,
}

/// A queue pair, as a window remembers it: by a number that no queue pair of the device has had
/// before, unlike a QPN. So what was shown to the peer of a queue pair that is gone is never shown to
/// that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpId(pub u64);

/// A memory window.
#[derive(Clone, Debug)]
pub struct MemoryWindow {
    window_type: WindowType,
    key: Key,
    shown: Option<Shown>,
}

/// What a window shows.
#[derive(Clone, Copy, Debug)]
struct Shown {
    region: Key,
    /// Address in the region of the first byte.
    va: u64,
    /// Bytes, at least one.
    len: u64,
    /// What peers call the first byte.
    base: u64,
    access: Access,
    /// The only queue pair whose peer may use it, if there is such a one.
    qp: Option<QpId>,
}

/// A region, as far as that matters to a window.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// What may be done with it.
    pub access: Access,
    /// What its first byte is called.
    pub va: u64,
    /// Bytes.
    pub len: u64,
}

/// How many windows are bound to a region, and whether others may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bonds(u32);

impl Bonds {
    /// No window is, and any may be.
    pub const NONE: Self = Self(0);

    /// None is, and none may be any more.
    const RETIRED: Self = Self(u32::MAX);

    /// As [`bits`](Self::bits) gave them.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// As a number, to be kept in a variable that several change.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// How many are.
    pub fn count(self) -> u32 {
        match self {
            Self::RETIRED => 0,
            Self(count) => count,
        }
    }

    /// One more window is bound, or `None` if none may be.
    pub fn bound(self) -> Option<Self> {
        let bonds = self.0.checked_add(1).map(Self)?;
        (bonds != Self::RETIRED).then_some(bonds)
    }

    /// One is not bound any more.
    pub const fn released(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// None may be bound any more, or `None` if some are.
    pub fn retired(self) -> Option<Self> {
        matches!(self, Self::NONE | Self::RETIRED).then_some(Self::RETIRED)
    }
}

/// A place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Key of the region.
    pub region: Key,
    /// Address in the region.
    pub va: u64,
}

/// What one may ask a window to give peers.
const GRANTABLE: Access = Access::REMOTE;

/// What a binding may say without effect.
const IGNORED: Access = Access::from_bits(Access::LOCAL_WRITE.bits() | Access::OPTIONAL.bits());

impl MemoryWindow {
    /// A window that shows nothing.
    pub const fn new(window_type: WindowType, key: Key) -> Self {
        Self {
            window_type,
            key,
            shown: None,
        }
    }

    /// Binds the window as a work request of queue pair `by` says.
    ///
    /// # Errors
    ///
    /// The window is another one, or has to be invalidated first; it may not be bound so, or not to
    /// that region, or not to that part of it. It stays as it is then.
    pub fn bind(
        &mut self,
        binding: &Binding,
        region: Option<&Region>,
        by: QpId,
    ) -> Result<(), LocalFailed> {
        let may_be_bound = binding.window == self.key
            && match self.window_type {
                WindowType::One => !binding.access.contains(Access::ZERO_BASED),
                WindowType::Two => self.shown.is_none() && binding.len != 0,
            };
        let asked = binding.access.without(Access::ZERO_BASED | IGNORED);
        if !may_be_bound || !GRANTABLE.contains(asked) {
            return Err(LocalFailed);
        }
        let shown = match binding.len {
            0 => None,
            len => {
                let region = region.ok_or(LocalFailed)?;
                if !region.admits(asked) || !region.covers(binding.va, len) {
                    return Err(LocalFailed);
                }
                Some(Shown {
                    region: binding.region,
                    va: binding.va,
                    len,
                    base: match binding.access.contains(Access::ZERO_BASED) {
                        true => 0,
                        false => binding.va,
                    },
                    access: asked,
                    qp: match self.window_type {
                        WindowType::One => None,
                        WindowType::Two => Some(by),
                    },
                })
            }
        };
        self.key = self.key.with_tag(binding.tag);
        self.shown = shown;
        Ok(())
    }

    /// Has the window show nothing, because queue pair `by` or its peer says so.
    ///
    /// # Errors
    ///
    /// The key is another one, the window is of a type that is not invalidated, or it is bound by
    /// another queue pair.
    pub fn invalidate(&mut self, key: Key, by: QpId) -> Result<(), LocalFailed> {
        let others = self
            .shown
            .and_then(|shown| shown.qp)
            .is_some_and(|qp| qp != by);
        if key != self.key || self.window_type == WindowType::One || others {
            return Err(LocalFailed);
        }
        self.shown = None;
        Ok(())
    }

    /// Where the `len` bytes at `va` are of which the peer of queue pair `of` shows the key, or
    /// `None` if it may not do to them what `access` says. No owner uses a window.
    pub fn place(&self, key: Key, of: QpId, access: Access, va: u64, len: u32) -> Option<Place> {
        let shown = self.shown_to(key, of, access)?;
        let offset = va.checked_sub(shown.base)?;
        let end = offset.checked_add(len.into())?;
        (end <= shown.len).then_some(Place {
            region: shown.region,
            va: shown.va.wrapping_add(offset),
        })
    }

    /// Whether the peer of queue pair `of`, which shows `key`, may do what `access` says to all that
    /// the window shows.
    pub fn admits(&self, key: Key, of: QpId, access: Access) -> bool {
        self.shown_to(key, of, access).is_some()
    }

    fn shown_to(&self, key: Key, of: QpId, access: Access) -> Option<Shown> {
        self.shown.filter(|shown| {
            key == self.key
                && shown.qp.is_none_or(|qp| qp == of)
                && access.intersects(Access::REMOTE)
                && shown.access.contains(access)
        })
    }
}

impl Region {
    /// Whether a window that gives `access` may be bound to it.
    fn admits(&self, access: Access) -> bool {
        let flush = Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT;
        self.access.contains(Access::MW_BIND)
            && !self.access.contains(Access::ZERO_BASED)
            && (self.access | access).is_consistent()
            && self.access.contains(access & flush)
    }

    /// Whether it has `len` bytes at `va`.
    fn covers(&self, va: u64, len: u64) -> bool {
        va.checked_sub(self.va)
            .and_then(|offset| offset.checked_add(len))
            .is_some_and(|end| end <= self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(0x8000_0105);
    const BOUND: Key = Key(0x8000_0106);
    const REGION: Region = Region {
        access: Access::from_bits(Access::LOCAL_WRITE.bits() | Access::MW_BIND.bits()),
        va: 0x1000,
        len: 0x1000,
    };
    const WRITE: Access = Access::REMOTE_WRITE;

    fn binding() -> Binding {
        Binding {
            window: KEY,
            tag: BOUND.tag(),
            region: Key(0x77),
            va: 0x1100,
            len: 0x200,
            access: WRITE | Access::REMOTE_READ,
        }
    }

    fn bound(window_type: WindowType) -> MemoryWindow {
        let mut window = MemoryWindow::new(window_type, KEY);
        window.bind(&binding(), Some(&REGION), QpId(17)).unwrap();
        window
    }

    fn place(window: &MemoryWindow, va: u64, len: u32) -> Option<u64> {
        let place = window.place(BOUND, QpId(17), WRITE, va, len)?;
        assert_eq!(place.region, Key(0x77));
        Some(place.va)
    }

    fn is_refused(window_type: WindowType, binding: &Binding, region: Option<&Region>) -> bool {
        let mut window = MemoryWindow::new(window_type, KEY);
        let refused = window.bind(binding, region, QpId(17)).is_err();
        assert_eq!(refused, window.key == KEY && window.shown.is_none());
        refused
    }

    const BOTH: [WindowType; 2] = [WindowType::One, WindowType::Two];

    // PROTOCOL requirement 15.
    #[test]
    fn a_window_shows_its_own_range() {
        for window in BOTH.map(bound) {
            assert_eq!(place(&window, 0x1100, 0x200), Some(0x1100));
            assert_eq!(place(&window, 0x12ff, 1), Some(0x12ff));
            assert_eq!(place(&window, 0x10ff, 1), None);
            assert_eq!(place(&window, 0x12ff, 2), None);
            assert_eq!(place(&window, u64::MAX, 8), None);
        }
    }

    #[test]
    fn a_window_gives_its_own_rights() {
        for window in BOTH.map(bound) {
            let gives = |access| {
                let gives = window.admits(BOUND, QpId(17), access);
                let place = window.place(BOUND, QpId(17), access, 0x1100, 8);
                assert_eq!(place.is_some(), gives);
                gives
            };
            assert!(gives(WRITE) && gives(Access::REMOTE_READ));
            assert!(!gives(Access::REMOTE_ATOMIC));
            assert!(!gives(Access::NONE) && !gives(Access::LOCAL_WRITE));
        }
    }

    #[test]
    fn the_tag_of_its_key_is_that_of_the_binding() {
        let window = bound(WindowType::One);
        assert!(window.place(KEY, QpId(17), WRITE, 0x1100, 8).is_none());
    }

    #[test]
    fn a_window_of_type_2_is_for_the_queue_pair_that_bound_it() {
        let is_seen_by_others =
            |window: &MemoryWindow| window.place(BOUND, QpId(18), WRITE, 0x1100, 8).is_some();
        assert!(is_seen_by_others(&bound(WindowType::One)));
        let mut window = bound(WindowType::Two);
        assert!(!is_seen_by_others(&window));
        assert_eq!(window.invalidate(BOUND, QpId(18)), Err(LocalFailed));
        assert_eq!(window.invalidate(BOUND, QpId(17)), Ok(()));
        assert_eq!(place(&window, 0x1100, 8), None);
    }

    #[test]
    fn only_a_window_of_type_2_is_invalidated_and_by_its_key() {
        assert!(bound(WindowType::One).invalidate(BOUND, QpId(17)).is_err());
        assert!(bound(WindowType::Two).invalidate(KEY, QpId(17)).is_err());
    }

    #[test]
    fn a_window_of_type_1_is_bound_anew_one_of_type_2_is_invalidated_before() {
        let again = Binding {
            window: BOUND,
            tag: 7,
            va: 0x1000,
            ..binding()
        };
        let mut window = bound(WindowType::One);
        assert!(window.bind(&again, Some(&REGION), QpId(17)).is_ok());
        assert_eq!(place(&window, 0x1000, 8), None);
        assert!(window
            .place(Key(0x8000_0107), QpId(17), WRITE, 0x1000, 8)
            .is_some());

        let mut window = bound(WindowType::Two);
        assert!(window.bind(&again, Some(&REGION), QpId(17)).is_err());
        assert_eq!(place(&window, 0x1100, 8), Some(0x1100));
        window.invalidate(BOUND, QpId(17)).unwrap();
        assert!(window.bind(&again, Some(&REGION), QpId(17)).is_ok());
    }

    #[test]
    fn nothing_bound_is_an_end_for_type_1_and_an_error_for_type_2() {
        let nothing = Binding {
            window: BOUND,
            len: 0,
            ..binding()
        };
        let mut window = bound(WindowType::One);
        assert!(window.bind(&nothing, None, QpId(17)).is_ok());
        assert_eq!(place(&window, 0x1100, 0), None);
        let nothing = Binding {
            len: 0,
            ..binding()
        };
        assert!(is_refused(WindowType::Two, &nothing, None));
        assert!(is_refused(WindowType::Two, &nothing, Some(&REGION)));
    }

    #[test]
    fn only_type_2_may_begin_at_zero() {
        let zero_based = Binding {
            access: WRITE | Access::ZERO_BASED,
            ..binding()
        };
        assert!(is_refused(WindowType::One, &zero_based, Some(&REGION)));
        let mut window = MemoryWindow::new(WindowType::Two, KEY);
        window.bind(&zero_based, Some(&REGION), QpId(17)).unwrap();
        assert_eq!(place(&window, 0, 0x200), Some(0x1100));
        assert_eq!(place(&window, 0x1ff, 2), None);
        assert_eq!(place(&window, 0x1100, 8), None);
    }

    #[test]
    fn the_region_must_permit_the_binding() {
        let with = |access| Region { access, ..REGION };
        for window_type in BOTH {
            let refused = |region: &Region| is_refused(window_type, &binding(), Some(region));
            assert!(!refused(&REGION));
            assert!(refused(&with(Access::LOCAL_WRITE)));
            assert!(refused(&with(Access::MW_BIND)));
            assert!(refused(&with(REGION.access | Access::ZERO_BASED)));
            assert!(is_refused(window_type, &binding(), None));
        }
    }

    #[test]
    fn who_may_only_read_needs_no_region_that_is_written() {
        let reading = Binding {
            access: Access::REMOTE_READ,
            ..binding()
        };
        let region = Region {
            access: Access::MW_BIND,
            ..REGION
        };
        assert!(!is_refused(WindowType::One, &reading, Some(&region)));
    }

    #[test]
    fn the_range_must_be_within_the_region() {
        for (va, len) in [
            (0xfff, 1),
            (0x1fff, 2),
            (0x1000, 0x1001),
            (0x2000, 1),
            (0x1100, u64::MAX),
        ] {
            let binding = Binding {
                va,
                len,
                ..binding()
            };
            for window_type in BOTH {
                assert!(is_refused(window_type, &binding, Some(&REGION)));
            }
        }
    }

    #[test]
    fn rights_that_no_peer_can_have_are_refused_or_ignored() {
        let asking = |access| Binding {
            access: WRITE | access,
            ..binding()
        };
        for access in [
            Access::MW_BIND,
            Access::ON_DEMAND,
            Access::from_bits(1 << 31),
        ] {
            assert!(is_refused(WindowType::Two, &asking(access), Some(&REGION)));
        }
        for access in [Access::LOCAL_WRITE, Access::RELAXED_ORDERING] {
            assert!(!is_refused(WindowType::Two, &asking(access), Some(&REGION)));
        }
        // Whether memory is persistent is known of the region only.
        for access in [Access::FLUSH_GLOBAL, Access::FLUSH_PERSISTENT] {
            assert!(is_refused(WindowType::Two, &asking(access), Some(&REGION)));
            let region = Region {
                access: REGION.access | access,
                ..REGION
            };
            assert!(!is_refused(WindowType::Two, &asking(access), Some(&region)));
        }
    }

    #[test]
    fn a_region_is_bound_to_or_retired() {
        let one = Bonds::NONE.bound().unwrap();
        let two = one.bound().unwrap();
        assert_eq!(two.retired(), None);
        assert_eq!(two.released().retired(), None);
        assert_eq!(two.released().released(), Bonds::NONE);
        assert_eq!(two.count(), 2);
        let retired = Bonds::NONE.retired().unwrap();
        assert_eq!(retired.count(), 0);
        assert_eq!(retired.bound(), None);
        assert_eq!(retired.retired(), Some(retired));
        // More windows than there are would look like it.
        assert_eq!(Bonds::from_bits(retired.bits() - 1).bound(), None);
    }

    #[test]
    fn a_binding_names_the_window_by_its_key() {
        let stale = Binding {
            window: BOUND,
            ..binding()
        };
        assert!(is_refused(WindowType::One, &stale, Some(&REGION)));
    }
}
