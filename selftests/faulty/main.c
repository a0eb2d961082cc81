// SPDX-License-Identifier: GPL-2.0
/*
 * A module that does wrong on request, for checkers.py: whoever writes the name of a fault
 * to /sys/kernel/debug/faulty has it committed.  Each leaves the kernel able to go on.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#define SIZE 64

u8 stale_read(void);

static volatile size_t beyond = SIZE;

/* Memory. */

static int use_after_free(void)
{
	char *memory = kmalloc(SIZE, GFP_KERNEL);

	kfree(memory);
	READ_ONCE(*memory);
	return 0;
}

static int use_after_free_in_rust(void)
{
	stale_read();
	return 0;
}

static int out_of_bounds(void)
{
	char *memory = kmalloc(SIZE, GFP_KERNEL);

	if (memory)
		WRITE_ONCE(memory[beyond], 1);
	kfree(memory);
	return 0;
}

static int index_out_of_bounds(void)
{
	static volatile char array[SIZE];

	array[beyond] = 1;
	return 0;
}

/* What KASAN does not see, as code without its checks would do it. */
static noinline __no_sanitize_address void overwrite(char *byte)
{
	*(volatile char *)byte = 1;
}

static int overwritten_redzone(void)
{
	struct kmem_cache *cache = kmem_cache_create("faulty", SIZE, 0, SLAB_NO_MERGE, NULL);
	char *memory;

	if (!cache)
		return -ENOMEM;
	memory = kmem_cache_alloc(cache, GFP_KERNEL);
	if (memory) {
		overwrite(memory + beyond);
		kmem_cache_free(cache, memory);
	}
	kmem_cache_destroy(cache);
	return 0;
}

static int leak(void)
{
	int i;

	/* Several: a stray word may look like a pointer to one. */
	for (i = 0; i < 10; i++)
		kmalloc(SIZE, GFP_KERNEL);
	return 0;
}

/* Locks and contexts. */

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static int lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
	return 0;
}

static DEFINE_SPINLOCK(spinning);

static int sleep_in_atomic(void)
{
	spin_lock(&spinning);
	might_sleep();
	spin_unlock(&spinning);
	return 0;
}

static int rcu_outside(void)
{
	static int __rcu *protected;

	return rcu_dereference(protected) != NULL;
}

/* Objects. */

static void nothing_due(struct timer_list *timer) { }

static int active_timer_freed(void)
{
	struct timer_list *timer = kmalloc_obj(*timer);

	if (!timer)
		return -ENOMEM;
	timer_setup(timer, nothing_due, 0);
	mod_timer(timer, jiffies + 3600 * HZ);
	kfree(timer);
	return 0;
}

static DECLARE_COMPLETION(over);

static void hold_up(struct work_struct *work) { wait_for_completion(&over); }

static void nothing_to_do(struct work_struct *work) { }

static DECLARE_WORK(obstacle, hold_up);

static int pending_work_freed(void)
{
	struct workqueue_struct *queue = alloc_ordered_workqueue("faulty", 0);
	struct work_struct *work = kmalloc_obj(*work);

	if (queue && work) {
		queue_work(queue, &obstacle);
		INIT_WORK(work, nothing_to_do);
		queue_work(queue, work);
	}
	kfree(work);
	complete_all(&over);
	if (queue)
		destroy_workqueue(queue);
	return 0;
}

static int list_added_twice(void)
{
	static LIST_HEAD(list);
	static struct list_head entry;

	list_add(&entry, &list);
	list_add(&entry, &list);
	return 0;
}

static int refcount_below_zero(void)
{
	refcount_t count = REFCOUNT_INIT(0);

	refcount_dec(&count);
	return 0;
}

/* Nothing is wrong with these; the kernel may refuse them, and the name. */
static int allocate(void)
{
	void *memory = kmalloc(SIZE, GFP_KERNEL);

	kfree(memory);
	return memory ? 0 : -ENOMEM;
}

static int allocate_pages(void)
{
	unsigned long pages = __get_free_pages(GFP_KERNEL, 2);

	free_pages(pages, 2);
	return pages ? 0 : -ENOMEM;
}

static const struct fault {
	const char *name;
	int (*commit)(void);
} faults[] = {
	{ "use after free", use_after_free },
	{ "use after free in Rust", use_after_free_in_rust },
	{ "out of bounds", out_of_bounds },
	{ "index out of bounds", index_out_of_bounds },
	{ "overwritten redzone", overwritten_redzone },
	{ "leak", leak },
	{ "lock order", lock_order },
	{ "sleep in atomic", sleep_in_atomic },
	{ "RCU outside", rcu_outside },
	{ "active timer freed", active_timer_freed },
	{ "pending work freed", pending_work_freed },
	{ "list added twice", list_added_twice },
	{ "refcount below zero", refcount_below_zero },
	{ "allocate", allocate },
	{ "allocate pages", allocate_pages },
};

static ssize_t faulty_write(struct file *file, const char __user *from, size_t length, loff_t *offset)
{
	char name[SIZE] = "";
	size_t i;
	int status;

	if (length >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, length))
		return -EFAULT;
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		if (strcmp(name, faults[i].name))
			continue;
		status = faults[i].commit();
		return status ?: length;
	}
	return -ENOENT;
}

static const struct file_operations faulty_operations = {
	.owner = THIS_MODULE,
	.write = faulty_write,
};

static struct dentry *file;

static int __init faulty_init(void)
{
	file = debugfs_create_file("faulty", 0200, NULL, NULL, &faulty_operations);
	return PTR_ERR_OR_ZERO(file);
}

static void __exit faulty_exit(void)
{
	debugfs_remove(file);
}

module_init(faulty_init);
module_exit(faulty_exit);
MODULE_DESCRIPTION("A module that does wrong on request");
MODULE_LICENSE("GPL");
