/* SPDX-License-Identifier: BSD-2-Clause */
/* lid.c - see lid.h. */
#include "net/lid.h"

#include <errno.h>
#include <stdlib.h>

#include "net/lid_addr.h"
#include "net/parcel.h"
#include "sys/guard.h"
#include "sys/list.h"
#include "wire/grh.h"
#include "wire/lrh.h"

enum { BTH_LEN = 12, NEXT_IBA = 0x1b, PAGE = 4096 };

struct lid {
	struct link link;
	struct link *inner;
};

static struct lid *lid_of(struct link *link)
{
	return container_of(link, struct lid, link);
}

/* --- addresses ----------------------------------------------------------- */

static bool is_group(uint16_t lid)
{
	return lid >= LID_MULTICAST && lid != LID_PERMISSIVE_ADDR;
}

static const char *lid_resolve(const struct link_to *to, struct link_addr *out)
{
	struct lid_addr a = { .slid = to->slid, .dlid = to->dlid, .sl = to->sl };

	if (!to->slid)
		return "the port has no LID yet: is there a subnet manager?";
	if (!to->dlid || to->dlid == LID_PERMISSIVE_ADDR)
		return "the destination LID is no port's";
	if (is_group(to->dlid) && !to->grh)
		return "a multicast group needs a GRH";
	if (to->grh) {
		a.grh = 1;
		a.tclass = to->tclass;
		a.hop_limit = to->hop_limit;
		a.flow_label = to->flow_label;
		memcpy(a.sgid, to->sgid, sizeof(a.sgid));
		memcpy(a.dgid, to->dgid, sizeof(a.dgid));
	}
	memcpy(out, &a, sizeof(a));
	return NULL;
}

/* IBTA 9.6.1.5: the LIDs must match, and the GIDs if the path has a GRH. */
static bool lid_is_from(const struct link_addr *path, const struct dgram *d)
{
	const struct lid_addr *p = lid_addr(path), *a = lid_addr(&d->addr);

	return a->slid == p->dlid && a->dlid == p->slid && a->grh == p->grh &&
	       memcmp(a->sgid, p->dgid, sizeof(a->sgid)) == 0 &&
	       memcmp(a->dgid, p->sgid, sizeof(a->dgid)) == 0;
}

static void lid_dest(const struct link_addr *addr, struct link_dest *out)
{
	const struct lid_addr *a = lid_addr(addr);

	*out = (struct link_dest){ .lid = a->dlid, .group = is_group(a->dlid) };
	memcpy(out->gid, a->dgid, sizeof(out->gid));
}

/* len: bytes after the GRH, through the ICRC. */
static struct grh grh_of(const struct lid_addr *a, size_t len)
{
	struct grh g = {
		.vtf = be32(6u << 28 | (uint32_t)a->tclass << 20 |
			    (a->flow_label & 0xfffff)),
		.paylen = be16((uint16_t)len),
		.next = NEXT_IBA,
		.hop_limit = a->hop_limit,
	};

	memcpy(g.sgid, a->sgid, sizeof(g.sgid));
	memcpy(g.dgid, a->dgid, sizeof(g.dgid));
	return g;
}

static void lid_head(const struct dgram *d, struct link_head *out)
{
	const struct lid_addr *a = lid_addr(&d->addr);
	struct grh g;

	*out = (struct link_head){
		.grh = a->grh,
		.sl = a->sl,
		.slid = a->slid,
		.dlid_path_bits = (uint8_t)(a->dlid & 0x7f),
	};
	if (!a->grh)
		return;
	g = grh_of(a, d->len + TRAILER_LEN);
	memcpy(out->bytes, &g, sizeof(g));
}

/* --- packets ------------------------------------------------------------- */

/* Reads a byte of each page of the datagram. */
static void touch(void *arg)
{
	const struct dgram *d = arg;

	for (unsigned i = 0; i < d->iovcnt; i++) {
		const volatile uint8_t *at = d->iov[i].iov_base;
		size_t n = d->iov[i].iov_len;

		for (size_t k = 0; k < n; k += PAGE - ((uintptr_t)(at + k) & (PAGE - 1)))
			(void)at[k];
	}
}

/* Checks that the payload is mapped, so that the work request fails here: the code that
 * sends the packet later cannot report it. */
static int lid_seal(struct link *link, struct dgram *d)
{
	const struct iovec *last = &d->iov[d->iovcnt - 1];

	(void)link;
	if (guard_call(touch, d))
		return -EFAULT;
	memset((uint8_t *)last->iov_base + last->iov_len - TRAILER_LEN, 0, TRAILER_LEN);
	return 0;
}

static int lid_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct lid *l = lid_of(link);

	return l->inner->ops->send(l->inner, v, n, now);
}

static void open_packet(struct lid *l, struct dgram *d)
{
	d->link = &l->link;
	if (d->len < BTH_LEN + TRAILER_LEN || d->iovcnt != 1) {
		d->damaged = true;
		return;
	}
	d->len -= TRAILER_LEN;
	d->iov[0].iov_len = d->len;
}

static int lid_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct lid *l = lid_of(link);
	int got = l->inner->ops->recv(l->inner, v, n, now);

	for (int i = 0; i < got; i++)
		open_packet(l, &v[i]);
	return got;
}

size_t lid_frame(uint8_t *to, const struct dgram *d)
{
	const struct lid_addr *a = lid_addr(&d->addr);
	uint8_t *at = to + sizeof(struct lrh);
	struct grh g;
	size_t n;

	if (d->len < BTH_LEN + TRAILER_LEN || d->len % 4)
		return 0;
	if (a->grh) {
		g = grh_of(a, d->len);
		memcpy(at, &g, sizeof(g));
		at += sizeof(g);
	}
	if (dgram_flatten(at, d))
		return 0;
	at += d->len - TRAILER_LEN;
	n = lrh_close(to, (size_t)(at - to),
		      (struct lrh_fields){ .sl = a->sl & 15,
					   .grh = a->grh,
					   .dlid = a->dlid,
					   .slid = a->slid });
	if (d->damaged)
		*at ^= 0xff;
	return n;
}

static uint64_t lid_deadline(struct link *link)
{
	struct lid *l = lid_of(link);

	return l->inner->ops->deadline(l->inner);
}

static void lid_close(struct link *link)
{
	struct lid *l = lid_of(link);

	l->inner->ops->close(l->inner);
	free(l);
}

static const struct link_ops lid_ops = {
	.send = lid_send,
	.recv = lid_recv,
	.seal = lid_seal,
	.deadline = lid_deadline,
	.close = lid_close,
	.resolve = lid_resolve,
	.is_from = lid_is_from,
	.dest = lid_dest,
	.head = lid_head,
};

int lid_wrap(struct link **out, struct link *inner)
{
	struct lid *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->link = (struct link){ .ops = &lid_ops, .run_max = 1, .mtu = inner->mtu };
	l->inner = inner;
	*out = &l->link;
	return 0;
}

struct link **lid_inner(struct link *link)
{
	return &lid_of(link)->inner;
}
