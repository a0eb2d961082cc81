/* SPDX-License-Identifier: GPL-2.0 */

/* As the host knows the user: the kernel's own number. */
__rust_helper uid_t rust_helper_current_uid(void)
{
	return __kuid_val(current_uid());
}

__rust_helper bool rust_helper_is_exiting(void)
{
	return current->flags & PF_EXITING;
}

/* With a reference. */
__rust_helper struct mem_cgroup *rust_helper_mem_cgroup_of(struct mm_struct *mm)
{
	return get_mem_cgroup_from_mm(mm);
}

__rust_helper struct mem_cgroup *rust_helper_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

__rust_helper void rust_helper_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}
