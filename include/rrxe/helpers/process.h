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
