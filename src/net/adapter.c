/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.c - see adapter.h and adapter_ring.h. */
#include "net/adapter.h"

#include <errno.h>
#include <stdlib.h>

#include "net/adapter_ring.h"
#include "net/parcel.h"
#include "sys/list.h"
#include "sys/log.h"

struct adapter {
	struct link link;
	struct adapter_shared *sh;
	void (*kick)(void *arg);
	void *arg;
	atomic_bool cut;
	/* This end's own copies of its counters, because the fabric may overwrite those
	 * in sh. */
	uint32_t tx_head, freed_tail, rx_tail;
	/* next packet to be received; those in [rx_tail, rx_at) are lent to the
	 * caller */
	_Atomic uint32_t rx_at;
	unsigned frees; /* number of entries in free[]: */
	uint16_t free[ADAPTER_BUFS];
	bool out[ADAPTER_BUFS]; /* buffers that the fabric has */
};

static struct adapter *adapter_of(struct link *link)
{
	return container_of(link, struct adapter, link);
}

static void go_wrong(struct adapter *a, const char *what)
{
	if (!atomic_exchange(&a->cut, true))
		log_error("the fabric's process has written what cannot be (%s): the "
			  "adapter is lost; open the device again",
			  what);
}

void adapter_link_cut(struct link *link)
{
	atomic_store(&adapter_of(link)->cut, true);
}

/* --- out ------------------------------------------------------------------------ */

static void take_back(struct adapter *a)
{
	uint32_t head = atomic_load_explicit(&a->sh->freed_head, memory_order_acquire);

	if (head - a->freed_tail > ADAPTER_BUFS) {
		go_wrong(a, "more freed buffers than there are");
		return;
	}
	for (; a->freed_tail != head; a->freed_tail++) {
		uint16_t buf = a->sh->freed[a->freed_tail % ADAPTER_BUFS];

		if (buf >= ADAPTER_BUFS || !a->out[buf]) {
			go_wrong(a, "a freed buffer that was not in use");
			return;
		}
		a->out[buf] = false;
		a->free[a->frees++] = buf;
	}
	atomic_store_explicit(&a->sh->freed_tail, head, memory_order_release);
}

/* Copies d into a free buffer and queues it. If d's memory is unmapped by now, the
 * packet is lost, and the work request fails when the packet is sealed again. */
static void put_packet(struct adapter *a, const struct dgram *d)
{
	uint16_t buf = a->free[a->frees - 1];

	if (d->len > ADAPTER_BUF || dgram_flatten(a->sh->tx_buf[buf], d))
		return;
	a->frees--;
	a->out[buf] = true;
	a->sh->tx[a->tx_head % ADAPTER_BUFS] = (struct adapter_desc){
		.addr = d->addr,
		.len = (uint16_t)d->len,
		.buf = (uint16_t)(buf | (d->damaged ? ADAPTER_BAD : 0)),
	};
	a->tx_head++;
}

static int adapter_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct adapter *a = adapter_of(link);
	unsigned i;

	(void)now;
	if (atomic_load_explicit(&a->cut, memory_order_relaxed))
		return (int)n;
	if (a->frees < n)
		take_back(a);
	for (i = 0; i < n && a->frees > 0; i++)
		put_packet(a, &v[i]);
	if (i == 0) /* the fabric has every buffer, and so has been told of them */
		return 0;
	atomic_store_explicit(&a->sh->tx_head, a->tx_head, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&a->sh->fabric_sleeps, memory_order_relaxed) &&
	    atomic_exchange(&a->sh->fabric_sleeps, 0))
		a->kick(a->arg);
	return (int)i;
}

/* --- in ------------------------------------------------------------------------- */

static void give_back(struct adapter *a)
{
	uint32_t at = atomic_load_explicit(&a->rx_at, memory_order_relaxed);

	if (a->rx_tail == at)
		return;
	a->rx_tail = at;
	atomic_store_explicit(&a->sh->rx_tail, at, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&a->sh->fabric_waits, memory_order_relaxed))
		a->kick(a->arg);
}

/* Describes received packet `at` in *d. The descriptor is copied once, because the
 * fabric may change it. */
static void show_packet(struct adapter *a, uint32_t at, struct dgram *d)
{
	const struct adapter_desc desc = a->sh->rx[at % ADAPTER_BUFS];

	/* keep the compiler from reading it again */
	atomic_signal_fence(memory_order_seq_cst);
	*d = (struct dgram){
		.addr = desc.addr,
		.ip_id = -1,
		.len = desc.len <= ADAPTER_BUF ? desc.len : 0,
		.iovcnt = 1,
		.one.iov_base = a->sh->rx_buf[at % ADAPTER_BUFS],
	};
	d->one.iov_len = d->len;
	d->iov = &d->one;
}

static int adapter_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct adapter *a = adapter_of(link);
	uint32_t head, at;
	unsigned got = 0;

	(void)now;
	give_back(a);
	head = atomic_load_explicit(&a->sh->rx_head, memory_order_acquire);
	at = a->rx_tail;
	if (head - at > ADAPTER_BUFS) {
		go_wrong(a, "more received packets than there are buffers");
		head = at;
	}
	for (; got < n && at != head; at++)
		show_packet(a, at, &v[got++]);
	atomic_store_explicit(&a->rx_at, at, memory_order_relaxed);
	return (int)got;
}

bool adapter_link_has(const struct link *link)
{
	const struct adapter *a = container_of(link, const struct adapter, link);

	return atomic_load_explicit(&a->sh->rx_head, memory_order_acquire) !=
		       atomic_load_explicit(&a->rx_at, memory_order_relaxed) &&
	       !atomic_load_explicit(&a->cut, memory_order_relaxed);
}

void adapter_link_sleeps(struct link *link, bool sleeps)
{
	struct adapter *a = adapter_of(link);

	give_back(a);
	if (atomic_load_explicit(&a->sh->program_sleeps, memory_order_relaxed) == sleeps)
		return;
	atomic_store_explicit(&a->sh->program_sleeps, sleeps, memory_order_relaxed);
	/* the caller then looks for input once more */
	atomic_thread_fence(memory_order_seq_cst);
}

static uint64_t adapter_deadline(struct link *link)
{
	(void)link;
	return UINT64_MAX;
}

static void adapter_close(struct link *link)
{
	free(adapter_of(link));
}

static const struct link_ops adapter_ops = {
	.send = adapter_send,
	.recv = adapter_recv,
	.deadline = adapter_deadline,
	.close = adapter_close,
};

int adapter_link(struct link **out, struct adapter_shared *shared,
		 void (*kick)(void *arg), void *arg)
{
	struct adapter *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	a->link = (struct link){ .ops = &adapter_ops, .run_max = 1, .mtu = ADAPTER_BUF };
	a->sh = shared;
	a->kick = kick;
	a->arg = arg;
	for (a->frees = 0; a->frees < ADAPTER_BUFS; a->frees++)
		a->free[a->frees] = (uint16_t)a->frees;
	*out = &a->link;
	return 0;
}
