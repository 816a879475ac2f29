/* SPDX-License-Identifier: BSD-2-Clause */
/* dr.c - a directed route, one node at a time (IBTA 14.2.2).
 *
 * In a request on its way out, the hop pointer is the number of links that it has
 * crossed or is about to cross; the return path is written on the way. In an answer the
 * pointer counts down. A part before (DrSLID) or after (DrDLID) the directed one goes by
 * LID.
 */
#include "fabric/fabric.h"
#include "fabric/model.h"

static const struct dr_step drop = { DR_DROP, 0, 0 }, here = { DR_HERE, 0, 0 };

static struct dr_step out_by(uint8_t port, uint8_t ports)
{
	if (!port || port > ports)
		return drop;
	return (struct dr_step){ DR_OUT, port, LID_PERMISSIVE };
}

/* The step after the directed part.  An adapter forwards only its own SMPs. */
static struct dr_step routed(be16_t lid, bool may_forward)
{
	uint16_t dlid = get_be16(lid);

	if (dlid == LID_PERMISSIVE)
		return here;
	return may_forward ? (struct dr_step){ DR_ROUTE, 0, dlid } : drop;
}

/* IBA 14.2.2.1, 14.2.2.2: a request */
static struct dr_step outgoing(struct smp *smp, bool is_switch, uint8_t ports, uint8_t in,
			       bool lid_routed)
{
	uint8_t count = smp->h.hop_count, *ptr = &smp->h.hop_ptr;
	bool from_link = in && !lid_routed;

	if (*ptr > count) { /* after the directed part */
		if (*ptr != count + 1)
			return drop;
		return count == 0 || lid_routed ? here : drop;
	}
	if (*ptr == 0 && count) { /* the directed part begins here */
		if (from_link)
			return drop;
		*ptr = 1;
		return out_by(smp->initial[1], ports);
	}
	if (*ptr == count) { /* the directed part ends here */
		if (count) {
			if (!from_link)
				return drop;
			smp->back[*ptr] = in;
		}
		*ptr = (uint8_t)(*ptr + 1);
		return routed(smp->dr_dlid, is_switch || !in);
	}
	if (!is_switch || !from_link)
		return drop;
	smp->back[*ptr] = in;
	*ptr = (uint8_t)(*ptr + 1);
	return out_by(smp->initial[*ptr], ports);
}

/* IBA 14.2.2.3, 14.2.2.4: an answer */
static struct dr_step returning(struct smp *smp, bool is_switch, uint8_t ports,
				uint8_t in, bool lid_routed)
{
	uint8_t count = smp->h.hop_count, *ptr = &smp->h.hop_ptr;
	bool from_link = in && !lid_routed;

	if (*ptr > count + 1)
		return drop;
	if (count && *ptr == count + 1) {
		if (from_link)
			return drop;
		*ptr = count;
		return out_by(smp->back[*ptr], ports);
	}
	if (*ptr == 0) /* the directed part is over; the SMP came here by LID */
		return count == 0 || lid_routed ? here : drop;
	if (*ptr == 1) {
		*ptr = 0;
		return routed(smp->dr_slid, is_switch || !in);
	}
	if (!is_switch || !from_link)
		return drop;
	*ptr = (uint8_t)(*ptr - 1);
	return out_by(smp->back[*ptr], ports);
}

struct dr_step dr_step(struct smp *smp, bool is_switch, uint8_t ports, uint8_t in,
		       bool lid_routed)
{
	if (smp->h.hop_count >= SMP_PATH)
		return drop;
	if (get_be16(smp->h.status) & SMP_RETURN)
		return returning(smp, is_switch, ports, in, lid_routed);
	return outgoing(smp, is_switch, ports, in, lid_routed);
}
