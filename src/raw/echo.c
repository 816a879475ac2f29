/* SPDX-License-Identifier: BSD-2-Clause */
/* echo.c - gives frames that a QP sends to rules of other contexts of this process, as
 * an adapter gives them to the other users of its port. The QP's lock is held while it
 * sends, and no other QP's lock may be taken then: so the frames are copied, and
 * delivered when output has ended. */
#include <stdlib.h>

#include "raw/packet.h"
#include "raw/packet_own.h"
#include "verbs/device.h"
#include "verbs/netport.h"
#include "verbs/qp.h"
#include "verbs/sgl.h"

enum { FRAMES = 16, FRAME_MAX = 65536 };

struct echoes {
	unsigned n;
	struct echo {
		const struct context *from; /* only compared: the context may be gone */
		uint32_t ifindex, len;
		uint8_t at[FRAME_MAX];
	} frame[FRAMES];
};

unsigned echo_room(struct packets *p, const struct qp *qp)
{
	/* On loopback the kernel itself brings back each frame. */
	if (net_device_of(qp->dev)->net.loopback ||
	    !tap_is_of_others(p, qp->dev->number, qp->ctx))
		return ECHO_NONE;
	if (!p->echoes)
		p->echoes = calloc(1, sizeof(*p->echoes));
	return p->echoes ? FRAMES - p->echoes->n : ECHO_NONE;
}

void echo_keep(struct packets *p, const struct qp *qp, const struct span *s, uint32_t len)
{
	struct echo *e = &p->echoes->frame[p->echoes->n];

	if (len > FRAME_MAX || span_copy(e->at, s, 0, len))
		return;
	e->from = qp->ctx;
	e->ifindex = qp->dev->number;
	e->len = len;
	p->echoes->n++;
}

bool packets_have_echo(const struct packets *p)
{
	return p->echoes && p->echoes->n;
}

bool packets_echo(struct packets *p, uint64_t now)
{
	if (!packets_have_echo(p))
		return false;
	for (unsigned i = 0; i < p->echoes->n; i++) {
		struct echo *e = &p->echoes->frame[i];

		tap_echo(p, e->ifindex, e->from, e->at, e->len, now);
	}
	p->echoes->n = 0;
	return true;
}
