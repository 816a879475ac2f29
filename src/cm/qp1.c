/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.c - see qp1.h. */
#include "cm/qp1.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/psn.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

enum {
	AT_A_TIME = 16, /* MADs that share a call of the link */
	HEADERS = sizeof(struct bth) + sizeof(struct deth),
	PACKET_LEN = HEADERS + GSI_MAD + TRAILER_LEN,
};

int qp1_open(struct core *core, struct device *dev, struct link *link,
	     void (*take)(struct gsi *g, const struct gsi_mad *m, uint64_t now),
	     struct qp1 **out)
{
	struct qp1 *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->gsi = (struct gsi){ .link = link, .dev = dev, .take = take };
	q->core = core;
	q->link = link;
	turn_take(&core->turn);
	list_add_tail(&core->gsis, &q->gsi.node);
	turn_give(&core->turn);
	*out = q;
	return 0;
}

void qp1_close(struct qp1 *q)
{
	turn_take(&q->core->turn);
	list_del(&q->gsi.node);
	turn_give(&q->core->turn);
	free(q);
}

/* --- out ----------------------------------------------------------------- */

bool qp1_has_room(const struct qp1 *q)
{
	return q->head - q->tail < QP1_SENDS;
}

uint16_t qp1_pkey(const struct qp1 *q, uint16_t pkey_index)
{
	if (!q->gsi.dev)
		return pkey_index ? 0 : PKEY_DEFAULT;
	return pkey_index < PKEY_TABLE ? q->gsi.dev->pkey[pkey_index] : 0;
}

int qp1_send(struct qp1 *q, const struct link_to *to, uint16_t pkey_index,
	     const uint8_t *mad)
{
	struct qp1_out *o = &q->out[q->head % QP1_SENDS];
	struct link_to from_here = *to;
	const char *why;

	if (!qp1_has_room(q))
		return -ENOMEM;
	o->pkey = qp1_pkey(q, pkey_index);
	if (!pkey_valid(o->pkey))
		return -EINVAL;
	from_here.slid = q->gsi.dev ? device_lid(q->gsi.dev) : 0;
	why = q->link->ops->resolve(&from_here, &o->to);
	if (why) {
		if (log_level >= LOG_INFO && log_allowed(&q->said))
			log_info("a message of connection management cannot be sent: %s",
				 why);
		return -EINVAL;
	}
	o->psn = q->psn;
	memcpy(o->mad, mad, GSI_MAD);
	q->psn = psn_add(q->psn, 1);
	q->head++;
	return 0;
}

/* Makes the datagram of o: BTH, DETH, the MAD, and the link's trailer. */
static void make_packet(struct qp1 *q, const struct qp1_out *o, uint8_t *at,
			struct dgram *d)
{
	const struct ib_fields f = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.migreq = true,
		.pkey = o->pkey,
		.dest_qp = QP_GSI,
		.psn = o->psn,
		.qkey = QKEY_GSI,
		.src_qp = QP_GSI,
	};

	(void)ib_build(at, &f); /* writes HEADERS bytes */
	memcpy(at + HEADERS, o->mad, GSI_MAD);
	*d = (struct dgram){ .link = q->link,
			     .addr = o->to,
			     .len = PACKET_LEN,
			     .iovcnt = 1,
			     .iov = &d->one };
	d->one = (struct iovec){ at, d->len };
	if (q->link->ops->seal)
		(void)q->link->ops->seal(q->link, d); /* all of it is our own memory */
}

/* Returns how many of the first n MADs the link has taken; -errno: it is broken. */
static int send_some(struct qp1 *q, unsigned n, uint64_t now)
{
	uint8_t packet[AT_A_TIME][PACKET_LEN];
	struct dgram v[AT_A_TIME];
	int was, sent;

	for (unsigned i = 0; i < n; i++)
		make_packet(q, &q->out[(q->tail + i) % QP1_SENDS], packet[i], &v[i]);
	was = cancel_hold();
	sent = q->link->ops->send(q->link, v, n, now);
	cancel_let(was);
	link_sent(q->link);
	return sent;
}

bool qp1_run(struct qp1 *q, uint64_t now)
{
	while (q->head != q->tail && q->link->full_until <= now) {
		unsigned n =
			q->head - q->tail < AT_A_TIME ? q->head - q->tail : AT_A_TIME;
		int sent = send_some(q, n, now);

		if (sent < 0) {
			q->tail = q->head;
			return false;
		}
		q->tail += (unsigned)sent;
		q->gsi.packets += (unsigned)sent;
		q->gsi.bytes += (uint64_t)sent * (HEADERS + GSI_MAD);
		if (sent > 0)
			q->link->took_at = now;
		if ((unsigned)sent < n)
			q->link->full_until = now + LINK_FULL_NS;
	}
	return true;
}

uint64_t qp1_deadline(const struct qp1 *q)
{
	return q->head == q->tail ? NEVER : q->link->full_until;
}
