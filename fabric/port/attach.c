/* SPDX-License-Identifier: BSD-2-Clause */
/* attach.c - the fabric's end of the memory that it shares with a program at an adapter
 * (net/adapter_ring.h).  The program may write anything into that memory at any time, so
 * all values are checked, and each descriptor is read once.
 *
 * An attached program is known by its slot, the upper bits of its QP numbers: a packet
 * belongs to the program whose slot is in the destination QPN.  The struct attached of a
 * program that has ended stays until all packets that the program had sent have left the
 * fabric, since their bytes lie in the shared memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/port/server.h"
#include "fabric/port/server_own.h"
#include "net/adapter_ring.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"
#include "wire/qpn.h"
#include "wire/well_known.h"

static_assert((int)ADAPTER_BUF == (int)FABRIC_DATA_MAX, "a packet of data");

enum { BTH_LEN = 12, DETH_LEN = 8, AT_ONCE = 256 };

struct attached {
	struct plug_server *s;
	struct plug_conn *c; /* NULL: the program has ended */
	uint32_t ca;
	uint8_t port;
	uint16_t slot;
	struct adapter_shared *sh;
	/* The fabric's own copies: the program can overwrite the counters in sh. */
	uint32_t tx_tail, rx_head, freed_head;
	bool late;	       /* packets for the program are dropped; see still_late() */
	unsigned busy;	       /* packets that it has sent and that are in the fabric */
	struct plug_port told; /* its port, as the program was last told */
	uint32_t seen;	       /* fabric_changes() at that time */
	struct packet {
		struct fabric_data d;
		struct attached *a;
		bool busy;
	} packet[ADAPTER_BUFS];
};

/* --- beginning and end ---------------------------------------------------------- */

/* Frees a once its program has ended and none of its packets is left. */
static void let_go(struct attached *a)
{
	if (a->c || a->busy)
		return;
	munmap(a->sh, sizeof(*a->sh));
	free(a);
}

/* Maps a->sh, sealed memory, and returns its descriptor, to be sent to the program. */
static int share(struct attached *a)
{
	int fd = fd_memory("urnic-adapter", sizeof(*a->sh)), rc = fd < 0 ? fd : 0;
	void *at;

	if (rc)
		return rc;
	at = mmap(NULL, sizeof(*a->sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	a->sh = at;
	atomic_init(&a->sh->fabric_sleeps, 1);
	atomic_init(&a->sh->program_sleeps, 1);
	return fd;
}

static bool is_taken(const struct plug_server *s, const struct plug_conn *c,
		     uint16_t slot)
{
	list_for(node, &s->attaches)
	{
		const struct plug_conn *o = container_of(node, struct plug_conn, node);

		if (o->ca == c->ca && o->attached->slot == slot)
			return true;
	}
	return false;
}

int attach_begin(struct plug_server *s, struct plug_conn *c, uint32_t slot)
{
	struct attached *a;
	int fd;

	if (!slot || slot >= 1u << QPN_SLOT_BITS)
		return -EINVAL;
	if (is_taken(s, c, (uint16_t)slot))
		return -EADDRINUSE;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	fd = share(a);
	if (fd < 0) {
		if (a->sh)
			munmap(a->sh, sizeof(*a->sh));
		free(a);
		return fd;
	}
	a->s = s;
	a->c = c;
	a->ca = c->ca;
	a->port = c->port;
	a->slot = c->slot = (uint16_t)slot;
	a->seen = fabric_changes(s->fabric) - 1;
	for (unsigned i = 0; i < ADAPTER_BUFS; i++)
		a->packet[i].a = a;
	c->attached = a;
	return fd;
}

static void wake_program(struct attached *a)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&a->sh->program_sleeps, memory_order_relaxed) &&
	    atomic_exchange(&a->sh->program_sleeps, 0))
		(void)plug_say(a->c->fd, PLUG_KICK, NULL, 0, -1, false);
}

/* --- from the program ------------------------------------------------------------ */

/* Fills *pkt, from the descriptor, and d->bth, from the packet, with what the fabric
 * routes the packet by.  The packet may hold any bytes.  Returns false for a packet that
 * a program may not send. */
