// SPDX-License-Identifier: GPL-2.0

#![cfg_attr(fuzzing, no_main)]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rrxe_fuzz::wqe::run(data));
