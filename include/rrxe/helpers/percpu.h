/* SPDX-License-Identifier: GPL-2.0 */

/* Arrays of 64-bit counters, one array for each CPU. */
__rust_helper u64 __percpu *rust_helper_percpu_counters_alloc(size_t count)
{
	return (u64 __percpu *)__alloc_percpu(count * sizeof(u64), sizeof(u64));
}

__rust_helper void rust_helper_percpu_counters_free(u64 __percpu *counters)
{
	free_percpu(counters);
}

__rust_helper void rust_helper_percpu_counter_add(u64 __percpu *counter, u64 n)
{
	this_cpu_add(*counter, n);
}

__rust_helper u64 rust_helper_percpu_counter_sum(u64 __percpu *counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(counter, cpu));
	return sum;
}
