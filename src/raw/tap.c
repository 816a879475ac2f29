/* SPDX-License-Identifier: BSD-2-Clause */
/* tap.c - input of raw packet QPs: a packet socket for each interface that a QP has
 * rules for, and the ordered rules.
 *
 * A frame goes to the QP of the first rule that matches, by priority, then by
 * creation; after a rule that does not trap (sniffers too) it also goes on. Default
 * rules come last. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw/flow.h"
#include "raw/packet.h"
#include "raw/packet_own.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "verbs/core.h"
#include "verbs/device.h"

enum {
	MSGS = 16,
	BUF = 65536 + 64, /* bytes of a frame, or of several that the kernel merged */
	CTL = 64,
	MACS = 12, /* bytes before a VLAN tag */
};

struct tap {
	struct list node; /* in packets->taps */
	uint32_t ifindex;
	int fd;
	struct list rules; /* in matching order */
};

/* A rule of a QP. */
struct entry {
	struct flow flow; /* first member */
	struct list node; /* in tap->rules */
	struct tap *tap;
	struct qp *qp;
	struct flow_rule rule;
	struct counters *counters; /* NULL: not counted */
};

/* The buffers of one system call. */
struct input {
	struct mmsghdr msg[MSGS];
	struct virtio_net_hdr vnet[MSGS];
	struct iovec iov[MSGS][2];
	_Alignas(struct cmsghdr) char ctl[MSGS][CTL];
	uint8_t buf[MSGS][BUF];
};

static struct entry *entry_of(struct list *n)
{
	return container_of(n, struct entry, node);
}

struct flow *flow_of(struct ibv_flow *ibv)
{
	return container_of(ibv, struct flow, ibv);
}

/* --- rules ----------------------------------------------------------------- */

static unsigned rank_of(const struct flow_rule *r)
{
	switch (r->type) {
	case IBV_FLOW_ATTR_SNIFFER:
		return 0;
	case IBV_FLOW_ATTR_NORMAL:
		return 1u + r->priority;
	case IBV_FLOW_ATTR_MC_DEFAULT:
		return UINT16_MAX + 2;
	case IBV_FLOW_ATTR_ALL_DEFAULT:
		break;
	}
	return UINT16_MAX + 3;
}

static void insert_entry(struct tap *tap, struct entry *e)
{
	list_for(n, &tap->rules)
	{
		if (rank_of(&entry_of(n)->rule) > rank_of(&e->rule)) {
			list_add_tail(n, &e->node); /* before n */
			return;
		}
	}
	list_add_tail(&tap->rules, &e->node);
}

/* Makes the interface receive the addresses that the rule names, or all addresses, while
 * the rule exists. A rule that does not compare the address needs nothing. */
