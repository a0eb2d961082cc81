// SPDX-License-Identifier: GPL-2.0

//! What the tests of the protocol core share.

#![forbid(unsafe_code)]

pub mod capture;
