/* SPDX-License-Identifier: BSD-2-Clause */
/* roce.c - see roce.h. */
#include "net/roce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/ip_addr.h"
#include "net/ip_id.h"
#include "sys/guard.h"
#include "sys/list.h"
#include "wire/icrc.h"

enum { BTH_LEN = 12, CE = 3, KNOWN = 4 };

/* The part of the ICRC that packets of a stream have in common, by what it covers. */
struct known {
	struct link_addr addr;
	uint32_t len; /* 0: empty */
	bool may_fragment;
	uint8_t bth[ICRC_SHARED];
	uint32_t crc;
};

struct roce {
	struct link link;
	struct link *inner;
	uint16_t port, sport, told;
	struct ip_ids *ids;
	struct known out[KNOWN], in[KNOWN];
};

static struct roce *roce_of(struct link *link)
{
	return container_of(link, struct roce, link);
}

static void path_of(const struct roce *r, const struct dgram *d, struct icrc_path *p)
{
	memcpy(p->src, ip_of(d)->from.ip, sizeof(p->src));
	memcpy(p->dst, ip_of(d)->to.ip, sizeof(p->dst));
	p->sport = ip_of(d)->from.port;
	p->may_fragment = d->may_fragment;
	p->v1 = ip_of(d)->v1;
	p->dport = ip_of(d)->to.port ? ip_of(d)->to.port : r->port;
}

static uint16_t leaves_from(const struct roce *r, uint16_t port)
{
	if (port > IP_TOLD)
		return port;
	return port == IP_TOLD && r->told ? r->told : r->sport;
}

static bool is_known(const struct known *k, const struct dgram *d, const uint8_t *bth)
{
	return k->len == d->len && memcmp(k->bth, bth, sizeof(k->bth)) == 0 &&
	       addr_same(&k->addr, &d->addr) && k->may_fragment == d->may_fragment;
}

static void get_known(const struct roce *r, struct known *k, const struct dgram *d,
		      const uint8_t *bth)
{
	struct icrc_path path;

	*k = (struct known){ .addr = d->addr,
			     .len = d->len,
			     .may_fragment = d->may_fragment };
	memcpy(k->bth, bth, sizeof(k->bth));
	path_of(r, d, &path);
	if (k >= r->out && k < r->out + KNOWN)
		path.sport = leaves_from(r, path.sport);
	k->crc = icrc_shared(&path, d->len, bth);
}

/* Starts the ICRC of d: up to the BTH's first ICRC_SHARED bytes. known: r->out or r->in.
 * Small and large packets, and those of other opcodes, have a place of their own there,
 * so an ACK does not drive out the request. */
static uint32_t crc_of_head(const struct roce *r, struct known *known,
			    const struct dgram *d, uint16_t id)
{
	const uint8_t *bth = d->iov[0].iov_base;
	struct known *k = &known[(d->len / 4 ^ bth[0]) % KNOWN];

	if (!is_known(k, d, bth))
		get_known(r, k, d, bth);
	return addr_is_v4(ip_of(d)->to.ip) && !ip_of(d)->v1 ? icrc_with_id(k->crc, id)
							    : k->crc;
}

/* --- out ----------------------------------------------------------------- */

struct crc {
	uint32_t crc;
	const struct iovec *iov;
	unsigned n;
};

static void add_pieces(void *arg)
{
	struct crc *c = arg;
	uint32_t crc = c->crc;

	for (unsigned i = 0; i < c->n; i++)
		crc = icrc_add(crc, c->iov[i].iov_base, c->iov[i].iov_len);
	c->crc = crc;
}

/* The first and the last piece are the sender's own memory; those between are registered
 * memory, which may be unmapped. */
static int roce_seal(struct link *link, struct dgram *d)
{
	struct roce *r = roce_of(link);
	const struct iovec *last = &d->iov[d->iovcnt - 1];
	uint8_t *at = (uint8_t *)last->iov_base + last->iov_len - ICRC_LEN;
	bool whole = d->iovcnt == 1;
	struct crc c;

	if (ip_of(d)->v1)
		d->seg = 0; /* the kernel cannot cut such a run */
	d->ip_id = addr_is_v4(ip_of(d)->to.ip) ? d->seg : 0;
	c.crc = icrc_add(crc_of_head(r, r->out, d, (uint16_t)d->ip_id),
			 (uint8_t *)d->iov[0].iov_base + ICRC_SHARED,
			 d->iov[0].iov_len - ICRC_SHARED - (whole ? ICRC_LEN : 0));
	if (!whole) {
		c.iov = d->iov + 1;
		c.n = d->iovcnt - 2;
		if (c.n > 0 && guard_call(add_pieces, &c) != 0)
			return -EFAULT;
		if (last->iov_len > ICRC_LEN)
			c.crc = icrc_add(c.crc, last->iov_base, last->iov_len - ICRC_LEN);
	}
	icrc_end(c.crc, at);
	return 0;
}

