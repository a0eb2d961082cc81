/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C headers whose declarations rrxe uses from Rust and that the kernel's own
 * bindings crate does not cover.
 */
#ifndef RRXE_BINDINGS_HELPER_H
#define RRXE_BINDINGS_HELPER_H

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/crc32.h>
#include <linux/cred.h>
#include <linux/dma-buf.h>
#include <linux/fs.h>
#include <linux/hmm.h>
#include <linux/hrtimer.h>
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/ioport.h>
#include <linux/libnvdimm.h>
#include <linux/netdevice.h>
#include <linux/pagemap.h>
#include <linux/percpu.h>
#include <linux/rtnetlink.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/udp_tunnel.h>
#include <net/xfrm.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>

/* Macros that bindgen cannot evaluate (casts, function-like macros). */
const gfp_t RUST_CONST_HELPER_RRXE_GFP_KERNEL = GFP_KERNEL;
const gfp_t RUST_CONST_HELPER_RRXE_GFP_ATOMIC = GFP_ATOMIC;
/* For what a process may ask for as much of as it likes: zeroed, charged, refused in silence. */
const gfp_t RUST_CONST_HELPER_RRXE_GFP_USER_CHOICE = GFP_KERNEL_ACCOUNT | __GFP_ZERO |
						     __GFP_NOWARN | __GFP_RETRY_MAYFAIL;
const u32 RUST_CONST_HELPER_RRXE_FMODE_READ = (__force u32)FMODE_READ;
const u32 RUST_CONST_HELPER_RRXE_FMODE_WRITE = (__force u32)FMODE_WRITE;
const size_t RUST_CONST_HELPER_RRXE_KMALLOC_MINALIGN = ARCH_KMALLOC_MINALIGN;

#endif
