/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_cm.c - how an iWARP connection is made: TCP's handshake, then MPA's setup
 * (iw_mpa.c), until attach() gives it its QP. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "cm/iw_int.h"
#include "sys/addr.h"
#include "sys/conf.h"
#include "sys/log.h"

/* --- failure ------------------------------------------------------------- */

/* The event type for an errno. As in Linux's iw_cm, a refusal is REJECTED, whether the
 * program, MPA or TCP refused. */
static enum cm_event_type type_of(int rc)
{
	switch (rc) {
	case -ECONNREFUSED:
	case -ECONNRESET:
		return CM_EV_REJECTED;
	case -ETIMEDOUT:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return CM_EV_UNREACHABLE;
	default:
		return CM_EV_FAILED;
	}
}

void iwc_fail(struct iwc *c, int rc)
{
	char peer[INET6_ADDRSTRLEN];

	if (rc == -ETIMEDOUT)
		c->cm->counter[CM_TIMEOUT]++;
	log_info("iWARP connection to %s, TCP port %u: %s%s",
		 addr_text(c->to.route.dst, peer), c->to.dst_port, strerror(-rc),
		 rc == -ECONNREFUSED ? " (RoCE listeners are not iWARP's)" : "");
	iwc_tell(c, type_of(rc), rc, NULL);
	iwc_over(c);
}

/* --- the initiator: TCP -------------------------------------------------- */

/* Begins to connect. An error is reported later, from the timer, as all other results
 * are. */
static void begin_connect(struct iwc *c, uint64_t now)
{
	c->state = IWC_CONNECTING;
	c->failed = iw_sock_connect(&c->to, &c->watch.fd);
	if (!c->failed)
		c->failed = iw_watch(c->cm, &c->watch, EPOLLOUT);
	iwc_timer(c, c->failed ? now : now + IWC_CONNECT_NS);
}

bool iwc_fall_back(struct iwc *c, uint64_t now)
{
	if (c->fallback)
		return false;
	c->fallback = true;
	c->cm->counter[CM_IW_REVISION_1]++;
	iwc_close_socket(c);
	begin_connect(c, now);
	return true;
}

/* TCP failed to connect. A refusal is tried again for a while: a program that listens
 * anew between two connections (perftest does) may be slower than a peer of the same
 * host. */
static void not_connected(struct iwc *c, int rc, uint64_t now)
{
	if (rc != -ECONNREFUSED || now >= c->hope) {
		iwc_fail(c, rc);
		return;
	}
	iwc_close_socket(c);
	c->state = IWC_REFUSED;
	iwc_timer(c, now + IWC_AGAIN_NS);
}

static void finish_connect(struct iwc *c, uint64_t now)
{
	int rc = iw_sock_result(c->watch.fd);
	struct stream *s;

	if (!rc) {
		/* stream_tcp_open() may change the descriptor's number. */
		(void)iw_watch(c->cm, &c->watch, 0);
		rc = stream_tcp_open(&s, c->watch.fd);
	}
	if (rc)
		not_connected(c, rc, now);
	else
		iwc_ask(c, s, now);
}

/* --- descriptor and timer of a connection -------------------------------- */

void iwc_progress(struct iwc *c, uint64_t now)
{
	switch (c->state) {
	case IWC_CONNECTING:
		finish_connect(c, now);
		break;
	case IWC_ASKING:
	case IWC_AWAITING:
		iwc_pump(c, now);
		break;
	case IWC_PARKED: /* the peer closed */
		c->cm->counter[CM_IW_LOST]++;
		iwc_drop(c);
		break;
	case IWC_ASKED: /* the peer closed; accept() will return -EINVAL */
		c->cm->counter[CM_IW_LOST]++;
		iwc_over(c);
		break;
	case IWC_REFUSED:
	case IWC_ANSWERED:
	case IWC_ACCEPTED:
	case IWC_ATTACHED:
	case IWC_CONNECTED:
	case IWC_OVER:
		break;
	}
}

void iwc_timeout(struct iwc *c, uint64_t now)
{
	switch (c->state) {
	case IWC_CONNECTING:
		not_connected(c, c->failed ? c->failed : -ETIMEDOUT, now);
		break;
	case IWC_REFUSED:
		begin_connect(c, now);
		break;
	case IWC_ASKING:
		iwc_fail(c, -ETIMEDOUT);
		break;
	case IWC_AWAITING:
		c->cm->counter[CM_TIMEOUT]++;
		iwc_drop(c);
		break;
	case IWC_PARKED:
		iwc_turn_away(c, now);
		break;
	case IWC_ATTACHED:
		c->cm->counter[CM_TIMEOUT]++;
		c->failed = -ETIMEDOUT;
		iwc_detach(c, now);
		break;
	case IWC_ANSWERED:
	case IWC_ASKED:
	case IWC_ACCEPTED:
	case IWC_CONNECTED:
	case IWC_OVER:
		break;
	}
}

/* --- the initiator: MPA -------------------------------------------------- */

static struct iw_offer offer(const struct iwc *c, uint8_t revision)
{
	return (struct iw_offer){
		.revision = revision,
		.crc = conf_get() && conf_get()->mpa_crc,
		.ird = c->ird,
		.ord = c->ord,
		.data = c->data,
		.data_len = c->data_len,
	};
}

static int keep_params(struct iwc *c, const struct cm_param *p)
{
	if (p->private_len > sizeof(c->data) || p->resources > IW_DEPTH_MAX ||
	    p->depth > IW_DEPTH_MAX)
		return -EINVAL;
	c->qpn = p->qpn;
	c->ird = p->resources;
	c->ord = p->depth;
	c->data_len = (uint16_t)p->private_len;
	if (c->data_len)
		memcpy(c->data, p->private, c->data_len);
	return 0;
}

