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
