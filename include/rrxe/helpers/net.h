/* SPDX-License-Identifier: GPL-2.0 */

/* ---- network namespaces ---- */

__rust_helper void rust_helper_get_net(struct net *net)
{
	get_net(net);
}

__rust_helper struct net *rust_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

__rust_helper void rust_helper_put_net(struct net *net)
{
	put_net(net);
}

__rust_helper void *rust_helper_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

/* ---- network devices ---- */

__rust_helper void rust_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

__rust_helper void rust_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

__rust_helper struct net *rust_helper_dev_net_rcu(const struct net_device *dev)
{
	return dev_net_rcu(dev);
}

__rust_helper struct net_device *
rust_helper_vlan_dev_real_dev(const struct net_device *dev)
{
	return vlan_dev_real_dev(dev);
}

__rust_helper int rust_helper_netdev_ifindex(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}

__rust_helper unsigned int rust_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

__rust_helper bool rust_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

__rust_helper bool rust_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

__rust_helper bool rust_helper_is_vlan_dev(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

__rust_helper u16 rust_helper_vlan_dev_vlan_id(const struct net_device *dev)
{
	return vlan_dev_vlan_id(dev);
}

__rust_helper struct net_device *
rust_helper_netdev_notifier_info_to_dev(const struct netdev_notifier_info *info)
{
	return netdev_notifier_info_to_dev(info);
}

/*
 * Both ways for a device to leave a namespace hold the RTNL lock from before the notifiers
 * are called until the change can be seen.
 */
__rust_helper bool rust_helper_netdev_is_settled_in(const struct net_device *dev,
						    const struct net *net)
{
	bool settled;

	rtnl_lock();
	settled = dev->reg_state == NETREG_REGISTERED && net_eq(dev_net(dev), net);
	rtnl_unlock();
	return settled;
}

/* ---- multicast groups ---- */

/* Returns what has joined, with a reference. Joining itself does not tell if it failed. */
__rust_helper struct in_device *rust_helper_ip_mc_join(struct net_device *dev, __be32 group)
{
	struct in_device *in_dev;
	struct ip_mc_list *member = NULL;

	rtnl_lock();
	in_dev = __in_dev_get_rtnl(dev);
	if (in_dev) {
		ip_mc_inc_group(in_dev, group);
		for (member = rtnl_dereference(in_dev->mc_list); member;
		     member = rtnl_dereference(member->next_rcu))
			if (member->multiaddr == group)
				break;
	}
	if (member)
		in_dev_hold(in_dev);
	rtnl_unlock();
	if (!in_dev)
		return ERR_PTR(-ENODEV);
	return member ? in_dev : ERR_PTR(-ENOMEM);
}

/* Whether that is what the device has now, and has not lost with its memberships. */
__rust_helper bool rust_helper_ip_mc_is_current(const struct net_device *dev,
						const struct in_device *in_dev)
{
	return rcu_access_pointer(dev->ip_ptr) == in_dev;
}

/* What the device has lost has no memberships any more. */
__rust_helper void rust_helper_ip_mc_leave(struct in_device *in_dev, __be32 group)
{
	rtnl_lock();
	ip_mc_dec_group(in_dev, group);
	rtnl_unlock();
	in_dev_put(in_dev);
}

/* Returns what has joined, with a reference. */
__rust_helper struct inet6_dev *rust_helper_ipv6_mc_join(struct net_device *dev,
							 const struct in6_addr *group)
{
	struct inet6_dev *idev;
	int err = -ENODEV;

	rtnl_lock();
	idev = in6_dev_get(dev);
	if (idev)
		err = ipv6_dev_mc_inc(dev, group);
	rtnl_unlock();
	if (!err)
		return idev;
	if (idev)
		in6_dev_put(idev);
	return ERR_PTR(err);
}

__rust_helper bool rust_helper_ipv6_mc_is_current(const struct net_device *dev,
						  const struct inet6_dev *idev)
{
	return rcu_access_pointer(dev->ip6_ptr) == idev;
}

/* What the device has now may be another one, with memberships of others. */
__rust_helper void rust_helper_ipv6_mc_leave(struct inet6_dev *idev,
					     const struct in6_addr *group)
{
	rtnl_lock();
	if (rust_helper_ipv6_mc_is_current(idev->dev, idev))
		ipv6_dev_mc_dec(idev->dev, group);
	rtnl_unlock();
	in6_dev_put(idev);
}

/* ---- socket buffers ---- */

__rust_helper struct sk_buff *rust_helper_alloc_skb(unsigned int size, gfp_t flags)
{
	return alloc_skb(size, flags);
}

__rust_helper void rust_helper_skb_reserve(struct sk_buff *skb, int len)
{
	skb_reserve(skb, len);
}

__rust_helper int rust_helper_skb_tailroom(const struct sk_buff *skb)
{
	return skb_tailroom(skb);
}

__rust_helper unsigned int rust_helper_skb_headroom(const struct sk_buff *skb)
{
	return skb_headroom(skb);
}

__rust_helper void rust_helper_skb_reset_network_header(struct sk_buff *skb)
{
	skb_reset_network_header(skb);
}

__rust_helper void rust_helper_skb_reset_transport_header(struct sk_buff *skb)
{
	skb_reset_transport_header(skb);
}

__rust_helper bool rust_helper_pskb_may_pull(struct sk_buff *skb, unsigned int len)
{
	return pskb_may_pull(skb, len);
}

__rust_helper void rust_helper_skb_dst_set_noref(struct sk_buff *skb,
						 struct dst_entry *dst)
{
	skb_dst_set_noref(skb, dst);
}

__rust_helper void rust_helper_skb_queue_head_init(struct sk_buff_head *list)
{
	skb_queue_head_init(list);
}

__rust_helper __u32 rust_helper_skb_queue_len_lockless(const struct sk_buff_head *list)
{
	return skb_queue_len_lockless(list);
}

__rust_helper void rust_helper_skb_queue_purge(struct sk_buff_head *list)
{
	skb_queue_purge(list);
}

/* The device that a packet of UDP came in by, while the stack has it. */
__rust_helper int rust_helper_skb_iif(const struct sk_buff *skb)
{
	return ip_hdr(skb)->version == 4 ? inet_iif(skb) : inet6_iif(skb);
}

/* Makes a packet begin with its IP header again; returns the length of that. */
__rust_helper unsigned int rust_helper_skb_push_network_header(struct sk_buff *skb)
{
	unsigned int len = -skb_network_offset(skb);

	__skb_push(skb, len);
	return len;
}

/*
 * Lets go of what a packet says of its way to us: all of it may be gone by the time that
 * the packet is taken off a queue.
 */
__rust_helper void rust_helper_skb_detach(struct sk_buff *skb)
{
	skb->dev = NULL;
	secpath_reset(skb);
	skb_dst_drop(skb);
}

__rust_helper void rust_helper_skb_put_data(struct sk_buff *skb, const void *from,
					    unsigned int len)
{
	skb_put_data(skb, from, len);
}

__rust_helper void rust_helper_skb_put_zero(struct sk_buff *skb, unsigned int len)
{
	skb_put_zero(skb, len);
}

__rust_helper void rust_helper_skb_push_data(struct sk_buff *skb, const void *from,
					     unsigned int len)
{
	memcpy(skb_push(skb, len), from, len);
}

/* ---- routes ---- */

__rust_helper void rust_helper_flowi4_init_output(struct flowi4 *fl4, int oif, __u8 tos,
						  __be32 daddr, __be32 saddr,
						  __be16 dport, __be16 sport)
{
	flowi4_init_output(fl4, oif, 0, tos, RT_SCOPE_UNIVERSE, IPPROTO_UDP, 0,
			   daddr, saddr, dport, sport, GLOBAL_ROOT_UID);
}

__rust_helper __be32 rust_helper_ip6_make_flowinfo(unsigned int tclass, __be32 flowlabel)
{
	return ip6_make_flowinfo(tclass, flowlabel);
}

__rust_helper void rust_helper_dst_hold(struct dst_entry *dst)
{
	dst_hold(dst);
}

__rust_helper struct dst_entry *rust_helper_dst_check(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

__rust_helper u32 rust_helper_rt6_get_cookie(struct dst_entry *dst)
{
	return rt6_get_cookie(dst_rt6_info(dst));
}

__rust_helper struct net *rust_helper_dst_dev_net_rcu(const struct dst_entry *dst)
{
	return dst_dev_net_rcu(dst);
}

/* Room in front of and behind an IP packet that leaves by @dst. */
__rust_helper unsigned int rust_helper_dst_headroom(const struct dst_entry *dst)
{
	return LL_RESERVED_SPACE(dst_dev_rcu(dst)) + dst->header_len;
}

__rust_helper unsigned int rust_helper_dst_tailroom(const struct dst_entry *dst)
{
	return READ_ONCE(dst_dev_rcu(dst)->needed_tailroom) + dst->trailer_len;
}

/* ---- sockets ---- */

__rust_helper void *rust_helper_rcu_dereference_sk_user_data(const struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

__rust_helper void rust_helper_inet_dec_convert_csum(struct sock *sk)
{
	inet_dec_convert_csum(sk);
}

/*
 * Gives the locks of a socket of ours classes of their own for lockdep: all UDP sockets
 * share two otherwise, and the order in which user space's are taken is not ours. The
 * macro pins this module for as long as the socket lives, which would make it
 * impossible to unload; we close the socket ourselves before the module goes.
 */
__rust_helper void rust_helper_sock_reclassify(struct sock *sk)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	static struct lock_class_key lock_key[2], slock_key[2];
	int v6 = sk->sk_family == AF_INET6;

	sock_lock_init_class_and_name(sk, "slock-RRXE", &slock_key[v6],
				      "sk_lock-RRXE", &lock_key[v6]);
	sk_owner_put(sk);
	sk_owner_clear(sk);
#endif
}
