/* SPDX-License-Identifier: GPL-2.0 */

/*
 * Copies of memory that user space may be writing to. What is read is whatever was
 * there at some moment of the call; to Rust, where a race with a reference would be
 * undefined, this is a foreign function.
 */
__rust_helper void rust_helper_copy_bytes(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

__rust_helper void rust_helper_arch_wb_cache_pmem(void *addr, size_t size)
{
	arch_wb_cache_pmem(addr, size);
}

__rust_helper void rust_helper_wmb(void)
{
	wmb();
}

/* Whether all of the memory at a linear address outlives a loss of power. */
__rust_helper bool rust_helper_is_persistent(const void *start, size_t length)
{
	return region_intersects(virt_to_phys((void *)start), length, IORESOURCE_MEM,
				 IORES_DESC_PERSISTENT_MEMORY) == REGION_INTERSECTS;
}

/*
 * Whether all bytes are memory that is mapped where the kernel maps all of it. That is the
 * same for all pages of a subsection.
 */
__rust_helper bool rust_helper_is_direct_mapped(unsigned long start, size_t len)
{
	const unsigned long step = 1UL << SUBSECTION_SHIFT;
	unsigned long last = start + len - 1, at;

	if (!len || last < start)
		return false;
	for (at = start; at < last; at = ALIGN_DOWN(at, step) + step)
		if (!virt_addr_valid((void *)at))
			return false;
	return virt_addr_valid((void *)last);
}