static void listen_for(const struct entry *e, bool on)
{
	static const uint8_t whole[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const struct flow_rule *r = &e->rule;
	struct packet_mreq m = { .mr_ifindex = (int)e->tap->ifindex, .mr_alen = 6 };

	if (r->type == IBV_FLOW_ATTR_MC_DEFAULT)
		m.mr_type = PACKET_MR_ALLMULTI;
	else if (r->type != IBV_FLOW_ATTR_NORMAL)
		m.mr_type = PACKET_MR_PROMISC;
	else if (memcmp(r->mask.dst_mac, whole, 6) == 0)
		m.mr_type =
			r->value.dst_mac[0] & 1 ? PACKET_MR_MULTICAST : PACKET_MR_UNICAST;
	else
		return;
	memcpy(m.mr_address, r->value.dst_mac, 6);
	setsockopt(e->tap->fd, SOL_PACKET,
		   on ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP, &m, sizeof(m));
}

/* --- taps ------------------------------------------------------------------ */

static int open_socket(struct packets *p, struct tap *tap)
{
	struct sockaddr_ll a = { .sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL),
				 .sll_ifindex = (int)tap->ifindex };
	struct epoll_event ev = { .events = EPOLLIN };
	int one = 1;

	tap->fd = packet_socket();
	if (tap->fd < 0)
		return tap->fd;
	if (setsockopt(tap->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(tap->fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(tap->fd, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
	    bind(tap->fd, (struct sockaddr *)&a, sizeof(a)) ||
	    epoll_ctl(p->epfd, EPOLL_CTL_ADD, tap->fd, &ev)) {
		int rc = -errno;

		close(tap->fd);
		return rc;
	}
	return 0;
}

static struct tap *tap_of(const struct packets *p, uint32_t ifindex)
{
	list_for(n, &p->taps)
	{
		struct tap *tap = container_of(n, struct tap, node);

		if (tap->ifindex == ifindex)
			return tap;
	}
	return NULL;
}

static int find_tap(struct packets *p, uint32_t ifindex, struct tap **out)
{
	struct tap *tap;
	int rc;

	*out = tap_of(p, ifindex);
	if (*out)
		return 0;
	tap = calloc(1, sizeof(*tap));
	if (!tap)
		return -ENOMEM;
	tap->ifindex = ifindex;
	list_init(&tap->rules);
	rc = open_socket(p, tap);
	if (rc) {
		free(tap);
		return rc;
	}
	list_add_tail(&p->taps, &tap->node);
	*out = tap;
	if (!atomic_exchange(&p->listens, true))
		p->on_first(p->arg);
	return 0;
}

static void close_tap(struct packets *p, struct tap *tap)
{
	list_del(&tap->node);
	atomic_store(&p->listens, !list_empty(&p->taps));
	if (tap->fd >= 0)
		close(tap->fd);
	free(tap);
}

/* --- input ----------------------------------------------------------------- */

static void prepare_msg(struct input *in, unsigned i)
{
	in->iov[i][0] = (struct iovec){ &in->vnet[i], sizeof(in->vnet[i]) };
	in->iov[i][1] = (struct iovec){ in->buf[i], BUF };
	in->msg[i].msg_hdr = (struct msghdr){ .msg_iov = in->iov[i],
					      .msg_iovlen = 2,
					      .msg_control = in->ctl[i],
					      .msg_controllen = CTL };
}

static int need_input(struct packets *p)
{
	if (p->in)
		return 0;
	p->in = malloc(sizeof(*p->in));
	if (!p->in)
		return -ENOMEM;
	for (unsigned i = 0; i < MSGS; i++)
		prepare_msg(p->in, i);
	return 0;
}

/* Gets the VLAN tag that the kernel has stripped from the frame; false: there was
 * none. */
static bool tag_of(struct msghdr *h, uint8_t tag[VLAN_TAG])
{
	struct tpacket_auxdata aux;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(h); c; c = CMSG_NXTHDR(h, c)) {
		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (!(aux.tp_status & TP_STATUS_VLAN_VALID))
			return false;
		if (!(aux.tp_status & TP_STATUS_VLAN_TPID_VALID))
			aux.tp_vlan_tpid = ETH_P_8021Q;
		tag[0] = (uint8_t)(aux.tp_vlan_tpid >> 8);
		tag[1] = (uint8_t)aux.tp_vlan_tpid;
		tag[2] = (uint8_t)(aux.tp_vlan_tci >> 8);
		tag[3] = (uint8_t)aux.tp_vlan_tci;
		return true;
	}
	return false;
}

/* Between virtual interfaces the kernel leaves a datagram's checksum to an adapter: at
 * start + offset is only the sum of the pseudo header. Computes the checksum. */
static void fill_sum(uint8_t *at, size_t n, const struct virtio_net_hdr *v)
{
	size_t start = v->csum_start, place = start + v->csum_offset;
	uint32_t sum = 0;

	if (!(v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) || start >= n || n < 2 ||
	    place > n - 2)
		return;
	for (size_t i = start; i < n; i++)
		sum += (i - start) % 2 ? at[i] : (uint32_t)at[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	if (sum == 0)
		sum = 0xffff; /* in UDP a checksum of 0 means that there is none */
	at[place] = (uint8_t)(sum >> 8);
	at[place + 1] = (uint8_t)sum;
}

/* Is the rule for this frame? from: the context whose QP has sent the frame; NULL: the
 * frame has come in. */
static bool is_for(const struct entry *e, const struct context *from)
{
	return !from || (e->rule.type == IBV_FLOW_ATTR_NORMAL && e->qp->ctx != from);
}

static bool is_cvlan(const uint8_t tag[VLAN_TAG])
{
	return tag[0] == ETH_P_8021Q >> 8 && tag[1] == (ETH_P_8021Q & 0xff);
}

/* Parses the headers of the n bytes at `at`, with a tag put back. */
static void parse_with(struct flow_frame *out, const uint8_t *at, size_t n,
		       const uint8_t tag[VLAN_TAG])
{
	enum {
		COMPARED = 64 + 60 + VLAN_TAG
	}; /* bytes behind the tag that rules compare */
	uint8_t head[MACS + VLAN_TAG + COMPARED];
	size_t rest = n - MACS < COMPARED ? n - MACS : COMPARED;

	memcpy(head, at, MACS);
	memcpy(head + MACS, tag, VLAN_TAG);
	memcpy(head + MACS + VLAN_TAG, at + MACS, rest);
	flow_frame_parse(out, head, MACS + VLAN_TAG + rest);
}

/* Describes the frame of n bytes at `at`. tag: what the kernel has taken out of it, or
 * NULL. */
static void describe_frame(struct frame_in *f, uint8_t *at, size_t n, uint8_t *tag)
{
	size_t rest = MACS; /* where it goes on after the tag */

	f->len = (uint32_t)n;
	if (tag) {
		parse_with(&f->head, at, n, tag);
		f->len += VLAN_TAG;
	} else {
		flow_frame_parse(&f->head, at, n);
		if (n > MACS + VLAN_TAG && is_cvlan(at + MACS)) {
			tag = at + MACS;
			rest += VLAN_TAG;
		}
	}
	f->cvlan = tag && is_cvlan(tag) ? tag : NULL;
	if (!tag) {
		f->piece[0] = (struct iovec){ at, n };
		f->pieces = 1;
		return;
	}
	f->piece[0] = (struct iovec){ at, MACS };
	f->piece[1] = (struct iovec){ tag, VLAN_TAG };
	f->piece[2] = (struct iovec){ at + rest, n - rest };
	f->pieces = 3;
}

static void steer(struct tap *tap, const struct context *from, uint8_t *at, size_t n,
		  uint8_t *tag, uint64_t now)
{
	struct frame_in frame;

	if (n < MACS)
		return;
	describe_frame(&frame, at, n, tag);
	list_for(node, &tap->rules)
	{
		struct entry *e = entry_of(node);

		if (!is_for(e, from) || !flow_matches(&e->rule, &frame.head))
			continue;
		if (e->counters)
			counters_add(e->counters, frame.len);
		packet_deliver(e->qp, &frame, now);
		if (!e->rule.dont_trap)
			return;
	}
}

/* Returns the number of frames taken in, or -EBADF. */
static int take_in(struct packets *p, struct tap *tap, uint64_t now)
{
	struct input *in = p->in;
	/* A bare system call, because libc's function is a cancellation point and this
	 * thread must not be cancelled here. */
	int got = (int)syscall(SYS_recvmmsg, tap->fd, in->msg, MSGS, MSG_DONTWAIT, NULL);

	if (got < 0)
		return errno == EBADF || errno == ENOTSOCK ? -EBADF : 0;
	for (unsigned i = 0; i < (unsigned)got; i++) {
		size_t n = in->msg[i].msg_len;
		uint8_t tag[VLAN_TAG];

		if (n >= sizeof(*in->vnet) &&
		    !(in->msg[i].msg_hdr.msg_flags & MSG_TRUNC)) {
			n -= sizeof(*in->vnet);
			fill_sum(in->buf[i], n, &in->vnet[i]);
			steer(tap, NULL, in->buf[i], n,
			      tag_of(&in->msg[i].msg_hdr, tag) ? tag : NULL, now);
		}
		prepare_msg(in, i);
	}
	return got;
}

int packets_input(struct packets *p, uint64_t now)
{
	int sum = 0;

	list_for(n, &p->taps)
	{
		int got = take_in(p, container_of(n, struct tap, node), now);

		if (got < 0)
			return got;
		sum += got;
	}
	return sum;
}

bool tap_is_of_others(const struct packets *p, uint32_t ifindex,
		      const struct context *ctx)
{
	struct tap *tap = tap_of(p, ifindex);

	if (!tap)
		return false;
	list_for(n, &tap->rules) if (is_for(entry_of(n), ctx)) return true;
	return false;
}

void tap_echo(struct packets *p, uint32_t ifindex, const struct context *from,
	      uint8_t *at, size_t n, uint64_t now)
{
	struct tap *tap = tap_of(p, ifindex);

	if (tap)
		steer(tap, from, at, n, NULL, now);
}

/* --- for verbs ------------------------------------------------------------- */

static int add_entry(struct packets *p, struct qp *qp, struct entry *e)
{
	int rc = need_input(p);

	if (!rc && e->rule.counters)
		rc = counters_bind(e->rule.counters, qp->ctx, &e->counters);
	if (rc)
		return rc;
	rc = find_tap(p, qp->dev->number, &e->tap);
	if (rc) {
		if (e->counters)
			counters_unbind(e->counters);
		return rc;
	}
	e->qp = qp;
	qp->users++;
	insert_entry(e->tap, e);
	listen_for(e, true);
	return 0;
}

int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out)
{
	struct core *core = qp->core;
	struct entry *e;
	int rc;

	if (qp->ctx->dead)
		return -EIO;
	if (qp->type != IBV_QPT_RAW_PACKET)
		return qp->type == IBV_QPT_UD ? -EOPNOTSUPP : -EINVAL;
	e = calloc(1, sizeof(*e));
	if (!e)
		return -ENOMEM;
	rc = flow_rule_parse(&e->rule, attr);
	if (!rc) {
		turn_take(&core->turn);
		rc = add_entry(packets_of(core), qp, e);
		turn_give(&core->turn);
	}
	if (rc) {
		free(e);
		return rc;
	}
	e->flow.ibv.context = qp->ctx->ibv;
	e->flow.ibv.handle = core_handle(core);
	live_add(&e->flow.live, LIVE_FLOW, qp->ctx->ibv);
	*out = &e->flow;
	return 0;
}

void flow_destroy(struct flow *flow)
{
	struct entry *e = container_of(flow, struct entry, flow);
	struct core *core = e->qp->core;

	live_del(&flow->live);
	turn_take(&core->turn);
	list_del(&e->node);
	e->qp->users--;
	if (e->counters)
		counters_unbind(e->counters);
	if (e->tap->fd >= 0)
		listen_for(e, false);
	if (list_empty(&e->tap->rules))
		close_tap(packets_of(core), e->tap);
	turn_give(&core->turn);
	free(e);
}

/* --- opening --------------------------------------------------------------- */

struct room_key packets_key;

int packets_open(struct core *core, void (*on_first)(void *arg), void *arg)
{
	struct packets *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epfd < 0) {
		int rc = -errno;

		free(p);
		return rc;
	}
	p->epfd = fd_raise(p->epfd);
	list_init(&p->taps);
	list_init(&p->qps);
	p->on_first = on_first;
	p->arg = arg;
	room_put(core, &packets_key, p);
	return 0;
}

int packets_fd(const struct packets *p)
{
	return atomic_load(&p->listens) ? p->epfd : -1;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void packets_forked(struct packets *p)
{
	list_for(n, &p->taps) close_fd(&container_of(n, struct tap, node)->fd);
	list_for(n, &p->qps) close_fd(&container_of(n, struct packet_qp, node)->fd);
	close_fd(&p->epfd);
}

void packets_close(struct core *core)
{
	struct packets *p = packets_of(core);

	packets_forked(p);
	free(p->in);
	free(p->out);
	free(p->echoes);
	free(p);
	room_put(core, &packets_key, NULL);
}
