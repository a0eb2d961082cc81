// SPDX-License-Identifier: GPL-2.0

//! How connections share the memory for requests that wait for their turn.

/// Whether a connection whose requests take `held` bytes may take `bytes` more, where all together
/// have `used` of `allowed`.
///
/// None may hold more than a sixteenth of what it leaves to all others. So there is room for one that
/// holds nothing yet, even where many take all they get.
pub const fn may_take(allowed: usize, used: usize, held: usize, bytes: usize) -> bool {
    let left = allowed.saturating_sub(used).saturating_sub(bytes);
    held.saturating_add(bytes) <= left >> 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: usize = 1 << 24;
    const PACKET: usize = 8192;

    #[test]
    fn whoever_comes_last_finds_room() {
        let mut used = 0;
        for greedy in 0..64 {
            let mut held = 0;
            while may_take(ALLOWED, used, held, PACKET) {
                held += PACKET;
                used += PACKET;
            }
            assert!(held > 0, "number {greedy} finds nothing");
            assert!(held < ALLOWED / 16);
        }
    }

    #[test]
    fn nonsense_takes_nothing() {
        assert!(may_take(ALLOWED, 0, 0, PACKET));
        assert!(!may_take(ALLOWED, usize::MAX, 0, 1));
        assert!(!may_take(ALLOWED, 0, usize::MAX, 1));
        assert!(!may_take(ALLOWED, 0, 0, usize::MAX));
    }
}
