// SPDX-License-Identifier: BSD-2-Clause
/* request.c - what programs send: a request is kept until its answer, and sent
 * again in the meantime. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "umad/umad_own.h"

enum { RMPP_END = 36, TIMED_OUT = 110 };	/* the program's errno is Linux's */

static struct list *bucket(struct umad_file *file, uint64_t tid)
{
	return &file->req[(tid ^ tid >> 32) % BUCKETS];
}

static uint64_t timeout(const struct req *r)
{
	return r->hdr.timeout_ms * 1000000ull;
}

void request_free(struct req *r)
{
	heap_del(&r->agent->file->port->u->due, &r->due);
	list_del(&r->node);
	r->agent->file->reqs--;
	free(r);
}

struct req *request_find(struct agent *a, const struct mad_hdr *h)
{
	uint64_t tid = get_be64(h->tid);

	list_for(node, bucket(a->file, tid)) {
		struct req *r = container_of(node, struct req, node);

		if (r->agent == a && r->tid == tid && r->pkt.mad[1] == h->class)
			return r;
	}
	return NULL;
}

void requests_drop(struct umad_file *file, const struct agent *a)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		list_for_safe(node, &file->req[i]) {
			struct req *r = container_of(node, struct req, node);

			if (r->agent == a)
				request_free(r);
		}
	}
}

static void send(const struct umad_file *file, const struct mad_pkt *pkt)
{
	/* no memory: lost, as on a wire */
	fabric_send(file->port->u->f, file->port->node, file->port->num, pkt);
}

void request_run(struct req *r)
{
	struct umad_file *file = r->agent->file;

	if (r->tries) {
		r->tries--;
		send(file, &r->pkt);
		heap_set(&file->port->u->due, &r->due, r->due.at + timeout(r));
		return;
	}
	r->hdr.status = TIMED_OUT;
	queue_message(file, &r->hdr, r->pkt.mad, MAD_HEAD);
	request_free(r);
}

/* The packet that hdr asks for, but for the MAD. */
static int address(const struct umad_file *file, const struct agent *a,
		   const struct umad_hdr *hdr, struct mad_pkt *pkt)
{
	struct fabric_port_view v;

	if (!fabric_port(file->port->u->f, file->port->node, file->port->num, &v))
		return -ENODEV;
	if (a->qpn == QP_GSI && hdr->pkey_index >= v.pkeys)
		return -EINVAL;
	*pkt = (struct mad_pkt){
		.slid = (uint16_t)(v.info->lid |
			(hdr->path_bits & ((1u << v.info->lmc) - 1))),
		.dlid = get_be16(hdr->lid), .sl = hdr->sl & 15,
		.pkey = a->qpn == QP_SMI ? PKEY_DEFAULT : v.pkey[hdr->pkey_index],
		.sqpn = a->qpn, .dqpn = get_be32(hdr->qpn) & 0xffffff,
		.qkey = get_be32(hdr->qkey), .grh = hdr->grh != 0,
	};
	if (pkt->grh) {
		be64_t prefix = be64(v.info->gid_prefix), guid = be64(v.guid);

		pkt->tclass = hdr->tclass;
		pkt->hop_limit = hdr->hop_limit;
		pkt->flow_label = get_be32(hdr->flow_label) & 0xfffff;
		memcpy(pkt->sgid, &prefix, 8);
		memcpy(pkt->sgid + 8, &guid, 8);
		memcpy(pkt->dgid, hdr->gid, 16);
	}
	return 0;
}

/* Kept until its answer comes. */
static int keep(struct agent *a, const struct umad_hdr *hdr,
		const struct mad_pkt *pkt)
{
	const struct mad_hdr *h = (const struct mad_hdr *)pkt->mad;
	struct umad_file *file = a->file;
	struct req *r;

	if (file->reqs >= UMAD_REQUESTS)
		return -ENOSPC;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOSPC;
	*r = (struct req){ .agent = a, .tid = get_be64(h->tid), .tries = hdr->retries,
			   .hdr = *hdr, .pkt = *pkt };
	if (heap_set(&file->port->u->due, &r->due, file->port->u->now + timeout(r))) {
		free(r);
		return -ENOSPC;
	}
	list_add_tail(bucket(file, r->tid), &r->node);
	file->reqs++;
	return 0;
}

int umad_write(struct umad_file *file, const void *msg, size_t len, uint64_t now)
{
	struct umad *u = file->port->u;
	struct umad_hdr hdr;
	struct mad_pkt pkt;
	struct mad_hdr *h = (struct mad_hdr *)pkt.mad;
	struct agent *a;
	int rc;

	if (len < UMAD_HDR + RMPP_END || len > UMAD_HDR + MAD_SIZE)
		return -EINVAL;
	memcpy(&hdr, msg, UMAD_HDR);
	a = hdr.agent < UMAD_AGENTS ? file->agent[hdr.agent] : NULL;
	if (!a)
		return -EINVAL;
	u->now = now > u->now ? now : u->now;
	rc = address(file, a, &hdr, &pkt);
	if (rc)
		return rc;
	memcpy(pkt.mad, (const char *)msg + UMAD_HDR, len - UMAD_HDR);
	if (!mad_is_response(h)) {
		h->tid = be64((uint64_t)a->hi_tid << 32 |
			      (get_be64(h->tid) & 0xffffffff));
		if (request_find(a, h))
			return -EINVAL;
		rc = hdr.timeout_ms ? keep(a, &hdr, &pkt) : 0;
		if (rc)
			return rc;
	}
	send(file, &pkt);
	return 0;
}
