/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_mpa.c - MPA's request and reply (RFC 5044, 7; RFC 6581): sends and receives them,
 * and acts on the result. */
#include <errno.h>
#include <sys/epoll.h>

#include "cm/iw_int.h"
#include "sys/addr.h"
#include "sys/log.h"

/* --- sending and receiving ----------------------------------------------- */

ssize_t iwc_flush(struct iwc *c, uint64_t now)
{
	for (;;) {
		struct iovec v = iw_setup_out(&c->setup);
		ssize_t n;

		if (!v.iov_len)
			return 0;
		n = c->stream->ops->send(c->stream, &v, 1, now);
		if (n < 0)
			return n;
		if (n == 0)
			return (ssize_t)v.iov_len;
		iw_setup_sent(&c->setup, (size_t)n);
	}
}

/* Receives what the socket has, until the setup needs no more. Returns 0 or -errno. */
static int receive_setup(struct iwc *c, uint64_t now)
{
	while (c->setup.state == IW_MORE) {
		struct iovec v = iw_setup_room(&c->setup);
		ssize_t n = c->stream->ops->recv(c->stream, &v, 1, now);

		if (n <= 0)
			return (int)n;
		iw_setup_received(&c->setup, (size_t)n);
	}
	return 0;
}

static void lose_conn(struct iwc *c, int rc, uint64_t now)
{
	c->cm->counter[CM_IW_LOST]++;
	if (rc == -ESHUTDOWN || rc == -EPIPE)
		rc = -ECONNRESET;
	if (c->state == IWC_AWAITING)
		iwc_drop(c);
	else if (rc != -ECONNRESET || c->setup.in_len || !iwc_fall_back(c, now))
		iwc_fail(c, rc);
}

void iwc_pump(struct iwc *c, uint64_t now)
{
	ssize_t left = iwc_flush(c, now);
	int rc = receive_setup(c, now);

	if (c->setup.state != IW_MORE) {
		(void)iw_watch(c->cm, &c->watch, 0);
		iwc_timer(c, NEVER);
		iwc_later(c, now);
	} else if (rc || left < 0)
		lose_conn(c, rc ? rc : (int)left, now);
	else
		(void)iw_watch(c->cm, &c->watch, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* --- results of MPA's setup ---------------------------------------------- */

static uint8_t depth_of(uint16_t n)
{
	return n < IW_DEPTH_MAX ? (uint8_t)n : IW_DEPTH_MAX;
}

static struct cm_param peer_of(const struct iwc *c)
{
	const struct mpa_hello *h = &c->setup.peer;
	bool depths = h->flags & MPA_ENHANCED;

	return (struct cm_param){
		.service_type = CM_RC,
		.resources = depth_of(depths ? h->ird : IW_DEPTH_UNKNOWN),
		.depth = depth_of(depths ? h->ord : IW_DEPTH_UNKNOWN),
		.private = h->data,
		.private_len = h->data_len,
	};
}

void iwc_turn_away(struct iwc *c, uint64_t now)
{
	if (c->setup.state == IW_REQUEST && !iw_setup_reject(&c->setup, NULL, 0)) {
		c->cm->counter[CM_RX_BACKLOG]++;
		(void)iwc_flush(c, now);
	}
	iwc_drop(c);
}

bool iwc_is_full(const struct cm_listener *l)
{
	return !l->owner || l->asked >= l->backlog;
}

void iwc_tell_request(struct iwc *c, uint64_t now)
{
	struct cm_listener *l = c->listener;
	struct cm_param p = peer_of(c);
	struct cm_event ev = {
		.type = CM_EV_REQUEST, .conn = &c->base, .from = &c->to, .peer = &p
	};

	if (!l->owner->event(l->owner, &ev)) {
		iwc_turn_away(c, now);
		return;
	}
	iwc_leave_half(c);
	iwc_timer(c, NEVER);
	c->state = IWC_ASKED;
	l->asked++;
}

/* The request is complete; any bytes behind it stay in the socket for the QP. */
static void request_came(struct iwc *c, uint64_t now)
{
	c->state = IWC_PARKED;
	iwc_timer(c, now + IWC_REPLY_NS);
	if (iw_watch(c->cm, &c->watch, EPOLLRDHUP))
		iwc_turn_away(c, now);
	else if (!iwc_is_full(c->listener))
		iwc_tell_request(c, now);
}

static void reply_came(struct iwc *c)
{
	struct cm_param p = peer_of(c);

	p.resources = depth_of(c->setup.agreed.ord);
	p.depth = depth_of(c->setup.agreed.ird);
	c->state = IWC_ANSWERED;
	iwc_tell(c, CM_EV_RESPONSE, 0, &p);
}

static void rejected(struct iwc *c)
{
	struct cm_param p = peer_of(c);

	iwc_tell(c, CM_EV_REJECTED, -ECONNREFUSED, &p);
	iwc_over(c);
}

static void reject_garbage(struct iwc *c, uint64_t now)
{
	char peer[INET6_ADDRSTRLEN];

	if (cm_may_tell(c->cm, CM_IW_GARBAGE))
		log_info(
			"iWARP connection with %s, port %u: MPA's setup fails, reason %d",
			addr_text(c->to.route.dst, peer), c->to.dst_port,
			(int)c->setup.why);
	(void)iwc_flush(c, now);
	c->cm->counter[CM_IW_GARBAGE]++;
	if (c->passive)
		iwc_drop(c);
	else if (c->setup.why != IW_WHY_REVISION || !iwc_fall_back(c, now))
		iwc_fail(c, -EPROTO);
}

void iwc_settled(struct iwc *c, uint64_t now)
{
	switch (c->setup.state) {
	case IW_MORE:
		break;
	case IW_REQUEST:
		request_came(c, now);
		break;
	case IW_DONE:
		reply_came(c);
		break;
	case IW_REJECTED:
		rejected(c);
		break;
	case IW_FAILED:
		reject_garbage(c, now);
		break;
	}
}