static bool read_packet(const struct attached *a, const struct adapter_desc *desc,
			struct fabric_data *d, struct mad_pkt *pkt)
{
	const struct lid_addr *to = lid_addr(&desc->addr);
	uint8_t head[BTH_LEN + 8];

	*pkt = (struct mad_pkt){
		.data = d,
		.slid = to->slid,
		.dlid = to->dlid,
		.sl = to->sl & 15,
		.grh = to->grh == 1,
		.tclass = to->tclass,
		.hop_limit = to->hop_limit,
		.flow_label = to->flow_label & 0xfffff,
	};
	if (desc->len < BTH_LEN + ICRC_LEN)
		return false;
	memset(head, 0, sizeof(head));
	memcpy(head, d->bytes, desc->len < sizeof(head) ? desc->len : sizeof(head));
	memcpy(d->bth, head, sizeof(d->bth));
	memcpy(pkt->sgid, to->sgid, sizeof(pkt->sgid));
	memcpy(pkt->dgid, to->dgid, sizeof(pkt->dgid));
	pkt->pkey = (uint16_t)(head[2] << 8 | head[3]);
	pkt->dqpn = qpn_of_packet(head);
	if (head[0] >> 5 != IB_UD)
		return pkt->dqpn > QP_GSI;
	pkt->qkey = (uint32_t)head[12] << 24 | (uint32_t)head[13] << 16 |
		    (uint32_t)head[14] << 8 | head[15];
	pkt->sqpn = (uint32_t)head[17] << 16 | (uint32_t)head[18] << 8 | head[19];
	return pkt->dqpn > QP_SMI &&
	       (pkt->sqpn == QP_GSI || qpn_slot(pkt->sqpn) == a->slot);
}

/* Returns p's buffer to the program, which must still be attached. */
static void give_back(struct attached *a, struct packet *p)
{
	p->busy = false;
	a->busy--;
	a->sh->freed[a->freed_head % ADAPTER_BUFS] = (uint16_t)(p - a->packet);
	a->freed_head++;
	atomic_store_explicit(&a->sh->freed_head, a->freed_head, memory_order_release);
}

void attach_done(struct fabric_data *d)
{
	struct packet *p = container_of(d, struct packet, d);
	struct attached *a = p->a;

	if (a->c) {
		give_back(a, p);
		return;
	}
	a->busy--;
	let_go(a);
}

/* Sends a packet to QP1 as a MAD; a malformed one is dropped.  Returns false if pkt is
 * not for QP1.  If it returns true, p's buffer is free again. */
static bool send_mad(struct attached *a, const struct packet *p, struct mad_pkt *pkt)
{
	enum { HEAD = BTH_LEN + DETH_LEN, SEND_ONLY = 0x64 };

	if (pkt->dqpn != QP_GSI)
		return false;
	if (p->d.len != HEAD + MAD_SIZE + ICRC_LEN || p->d.bth[0] != SEND_ONLY)
		return true;
	memcpy(pkt->mad, p->d.bytes + HEAD, MAD_SIZE);
	pkt->data = NULL;
	if (!a->c || group_asked(a->s, a->c, pkt))
		return true;
	(void)fabric_inject(a->s->fabric, a->ca, a->port, pkt);
	return true;
}

static bool take_one(struct attached *a)
{
	const struct adapter_desc desc = a->sh->tx[a->tx_tail % ADAPTER_BUFS];
	const uint16_t buf = desc.buf & (ADAPTER_BAD - 1);
	struct packet *p = &a->packet[buf % ADAPTER_BUFS];
	struct mad_pkt pkt;
	bool good;

	/* Keeps the compiler from reading the descriptor a second time. */
	atomic_signal_fence(memory_order_seq_cst);
	if (buf >= ADAPTER_BUFS || p->busy || desc.len > ADAPTER_BUF || desc.len % 4)
		return false;
	p->d = (struct fabric_data){ .bytes = a->sh->tx_buf[buf], .len = desc.len };
	p->busy = true;
	a->busy++;
	a->tx_tail++;
	good = read_packet(a, &desc, &p->d, &pkt);
	if (desc.buf & ADAPTER_BAD)
		fabric_spoilt(a->s->fabric, a->ca, a->port, &pkt);
	if (desc.buf & ADAPTER_BAD || !good || send_mad(a, p, &pkt) ||
	    fabric_inject(a->s->fabric, a->ca, a->port, &pkt))
		give_back(a, p);
	return true;
}