/* Fills in ports only now, because a run is recognised by equal addresses. */
static void fill_ports(const struct roce *r, struct dgram *d)
{
	struct ip_addr *a = ip_of(d);

	if (a->v1)
		return;
	a->from.port = leaves_from(r, a->from.port);
	if (!a->to.port)
		a->to.port = r->port;
}

static int roce_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct roce *r = roce_of(link);
	int rc;

	for (unsigned i = 0; i < n; i++)
		fill_ports(r, &v[i]);
	rc = r->inner->ops->send(r->inner, v, n, now);
	r->link.run_max = r->inner->run_max;
	return rc;
}

/* --- in ------------------------------------------------------------------ */

/* Was d merged (GRO) with others? Then only the first one's identification is known. A
 * sender that cuts runs counts up from it; one that sends single packets may use the
 * same number in each. */
static bool is_merged(const struct roce *r, const struct dgram *d, uint32_t want)
{
	const uint8_t *at = d->iov[0].iov_base;
	struct icrc_path path;

	if (d->seg == 0 || d->ip_id < 0 || !addr_is_v4(ip_of(d)->to.ip))
		return false;
	path_of(r, d, &path);
	return icrc_start(&path, (uint16_t)(d->ip_id - d->seg), d->len, at,
			  d->len - ICRC_LEN) == want;
}

/* Is d's ICRC right? It covers the IPv4 identification, which a socket does not show. If
 * the guess fails, the identification is solved for and believed if it is plausible. */
static bool icrc_ok(struct roce *r, const struct dgram *d, uint64_t now)
{
	const uint8_t *at = d->iov[0].iov_base;
	size_t n = d->len - ICRC_LEN;
	uint32_t want = icrc_get(at + n), got;
	uint16_t id = (uint16_t)(d->ip_id > 0 ? d->ip_id : 0), solved;

	got = icrc_add(crc_of_head(r, r->in, d, id), at + ICRC_SHARED, n - ICRC_SHARED);
	if (d->ip_id_exact || !addr_is_v4(ip_of(d)->to.ip))
		return got == want || is_merged(r, d, want);
	if (got == want) {
		ip_id_guessed(r->ids, d);
		return true;
	}
	if (id != 0)
		got = icrc_add(crc_of_head(r, r->in, d, 0), at + ICRC_SHARED,
			       n - ICRC_SHARED);
	return icrc_solve_ip_id(got, want, icrc_after_id(d->len), &solved) &&
	       ip_id_accept(r->ids, d, solved, now);
}

static void open_packet(struct roce *r, struct dgram *d, uint64_t now)
{
	d->link = &r->link;
	if (d->lost)
		ip_id_lost(r->ids, d->lost);
	d->marked = !ip_of(d)->v1 && (ip_of(d)->tclass & CE) == CE;
	if (d->len < BTH_LEN + ICRC_LEN || d->iovcnt != 1) {
		d->damaged = true;
		return;
	}
	d->damaged = !icrc_ok(r, d, now);
	d->len -= ICRC_LEN;
	d->iov[0].iov_len = d->len;
}

static int roce_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct roce *r = roce_of(link);
	int got = r->inner->ops->recv(r->inner, v, n, now);

	for (int i = 0; i < got; i++)
		open_packet(r, &v[i], now);
	return got;
}

static uint64_t roce_deadline(struct link *link)
{
	struct roce *r = roce_of(link);

	return r->inner->ops->deadline(r->inner);
}

static void roce_close(struct link *link)
{
	struct roce *r = roce_of(link);

	r->inner->ops->close(r->inner);
	ip_ids_free(r->ids);
	free(r);
}

static const struct link_ops roce_ops = {
	.send = roce_send,
	.recv = roce_recv,
	.seal = roce_seal,
	.deadline = roce_deadline,
	.close = roce_close,
	.resolve = ip_resolve,
	.is_from = ip_is_from,
	.dest = ip_dest,
	.head = ip_head,
};

/* An address without a port stands for this one. */
void roce_leaves_from(struct link *link, uint16_t port)
{
	struct roce *r = roce_of(link);

	r->sport = port;
	memset(r->out, 0, sizeof(r->out));
}

void roce_is_told(struct link *link, uint16_t port)
{
	struct roce *r = roce_of(link);

	r->told = port;
	memset(r->out, 0, sizeof(r->out));
}

size_t roce_payload(size_t mtu)
{
	/* IPv6, UDP, BTH, RETH, immediate, ICRC */
	const size_t headers = 40 + 8 + 12 + 16 + 4 + 4;

	return mtu > headers ? mtu - headers : 0;
}

int roce_wrap(struct link **out, struct link *inner, uint16_t port)
{
	struct roce *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->ids = ip_ids_new();
	if (!r->ids) {
		free(r);
		return -ENOMEM;
	}
	r->link = (struct link){ .ops = &roce_ops,
				 .run_max = inner->run_max,
				 .mtu = inner->mtu };
	r->inner = inner;
	r->port = port;
	*out = &r->link;
	return 0;
}

struct link **roce_inner(struct link *link)
{
	return &roce_of(link)->inner;
}
