// SPDX-License-Identifier: GPL-2.0
/*
 * Inline functions and macros of C headers as functions that Rust can call, by the
 * kernel's convention: `rust_helper_x()` is `bindings::helpers::x()` in Rust.
 */
#include <rrxe/bindings_helper.h>

#ifndef __rust_helper
#define __rust_helper
#endif

#include <rrxe/helpers/mem.h>
#include <rrxe/helpers/net.h>
#include <rrxe/helpers/percpu.h>
#include <rrxe/helpers/process.h>
#include <rrxe/helpers/rdma.h>
#include <rrxe/helpers/sync.h>
