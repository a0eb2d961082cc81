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

/* The entry with the smallest index from *index on; reserved entries do not count. */
__rust_helper void *rust_helper_xa_find_present(struct xarray *xa,
						unsigned long *index)
{
	return xa_find(xa, index, U32_MAX, XA_PRESENT);
}

/* An array of @count u64 on each CPU, zeroed; NULL when out of memory. */
__rust_helper u64 __percpu *rust_helper_alloc_percpu_u64s(size_t count)
{
	return __alloc_percpu(array_size(count, sizeof(u64)), sizeof(u64));
}

__rust_helper void rust_helper_free_percpu(void __percpu *p)
{
	free_percpu(p);
}

__rust_helper void rust_helper_this_cpu_add_u64(u64 __percpu *p, u64 n)
{
	this_cpu_add(*p, n);
}

/* The sum over all CPUs; what is added meanwhile may be missed. */
__rust_helper u64 rust_helper_sum_percpu_u64(u64 __percpu *p)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(p, cpu));
	return sum;
}

__rust_helper bool rust_helper_queue_work(struct workqueue_struct *wq,
					  struct work_struct *work)
{
	return queue_work(wq, work);
}

__rust_helper void rust_helper_flush_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
}
