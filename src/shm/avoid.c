/* SPDX-License-Identifier: BSD-2-Clause */
/* avoid.c - QPs that use the wire although their peer is on this host, since faults are
 * to befall them (docs/dev/peers.md).
 *
 * A QP's way is settled when it goes from RESET to INIT, and lies in memory that the peer
 * reads when its own QP goes to RTR: before a peer knows a QP's number, the way is
 * settled, so that both ends choose the same.
 */
#include <errno.h>
#include <stdlib.h>

#include "shm/peer.h"
#include "verbs/qp.h"

static void show_way(struct peer *p, uint32_t index, bool wire)
{
	if (p->wires)
		atomic_store_explicit(&p->wires[index], wire, memory_order_release);
}

int peers_avoid(struct peers *l, bool avoid)
{
	bool *wires = atomic_load(&l->wires);

	if (!wires && avoid) {
		wires = calloc(QPN_INDICES, sizeof(*wires));
		if (!wires)
			return -ENOMEM;
		atomic_store(&l->wires, wires);
	}
	l->avoid = avoid;
	return 0;
}

bool peers_may_avoid(struct peers *l)
{
	return atomic_load_explicit(&l->wires, memory_order_relaxed);
}

void peers_begins(struct peers *l, uint32_t qpn)
{
	const uint32_t index = qpn_index(qpn);
	bool *wires = atomic_load(&l->wires);

	if (!wires || wires[index] == l->avoid)
		return;
	wires[index] = l->avoid;
	list_for(n, &l->peers)
	{
		show_way(container_of(n, struct peer, node), index, l->avoid);
	}
}

bool peers_uses_wire(const struct peers *l, uint32_t qpn)
{
	const bool *wires = atomic_load(&l->wires);

	return wires && wires[qpn_index(qpn)];
}

bool peers_avoids(const struct peer *p, uint32_t dest)
{
	return p->their_wires && atomic_load_explicit(&p->their_wires[qpn_index(dest)],
						      memory_order_acquire);
}

void avoid_show(struct peer *p)
{
	const bool *wires = atomic_load(&p->l->wires);

	for (uint32_t i = 0; wires && i < QPN_INDICES; i++)
		if (wires[i])
			show_way(p, i, true);
}
