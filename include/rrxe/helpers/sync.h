/* SPDX-License-Identifier: GPL-2.0 */

__rust_helper void rust_helper_local_bh_disable(void)
{
	local_bh_disable();
}

__rust_helper void rust_helper_local_bh_enable(void)
{
	local_bh_enable();
}

__rust_helper void rust_helper_spin_lock_bh(spinlock_t *lock)
{
	spin_lock_bh(lock);
}

__rust_helper int rust_helper_spin_trylock_bh(spinlock_t *lock)
{
	return spin_trylock_bh(lock);
}

__rust_helper void rust_helper_spin_unlock_bh(spinlock_t *lock)
{
	spin_unlock_bh(lock);
}

/* An allocating array whose lock is taken with softirqs disabled. */
__rust_helper void rust_helper_xa_init_alloc_bh(struct xarray *xa)
{
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_BH);
}

__rust_helper void rust_helper_xa_lock_bh(struct xarray *xa)
{
	xa_lock_bh(xa);
}

__rust_helper void rust_helper_xa_unlock_bh(struct xarray *xa)
{
	xa_unlock_bh(xa);
}

__rust_helper int rust_helper_xa_err(void *entry)
{
	return xa_err(entry);
}

/* The entry with the smallest index from *index on; reserved entries do not count. */
__rust_helper void *rust_helper_xa_find_present(struct xarray *xa,
						unsigned long *index)
{
	return xa_find(xa, index, U32_MAX, XA_PRESENT);
}

__rust_helper bool rust_helper_queue_work(struct workqueue_struct *wq,
					  struct work_struct *work)
{
	return queue_work(wq, work);
}
