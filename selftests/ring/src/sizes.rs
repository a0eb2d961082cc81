// SPDX-License-Identifier: GPL-2.0

//! Sizes of rings, and index arithmetic.

use proptest::prelude::*;

use crate::ring::index::Geometry;

#[test]
fn a_ring_is_a_power_of_two_of_slots_of_at_least_a_cache_line() {
    for (entries, element, slots, slot) in [
        (0, 1, 1, 64),
        (1, 64, 2, 64),
        (3, 65, 4, 128),
        (4, 208 + 16, 8, 256),
        (100, 208 + 512, 128, 1024),
        (32767, 64, 32768, 64),
    ] {
        let geometry = Geometry::new(entries, element).unwrap();
        assert_eq!(geometry.slots(), slots);
        assert_eq!(geometry.slot_bytes(), slot);
        assert_eq!(geometry.mask() as usize, slots - 1);
        assert_eq!(geometry.capacity() as usize, slots - 1);
        assert_eq!(geometry.bytes(), 384 + slots * slot);
    }
}

#[test]
fn a_ring_that_is_too_large_is_refused() {
    assert_eq!(Geometry::new(u32::MAX, 64), None);
    assert_eq!(Geometry::new(1 << 20, 64), None);
    assert_eq!(Geometry::new(1, usize::MAX), None);
    assert_eq!(Geometry::new(1, 4097), None);
    // The size must fit 32 bits.
    assert_eq!(Geometry::new((1 << 20) - 1, 4096), None);
    assert!(Geometry::new((1 << 20) - 1, 64).is_some());
}

proptest! {
    #[test]
    fn nothing_that_user_space_writes_leads_out_of_the_ring(
        entries in 0u32..5000,
        element in 1usize..800,
        a: u32,
        b: u32,
    ) {
        let geometry = Geometry::new(entries, element).unwrap();
        prop_assert!(geometry.capacity() >= entries);
        prop_assert!(geometry.slot_bytes() >= element);
        prop_assert!(geometry.offset(a) + geometry.slot_bytes() <= geometry.bytes());
        prop_assert!(geometry.offset(a).is_multiple_of(64));
        prop_assert!(geometry.distance(a, b) <= geometry.capacity());
        prop_assert_eq!(
            geometry.masked(a.wrapping_add(geometry.distance(a, b))),
            geometry.masked(b)
        );
    }
}
