/* SPDX-License-Identifier: GPL-2.0 */

__rust_helper struct net *rust_helper_dev_net(const struct net_device *dev)
{
	return dev_net(dev);
}
