// SPDX-License-Identifier: GPL-2.0

//! Rust that reads memory it has freed: the checks of the kernel are to see into Rust as well.

use core::ptr::addr_of_mut;
use kernel::prelude::*;

/// Reads a byte of a vector that is gone.
#[no_mangle]
pub extern "C" fn stale_read() -> u8 {
    let Ok(mut vector) = KVec::from_elem(0x42_u8, 4096, GFP_KERNEL) else {
        return 0;
    };
    let byte: *mut u8 = addr_of_mut!(vector[2048]);
    drop(vector);
    // SAFETY: None: this is the fault.
    unsafe { byte.read_volatile() }
}
