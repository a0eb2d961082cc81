/* SPDX-License-Identifier: GPL-2.0 */

__rust_helper void
rust_helper_ib_mark_name_assigned_by_user(struct ib_device *device)
{
	ib_mark_name_assigned_by_user(device);
}

__rust_helper enum ib_port_state
rust_helper_ib_get_curr_port_state(struct net_device *dev)
{
	return ib_get_curr_port_state(dev);
}

__rust_helper struct ib_ucontext *
rust_helper_udata_ucontext(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata)->context;
}

__rust_helper struct ib_udata *
rust_helper_uverbs_attr_bundle_udata(struct uverbs_attr_bundle *attrs)
{
	return &attrs->driver_udata;
}

/* What a queue pair knows itself of how it was created; the rest is zeroed. */
__rust_helper void rust_helper_ib_qp_describe(const struct ib_qp *qp,
					      struct ib_qp_init_attr *init)
{
	*init = (struct ib_qp_init_attr) {
		.event_handler = qp->event_handler,
		.qp_context = qp->qp_context,
		.send_cq = qp->send_cq,
		.recv_cq = qp->recv_cq,
		.srq = qp->srq,
		.qp_type = qp->qp_type,
	};
}

/* The handlers are those of the object's creator, set before the object is made. */
__rust_helper void rust_helper_ib_cq_notify(struct ib_cq *cq)
{
	if (cq->comp_handler)
		cq->comp_handler(cq, cq->cq_context);
}

__rust_helper void rust_helper_ib_cq_deliver(struct ib_cq *cq, enum ib_event_type code)
{
	struct ib_event event = {
		.device = cq->device, .element.cq = cq, .event = code,
	};

	if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

__rust_helper void rust_helper_ib_srq_deliver(struct ib_srq *srq, enum ib_event_type code)
{
	struct ib_event event = {
		.device = srq->device, .element.srq = srq, .event = code,
	};

	if (srq->event_handler)
		srq->event_handler(&event, srq->srq_context);
}

__rust_helper void rust_helper_ib_qp_deliver(struct ib_qp *qp, enum ib_event_type code)
{
	struct ib_event event = {
		.device = qp->device, .element.qp = qp, .event = code,
	};

	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

/* What a driver tells of an object, within a message of the core's. */
__rust_helper void *rust_helper_rdma_details_begin(struct sk_buff *message)
{
	return nla_nest_start(message, RDMA_NLDEV_ATTR_DRIVER);
}

__rust_helper void rust_helper_rdma_details_end(struct sk_buff *message, void *nest)
{
	nla_nest_end(message, nest);
}

__rust_helper void rust_helper_rdma_details_cancel(struct sk_buff *message, void *nest)
{
	nla_nest_cancel(message, nest);
}

__rust_helper struct ib_umem *
rust_helper_ib_umem_get_va(struct ib_device *device, unsigned long addr,
			   size_t size, int access)
{
	return ib_umem_get_va(device, addr, size, access);
}

__rust_helper bool rust_helper_ib_access_writable(int access_flags)
{
	return ib_access_writable(access_flags);
}

__rust_helper void *rust_helper_sg_virt(struct scatterlist *sg)
{
	return sg_virt(sg);
}

__rust_helper void rust_helper_random_bytes(void *bytes, size_t len)
{
	get_random_bytes(bytes, len);
}

__rust_helper int rust_helper_notifier_from_errno(int err)
{
	return notifier_from_errno(err);
}

__rust_helper unsigned long rust_helper_ib_umem_start(struct ib_umem_odp *umem)
{
	return ib_umem_start(umem);
}

__rust_helper unsigned long rust_helper_ib_umem_end(struct ib_umem_odp *umem)
{
	return ib_umem_end(umem);
}

__rust_helper unsigned long rust_helper_mm_task_size(struct mm_struct *mm)
{
	return mm->task_size;
}

/* Whether the process has no memory there any more. */
__rust_helper bool
rust_helper_mmu_notifier_range_unmaps(const struct mmu_notifier_range *range)
{
	return range->event == MMU_NOTIFY_UNMAP || range->event == MMU_NOTIFY_RELEASE;
}

__rust_helper bool
rust_helper_mmu_notifier_range_blockable(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

__rust_helper void
rust_helper_mmu_interval_set_seq(struct mmu_interval_notifier *notifier,
				 unsigned long sequence)
{
	mmu_interval_set_seq(notifier, sequence);
}

/*
 * Where the kernel sees a page that is there and stays there. It does not see secret memory
 * (memfd_secret()), which it takes out of its own map.
 */
__rust_helper void *rust_helper_hmm_pfn_address(unsigned long pfn)
{
	struct page *page = hmm_pfn_to_page(pfn);
	struct address_space *mapping = folio_mapping(page_folio(page));

	if (mapping && mapping->host && mapping->host->i_sb->s_magic == SECRETMEM_MAGIC)
		return NULL;
	return page_address(page);
}

/* The page of an address may have been written to. */
__rust_helper void rust_helper_dirty_page(void *address)
{
	set_page_dirty(compound_head(virt_to_page(address)));
}

/*
 * ib_sg_to_pages() with the pages in a list. The function that it calls for each page is
 * given no more than a region: this is one that knows the list.
 */
struct rrxe_listing {
	struct ib_mr mr;
	u64 *pages;
	u32 max, count;
};

static int rrxe_list_page(struct ib_mr *mr, u64 addr)
{
	struct rrxe_listing *listing = container_of(mr, struct rrxe_listing, mr);

	if (listing->count == listing->max)
		return -ENOMEM;
	listing->pages[listing->count++] = addr;
	return 0;
}

__rust_helper int rust_helper_ib_sg_to_page_list(struct ib_mr *mr, struct scatterlist *sg,
						 int entries, unsigned int *offset,
						 u64 *pages, u32 max, u32 *count)
{
	struct rrxe_listing listing = {
		.mr.page_size = mr->page_size, .pages = pages, .max = max,
	};
	int used = ib_sg_to_pages(&listing.mr, sg, entries, offset, rrxe_list_page);

	mr->iova = listing.mr.iova;
	mr->length = listing.mr.length;
	*count = listing.count;
	return used;
}
