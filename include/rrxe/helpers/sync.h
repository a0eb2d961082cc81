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

__rust_helper bool rust_helper_irqs_disabled(void)
{
	return irqs_disabled();
}

__rust_helper unsigned long rust_helper_spin_lock_irqsave(spinlock_t *lock)
{
	unsigned long flags;

	spin_lock_irqsave(lock, flags);
	return flags;
}

__rust_helper bool rust_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags)
{
	return spin_trylock_irqsave(lock, *flags);
}

__rust_helper void rust_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags)
{
	spin_unlock_irqrestore(lock, flags);
}

/* An allocating array whose lock is taken with interrupts disabled. */
__rust_helper void rust_helper_xa_init_alloc_irq(struct xarray *xa)
{
	xa_init_flags(xa, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ);
}

__rust_helper unsigned long rust_helper_xa_lock_irqsave(struct xarray *xa)
{
	unsigned long flags;

	xa_lock_irqsave(xa, flags);
	return flags;
}

__rust_helper void rust_helper_xa_unlock_irqrestore(struct xarray *xa, unsigned long flags)
{
	xa_unlock_irqrestore(xa, flags);
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

/*
 * A processor does not go away while another has preemption disabled: what is queued here
 * is queued on one that still runs its softirqs.
 */
__rust_helper bool rust_helper_queue_work_bh(unsigned int cpu, struct work_struct *work)
{
	bool queued;

	preempt_disable();
	if (cpu < nr_cpu_ids && cpu_online(cpu))
		queued = queue_work_on(cpu, system_bh_wq, work);
	else
		queued = queue_work(system_bh_wq, work);
	preempt_enable();
	return queued;
}

__rust_helper void rust_helper_init_rcu_work(struct rcu_work *rwork, work_func_t func)
{
	INIT_RCU_WORK(rwork, func);
}
