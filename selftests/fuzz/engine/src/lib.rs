// SPDX-License-Identifier: GPL-2.0

//! The entry point that libFuzzer calls.
//!
//! Built without `--cfg fuzzing`, the program has a `main` of its own instead, which runs the target
//! over the files that it is given.

use std::{env, fs, process::ExitCode};

/// Makes the program a target: what follows is run for each input.
#[macro_export]
macro_rules! fuzz_target {
    (|$data:ident: &[u8]| $body:expr) => {
        fn target($data: &[u8]) {
            $body
        }

        /// # Safety
        ///
        /// To be called by libFuzzer, with `len` bytes at `data`.
        #[cfg(fuzzing)]
        #[no_mangle]
        unsafe extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, len: usize) -> i32 {
            // SAFETY: By the requirement. There is a pointer even if there are no bytes.
            target(unsafe { core::slice::from_raw_parts(data, len) });
            0
        }

        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay(target)
        }
    };
}

/// Runs `target` over the files that the command line names.
pub fn replay(target: fn(&[u8])) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for name in env::args().skip(1) {
        match fs::read(&name) {
            Ok(data) => target(&data),
            Err(error) => {
                eprintln!("{name}: {error}");
                status = ExitCode::FAILURE;
            }
        }
    }
    status
}