/* Takes up to AT_ONCE packets of the program; returns how many, or -1 if the ring holds
 * impossible values. */
static int take_all(struct attached *a)
{
	uint32_t head = atomic_load_explicit(&a->sh->tx_head, memory_order_acquire);
	int n = 0;

	if (head - a->tx_tail > ADAPTER_BUFS)
		return -1;
	for (; a->tx_tail != head && n < AT_ONCE; n++)
		if (!take_one(a))
			return -1;
	return n;
}

/* Packets that the program has put into its ring still go out: their sends are complete,
 * and an adapter would send them.  c leaves its list before fabric_room() runs, since all
 * functions that walk s->attaches expect c->attached to be set. */
void attach_end(struct plug_conn *c)
{
	struct attached *a = c->attached;

	if (!a)
		return;
	(void)take_all(a);
	list_del(&c->node);
	list_init(&c->node);
	c->attached = NULL;
	a->c = NULL;
	/* Packets that wait for room in this program's ring need not wait any longer. */
	fabric_room(a->s->fabric, a->ca, a->port);
	let_go(a);
}

/* --- to the program ---------------------------------------------------------------- */

/* Copies a packet into the program's ring; returns false if the ring is full.  BTH and
 * address come from the fabric's own copies: the sender may have changed its buffer
 * meanwhile, but the receiver gets the headers by which the fabric routed the packet. */