/* Sends MPA's request. It asks for peer-to-peer mode, so that either side may send first
 * (RFC 6581, 9). */
void iwc_ask(struct iwc *c, struct stream *s, uint64_t now)
{
	struct iw_offer o = offer(c, c->fallback ? 1 : 2);

	if (!c->fallback)
		o.rtr = MPA_RTR_WRITE | MPA_RTR_READ;
	c->stream = s;
	c->watch.fd = s->fd;
	c->state = IWC_ASKING;
	iwc_timer(c, now + IWC_REPLY_NS);
	if (iw_setup_start(&c->setup, &o))
		iwc_fail(c, -EINVAL);
	else
		iwc_pump(c, now);
}

static int iwcm_connect(struct cm *cm, const struct cm_target *to,
			const struct cm_param *self, struct cm_owner *owner,
			struct cm_conn **out, uint64_t now)
{
	struct iwc *c;
	int rc = iwc_check_qp(cm, self->qpn);

	if (rc)
		return rc;
	c = iwc_new(cm);
	if (!c)
		return -ENOMEM;
	c->to = *to;
	rc = keep_params(c, self);
	if (rc) {
		c->held = false;
		iwc_over(c);
		return rc;
	}
	c->base.owner = owner;
	c->hope = now + IWC_HOPE_NS;
	*out = &c->base;
	begin_connect(c, now);
	return 0;
}

/* --- the responder ------------------------------------------------------- */

bool iwc_come(struct cm_listener *l, struct stream *s, const struct cm_target *from,
	      uint64_t now)
{
	struct iwc *c = iwc_new(l->cm);

	if (!c) {
		s->ops->close(s);
		return false;
	}
	c->passive = true;
	c->to = *from;
	c->stream = s;
	c->watch.fd = s->fd;
	c->listener = l;
	c->state = IWC_AWAITING;
	c->since = now;
	list_add_tail(&c->cm->iw->half, &c->half);
	c->cm->iw->half_n++;
	l->coming++;
	iwc_timer(c, now + IWC_REQUEST_NS);
	iw_setup_listen(&c->setup);
	iwc_pump(c, now);
	return true;
}

static int iwcm_accept(struct cm_conn *base, const struct cm_param *p, uint64_t now)
{
	struct iwc *c = iwc_of(base);
	struct iw_offer o;
	int rc;

	if (c->state != IWC_ASKED)
		return -EINVAL;
	rc = iwc_check_qp(c->cm, p->qpn);
	if (!rc)
		rc = keep_params(c, p);
	if (rc)
		return rc;
	o = offer(c, c->setup.peer.revision);
	rc = iw_setup_accept(&c->setup, &o);
	if (rc)
		return rc;
	(void)iw_watch(c->cm, &c->watch, 0);
	iw_sock_set_tos(c->watch.fd, c->to.route.src, p->tclass);
	/* An empty socket buffer has room for the whole reply, so a remainder is an
	 * error. */
	if (iwc_flush(c, now)) {
		iwc_over(c);
		return -ECONNRESET;
	}
	c->state = IWC_ACCEPTED;
	return 0;
}

static int iwcm_reject(struct cm_conn *base, uint16_t reason, const void *private,
		       size_t len, uint64_t now)
{
	struct iwc *c = iwc_of(base);

	(void)reason;
	if (len > IWC_DATA_MAX)
		return -EINVAL;
	if (c->state == IWC_ASKED) {
		if (!iw_setup_reject(&c->setup, private, (uint16_t)len))
			(void)iwc_flush(c, now);
	} else if (c->state != IWC_ANSWERED && c->state != IWC_ACCEPTED) {
		return -EINVAL;
	}
	iwc_over(c);
	return 0;
}

/* The program has seen the peer's data before CM_EV_ESTABLISHED was reported. */
static int iwcm_established(struct cm_conn *base, uint64_t now)
{
	struct iwc *c = iwc_of(base);

	if (c->state != IWC_ATTACHED)
		return -EINVAL;
	c->ready = true;
	iwc_noted(c, now);
	return 0;
}

/* --- ending -------------------------------------------------------------- */

static int iwcm_disconnect(struct cm_conn *base, uint64_t now)
{
	struct iwc *c = iwc_of(base);

	if (!c->connected || c->parted)
		return -EINVAL;
	c->parted = true;
	iwc_detach(c, now);
	return 0;
}

void iwc_close(struct cm_conn *base, uint64_t now)
{
	struct iwc *c = iwc_of(base);

	base->owner = NULL;
	c->held = false;
	if (c->listener)
		iwc_room(c->listener);
	c->listener = NULL;
	switch (c->state) {
	case IWC_ASKED:
		(void)iwcm_reject(base, 0, NULL, 0, now);
		break;
	case IWC_ATTACHED:
	case IWC_CONNECTED:
		iwc_detach(c, now); /* the rest follows on_ended() */
		break;
	case IWC_CONNECTING:
	case IWC_REFUSED:
	case IWC_ASKING:
	case IWC_ANSWERED:
	case IWC_AWAITING:
	case IWC_PARKED:
	case IWC_ACCEPTED:
	case IWC_OVER:
		iwc_over(c);
		break;
	}
}

const struct cm_proto cm_iw_proto = {
	.name = "iwarp",
	.connect = iwcm_connect,
	.accept = iwcm_accept,
	.reject = iwcm_reject,
	.established = iwcm_established,
	.disconnect = iwcm_disconnect,
	.attach = iwc_attach,
	.close = iwc_close,
};
