/* SPDX-License-Identifier: BSD-2-Clause */
/* port.c - the events that a change of a port raises (IBTA vol. 1, 11.6.3). */
#include "verbs/port.h"

#include <string.h>

static bool same_pkeys(const struct port *a, const struct port *b)
{
	return a->pkeys == b->pkeys && memcmp(a->pkey, b->pkey, sizeof(a->pkey)) == 0;
}

static bool same_gid(const struct gid_entry *a, const struct gid_entry *b)
{
	return a->used == b->used && a->ifindex == b->ifindex &&
	       memcmp(a->gid.raw, b->gid.raw, sizeof(a->gid.raw)) == 0;
}

static bool same_gids(const struct port *a, const struct port *b)
{
	for (int i = 0; i < GID_TABLE; i++)
		if (!same_gid(&a->gid[i], &b->gid[i]))
			return false;
	return true;
}

unsigned port_changes(const struct port *was, const struct port *now)
{
	unsigned what = 0;

	if (was->active != now->active)
		what |= now->active ? PORT_UP : PORT_DOWN;
	if (was->lid != now->lid || was->lmc != now->lmc)
		what |= PORT_LID;
	if (was->sm_lid != now->sm_lid || was->sm_sl != now->sm_sl)
		what |= PORT_SM;
	if (!same_pkeys(was, now))
		what |= PORT_PKEY;
	if (!same_gids(was, now))
		what |= PORT_GID;
	if (was->reregisters != now->reregisters)
		what |= PORT_REREGISTER;
	return what;
}

enum ibv_event_type port_event(enum port_change change)
{
	switch (change) {
	case PORT_DOWN:
		return IBV_EVENT_PORT_ERR;
	case PORT_LID:
		return IBV_EVENT_LID_CHANGE;
	case PORT_SM:
		return IBV_EVENT_SM_CHANGE;
	case PORT_PKEY:
		return IBV_EVENT_PKEY_CHANGE;
	case PORT_GID:
		return IBV_EVENT_GID_CHANGE;
	case PORT_REREGISTER:
		return IBV_EVENT_CLIENT_REREGISTER;
	case PORT_UP:
	case PORT_CHANGES:
		break;
	}
	return IBV_EVENT_PORT_ACTIVE;
}
