/* SPDX-License-Identifier: BSD-2-Clause */
/* request.c - sends programs' MADs.  A request with a timeout is kept until its answer
 * comes, and sent again each time that the timeout runs out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/umad/rmpp.h"

enum { TIMED_OUT = 110 }; /* Linux's ETIMEDOUT, as programs expect it */

static struct list *bucket_of(struct umad_file *file, uint64_t tid)
{
	return &file->req[(tid ^ tid >> 32) % BUCKETS];
}

int request_due(struct req *r, uint32_t ms)
{
	struct umad *u = r->agent->file->port->u;

	return heap_set(&u->due, &r->due, u->now + ms * 1000000ull);
}

void request_free(struct req *r)
{
	heap_del(&r->agent->file->port->u->due, &r->due);
	list_del(&r->node);
	r->agent->file->reqs--;
	free(r->tx);
	free(r);
}

struct req *request_find(struct agent *a, const struct mad_hdr *h, bool answer,
			 uint16_t lid)
{
	uint64_t tid = get_be64(h->tid);

	list_for(node, bucket_of(a->file, tid))
	{
		struct req *r = container_of(node, struct req, node);

		if (r->agent == a && r->tid == tid && r->pkt.mad[1] == h->class &&
		    r->answer == answer && (!answer || r->pkt.dlid == lid))
			return r;
	}
	return NULL;
}

void requests_drop(struct umad_file *file, const struct agent *a)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		list_for_safe(node, &file->req[i])
		{
			struct req *r = container_of(node, struct req, node);

			if (r->agent == a)
				request_free(r);
		}
	}
}

void send_from(const struct uport *p, const struct mad_pkt *pkt)
{
	/* Without memory the packet is lost, as it might be on a wire. */
	fabric_send(p->u->f, p->node, p->num, pkt);
}

void send_back(const struct uport *p, const struct mad_pkt *pkt)
{
	fabric_answer(p->u->f, p->node, p->num, pkt);
}

/* As in Linux, the program gets the MAD's header back. */
void request_failed(struct req *r)
{
	r->hdr.status = TIMED_OUT;
	queue_message(r->agent->file, &r->hdr, r->pkt.mad, MAD_HEAD);
	request_free(r);
}

void request_run(struct req *r)
{
	if (r->tx) {
		rmpp_tx_due(r);
	} else if (r->tries) {
		r->tries--;
		send_from(r->agent->file->port, &r->pkt);
		request_due(r, r->hdr.timeout_ms);
	} else {
		request_failed(r);
	}
}

/* Fills in *pkt from hdr, except the MAD.  Returns 0, -ENODEV or -EINVAL (pkey_index). */
static int fill_address(const struct umad_file *file, const struct agent *a,
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
		.dlid = get_be16(hdr->lid),
		.sl = hdr->sl & 15,
		.pkey = a->qpn == QP_SMI ? PKEY_DEFAULT : v.pkey[hdr->pkey_index],
		.sqpn = a->qpn,
		.dqpn = get_be32(hdr->qpn) & 0xffffff,
		.qkey = get_be32(hdr->qkey),
		.grh = hdr->grh != 0,
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

struct req *request_keep(struct agent *a, const struct umad_hdr *hdr,
			 const struct mad_pkt *pkt)
{
	const struct mad_hdr *h = (const struct mad_hdr *)pkt->mad;
	struct umad_file *file = a->file;
	struct req *r;

	if (file->reqs >= UMAD_REQUESTS)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct req){ .agent = a,
			   .tid = get_be64(h->tid),
			   .tries = hdr->retries,
			   .answer = mad_is_response(h),
			   .hdr = *hdr,
			   .pkt = *pkt };
	if (request_due(r, hdr->timeout_ms)) {
		free(r);
		return NULL;
	}
	list_add_tail(bucket_of(file, r->tid), &r->node);
	file->reqs++;
	return r;
}

/* Puts the agent's hi_tid into the upper half of a request's TID.  The answer has the
 * same TID, by which by_tid() finds the agent. */
static void own_tid(const struct agent *a, uint8_t *mad)
{
	struct mad_hdr *h = (struct mad_hdr *)mad;

	if (!mad_is_response(h))
		h->tid =
			be64((uint64_t)a->hi_tid << 32 | (get_be64(h->tid) & 0xffffffff));
}

static int send_one(struct agent *a, const struct umad_hdr *hdr,
		    const struct mad_pkt *pkt)
{
	bool keep = hdr->timeout_ms && !mad_is_response((const void *)pkt->mad);

	if (keep && !request_keep(a, hdr, pkt))
		return -ENOSPC;
	send_from(a->file->port, pkt);
	return 0;
}

static int write_from(struct agent *a, const struct umad_hdr *hdr, const uint8_t *mad,
		      size_t len)
{
	size_t head = len < MAD_SIZE ? len : MAD_SIZE;
	struct mad_pkt pkt;
	const struct mad_hdr *h = (const struct mad_hdr *)pkt.mad;
	/* As in Linux, a program sets only the active flag in RMPP's header. */
	bool active = rmpp_is_active(mad), rmpp = active && rmpp_serves(a);
	int rc = fill_address(a->file, a, hdr, &pkt);

	if (rc)
		return rc;
	memcpy(pkt.mad, mad, head);
	own_tid(a, pkt.mad);
	/* A TID must not be in use, unless a program does RMPP itself: its segments share
	 * one TID. */
	if ((rmpp || !active) && request_find(a, h, mad_is_response(h), pkt.dlid))
		return -EINVAL;
	if (rmpp)
		return rmpp_send(a, hdr, &pkt, mad, len);
	return len > MAD_SIZE ? -EINVAL : send_one(a, hdr, &pkt);
}

int umad_write(struct umad_file *file, const void *msg, size_t len, uint64_t now)
{
	struct umad *u = file->port->u;
	struct umad_hdr hdr;
	struct agent *a;

	if (len < UMAD_HDR + RMPP_HEAD || len > UMAD_MESSAGE_MAX)
		return -EINVAL;
	memcpy(&hdr, msg, UMAD_HDR);
	a = hdr.agent < UMAD_AGENTS ? file->agent[hdr.agent] : NULL;
	if (!a)
		return -EINVAL;
	u->now = now > u->now ? now : u->now;
	return write_from(a, &hdr, (const uint8_t *)msg + UMAD_HDR, len - UMAD_HDR);
}
