/* SPDX-License-Identifier: BSD-2-Clause */
/* dgram.c - UD datagrams in a ring instead of a socket. */
#include <string.h>

#include "net/ip_addr.h"
#include "shm/peer.h"

enum {
	UD = 3, /* opcode >> 5 */
	BTH = 12,
};

/* Lies before the datagram in its record. */
struct dgram_head {
	uint8_t from[16], to[16];
	uint32_t ifindex;
	int32_t ip_id;
	uint16_t from_port, to_port;
	uint8_t tclass, ttl, zero[2];
};

/* A process of another user could claim any source address: its datagrams go by UDP,
 * where the kernel at least makes the source one of this host. */
static bool is_trusted(struct peer *p)
{
	return p == p->l->self || p->same_user;
}

bool peers_has_pipe(struct peers *l, uint16_t slot)
{
	struct peer *p = l->avoid ? NULL : peers_peer(l, slot);

	return p && p->state == PEER_UP && is_trusted(p);
}

bool peers_send(struct peers *l, uint16_t slot, const struct dgram *d, uint64_t now)
{
	struct peer *p = l->by_slot[slot];
	uint32_t bytes = REC_HEAD + (uint32_t)sizeof(struct dgram_head) + d->len;
	struct dgram_head head = {
		.ifindex = ip_of(d)->ifindex,
		.ip_id = d->ip_id,
		.from_port = ip_of(d)->from.port,
		.to_port = ip_of(d)->to.port,
		.tclass = ip_of(d)->tclass,
		.ttl = ip_of(d)->ttl,
	};
	struct rec *r;
	uint8_t *at;

	if (!p || p->state != PEER_UP || bytes > REC_HEAD + RING_CHUNK ||
	    peer_stays_locked(p))
		return true;
	peer_lock(p);
	r = ring_reserve(&p->out, bytes);
	if (!r) {
		peer_unlock(p);
		return !peer_reads(p, now);
	}
	memcpy(head.from, ip_of(d)->from.ip, 16);
	memcpy(head.to, ip_of(d)->to.ip, 16);
	r->kind = REC_DGRAM;
	r->flags = 0;
	at = (uint8_t *)r + REC_HEAD;
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	for (unsigned i = 0; i < d->iovcnt; i++) {
		memcpy(at, d->iov[i].iov_base, d->iov[i].iov_len);
		at += d->iov[i].iov_len;
	}
	ring_publish(&p->out, r, bytes);
	peer_unlock(p);
	atomic_thread_fence(
		memory_order_seq_cst); /* no QP is locked: see peers_flush() */
	l->count.traffic.sent++;
	l->count.requests++;
	l->count.traffic.sent_bytes += d->len;
	peer_wrote(p);
	return true;
}

void dgram_input(struct peer *p, const uint8_t *payload, uint32_t len, uint64_t now)
{
	struct peers *l = p->l;
	struct dgram_head head;
	struct dgram d = { .ip_id_exact = true, .iovcnt = 1, .iov = &d.one };

	if (len < sizeof(head) + BTH + TRAILER_LEN || len > RING_CHUNK || !is_trusted(p))
		return;
	memcpy(&head, payload, sizeof(head));
	d.len = len - (uint32_t)sizeof(head) - TRAILER_LEN;
	memcpy(l->dgram, payload + sizeof(head), d.len);
	if (l->dgram[0] >> 5 != UD || qpn_slot(qpn_of_packet(l->dgram)) != l->core->slot)
		return;
	memcpy(ip_of(&d)->from.ip, head.from, 16);
	memcpy(ip_of(&d)->to.ip, head.to, 16);
	ip_of(&d)->from.port = head.from_port;
	ip_of(&d)->to.port = head.to_port;
	ip_of(&d)->ifindex = head.ifindex;
	d.ip_id = head.ip_id;
	ip_of(&d)->tclass = head.tclass;
	ip_of(&d)->ttl = head.ttl;
	d.one = (struct iovec){ l->dgram, d.len };
	l->ops->datagram(l->arg, &d, now);
}