static bool put_packet(struct attached *a, const struct mad_pkt *pkt)
{
	const struct fabric_data *d = pkt->data;
	uint32_t at = a->rx_head % ADAPTER_BUFS;
	struct lid_addr addr = {
		.slid = pkt->slid,
		.dlid = pkt->dlid,
		.sl = pkt->sl,
		.grh = pkt->grh,
	};

	if (a->rx_head - atomic_load_explicit(&a->sh->rx_tail, memory_order_acquire) >=
	    ADAPTER_BUFS) {
		atomic_store_explicit(&a->sh->fabric_waits, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (a->rx_head -
			    atomic_load_explicit(&a->sh->rx_tail, memory_order_acquire) >=
		    ADAPTER_BUFS)
			return false;
	}
	if (pkt->grh) {
		addr.tclass = pkt->tclass;
		addr.hop_limit = pkt->hop_limit;
		addr.flow_label = pkt->flow_label;
		memcpy(addr.sgid, pkt->sgid, sizeof(addr.sgid));
		memcpy(addr.dgid, pkt->dgid, sizeof(addr.dgid));
	}
	memcpy(a->sh->rx_buf[at], d->bytes, d->len);
	memcpy(a->sh->rx_buf[at], d->bth, sizeof(d->bth));
	a->sh->rx[at].len = (uint16_t)d->len;
	memcpy(&a->sh->rx[at].addr, &addr, sizeof(addr));
	a->rx_head++;
	atomic_store_explicit(&a->sh->rx_head, a->rx_head, memory_order_release);
	return true;
}

/* Puts a MAD into the ring as the packet that the sender's port would have made: BTH,
 * DETH, MAD and room for an ICRC. */
static bool put_mad(struct attached *a, const struct mad_pkt *pkt)
{
	uint8_t bytes[FABRIC_MAD + ICRC_LEN] = { 0 };
	struct fabric_data d = { .bytes = bytes, .len = sizeof(bytes) };
	struct mad_pkt whole = *pkt;

	fabric_mad(bytes, pkt);
	memcpy(d.bth, bytes, sizeof(d.bth));
	whole.data = &d;
	return put_packet(a, &whole);
}

/* If the program's ring is full, the MAD is lost, as at a QP1 with no receive posted. */
bool attach_mad(struct plug_server *s, uint32_t ca, uint8_t port, uint16_t slot,
		const struct mad_pkt *pkt)
{
	list_for(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (c->ca != ca || c->port != port || (slot && c->attached->slot != slot))
			continue;
		c->woken |= put_mad(c->attached, pkt);
		return true;
	}
	return false;
}

/* A late program gets packets again only when it has emptied its ring.  If one free place
 * were enough, it would keep the packets for others waiting once per packet. */
static bool still_late(struct attached *a)
{
	if (a->late &&
	    a->rx_head == atomic_load_explicit(&a->sh->rx_tail, memory_order_acquire))
		a->late = false;
	return a->late;
}

static bool is_for(const struct plug_conn *c, uint32_t ca, uint8_t port,
		   const struct mad_pkt *pkt)
{
	return c->ca == ca && c->port == port &&
	       (pkt->dqpn == QP_MULTICAST || c->attached->slot == qpn_slot(pkt->dqpn));
}

enum fabric_take attach_take(struct plug_server *s, uint32_t ca, uint8_t port,
			     const struct mad_pkt *pkt)
{
	bool group = pkt->dqpn == QP_MULTICAST;

	list_for(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (!is_for(c, ca, port, pkt))
			continue;
		/* A multicast packet never waits: a program without room loses it. */
		if (!group && still_late(c->attached))
			return FABRIC_LOST;
		if (!put_packet(c->attached, pkt) && !group)
			return FABRIC_FULL;
		c->woken = true;
	}
	return FABRIC_TAKEN;
}

void attach_late(struct plug_server *s, uint32_t ca, uint8_t port,
		 const struct mad_pkt *pkt)
{
	list_for(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (is_for(c, ca, port, pkt))
			c->attached->late = true;
	}
}

/* --- the loop ------------------------------------------------------------------------
 */

static void wrong(struct plug_server *s, struct plug_conn *c)
{
	log_info("fabric: process %d has written into its rings what no "
		 "urnic writes: its connection is closed",
		 (int)c->pid);
	plugged_end(s, c);
}

static void tell_port(struct plug_server *s, struct plug_conn *c)
{
	struct plug_port port;
	uint32_t changes = fabric_changes(s->fabric);
	bool was = c->full;
	int rc = 0;

	if (c->attached->seen == changes && !was)
		return;
	plug_about_port(s, c->ca, c->port, &port);
	if (memcmp(&port, &c->attached->told, sizeof(port)) != 0)
		rc = plug_say(c->fd, PLUG_PORT_IS, &port, sizeof(port), -1, false);
	c->full = rc == -EAGAIN;
	if (c->full != was && !plugged_watch(s, c)) {
		plugged_end(s, c);
		return;
	}
	if (rc)
		return; /* tries again when the socket has room or has been closed */
	c->attached->told = port;
	c->attached->seen = changes;
}

bool attach_run(struct plug_server *s)
{
	bool any = false;

	list_for_safe(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);
		struct attached *a = c->attached;
		int n = take_all(a);

		if (n < 0) {
			wrong(s, c);
			continue;
		}
		any |= n > 0;
		if (atomic_load_explicit(&a->sh->fabric_waits, memory_order_relaxed)) {
			atomic_store_explicit(&a->sh->fabric_waits, 0,
					      memory_order_relaxed);
			fabric_room(s->fabric, a->ca, a->port);
		}
	}
	return any;
}

void attach_flush(struct plug_server *s)
{
	list_for_safe(node, &s->attaches)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (c->woken)
			wake_program(c->attached);
		c->woken = false;
		tell_port(s, c);
	}
}

void attach_sleeps(struct plug_server *s, bool sleeps)
{
	list_for(node, &s->attaches)
	{
		struct attached *a = container_of(node, struct plug_conn, node)->attached;

		atomic_store_explicit(&a->sh->fabric_sleeps, sleeps,
				      memory_order_relaxed);
	}
	atomic_thread_fence(memory_order_seq_cst);
}

bool attach_has(const struct plug_server *s)
{
	list_for(node, &s->attaches)
	{
		const struct attached *a =
			container_of(node, struct plug_conn, node)->attached;

		if (atomic_load_explicit(&a->sh->tx_head, memory_order_acquire) !=
		    a->tx_tail)
			return true;
	}
	return false;
}
