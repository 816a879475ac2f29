/* SPDX-License-Identifier: BSD-2-Clause */
/* sma_port.c - PortInfo (IBA 14.2.5.6).  A Set is checked as a whole before anything is
 * changed. */
#include "fabric/fabric.h"
#include "fabric/model.h"

enum { MOD_EXT_SPEEDS = 1u << 31, EXT_NONE = 30, EXT_ALL = 31, LMC_MAX = 7 };

/* The port that the attribute modifier names; at an adapter 0 means `in`. */
static struct fab_port *port_of(struct fab_port *in, uint32_t mod)
{
	struct fab_node *n = in->node;
	uint32_t num = mod & 0xff;

	if (num > n->ports)
		return NULL;
	if (!num && !is_switch(n))
		return in;
	return &n->port[num];
}

uint16_t port_info_get(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	struct fab_port *p = port_of(in, mod);
	struct port_info pi;

	if (!p)
		return MAD_BAD_FIELD;
	pi = p->pi;
	pi.local_port = in->num;
	attr_put(&attr_port_info, data, &pi);
	return MAD_OK;
}

static bool good_state(const struct fab_port *p, const struct port_info *new)
{
	switch (new->state) {
	case PORT_NOP:
	case PORT_DOWN:
		return true;
	case PORT_ARMED:
		return p->pi.state == PORT_INIT || p->pi.state == PORT_ARMED;
	case PORT_ACTIVE:
		return p->pi.state == PORT_ARMED || p->pi.state == PORT_ACTIVE;
	default:
		return false;
	}
}

/* Are all enabled bits supported?  The value `all` enables whatever is supported. */
static bool good_bits(uint8_t enabled, uint8_t supported, uint8_t all)
{
	return enabled == all || !(enabled & ~supported);
}

static bool good_link(const struct fab_port *p, const struct port_info *new, bool ext)
{
	const struct port_info *pi = &p->pi;

	return good_state(p, new) &&
	       new->phys_state <= PHYS_DISABLED &&new->down_default <=
		       PHYS_POLLING &&good_bits(new->width_enabled, pi->width_supported,
						0xff) &&
	       good_bits(new->speed_enabled, pi->speed_supported, 15) &&
	       (!ext || new->ext_enabled == EXT_NONE ||
		good_bits(new->ext_enabled, pi->ext_supported, EXT_ALL)) &&
	       new->mtu <= pi->mtu_cap &&new->oper_vls <= pi->vl_cap;
}

static bool good_lids(const struct fab_port *p, const struct port_info *new)
{
	bool lid = new->lid &&new->lid <= LID_UNICAST_LAST;
	bool sm = new->sm_lid &&new->sm_lid <= LID_UNICAST_LAST;

	return (lid || new->lid == p->pi.lid) && (sm || new->sm_lid == p->pi.sm_lid) &&
	       new->lmc <= LMC_MAX;
}

static void set_bits(uint8_t *to, uint8_t enabled, uint8_t supported, uint8_t all)
{
	if (enabled)
		*to = enabled == all ? supported : enabled;
}

/* Sets the fields that belong to the port with the LID, so to all links of a switch. */
static void set_lids(struct fab_port *p, const struct port_info *new)
{
	struct port_info *pi = &p->pi;

	pi->mkey = new->mkey;
	pi->gid_prefix = new->gid_prefix;
	pi->lid = new->lid;
	pi->lmc = new->lmc;
	pi->sm_lid = new->sm_lid;
	pi->sm_sl = new->sm_sl;
	pi->mkey_lease = new->mkey_lease;
	pi->mkey_protect = new->mkey_protect;
	pi->subnet_timeout = new->subnet_timeout;
	if (!new->mkey_violations)
		pi->mkey_violations = 0;
	if (!new->pkey_violations)
		pi->pkey_violations = 0;
	if (!new->qkey_violations)
		pi->qkey_violations = 0;
}

static void set_link(struct fab_port *p, const struct port_info *new, bool ext)
{
	struct port_info *pi = &p->pi;

	set_bits(&pi->width_enabled, new->width_enabled, pi->width_supported, 0xff);
	set_bits(&pi->speed_enabled, new->speed_enabled, pi->speed_supported, 15);
	if (ext && new->ext_enabled == EXT_NONE)
		pi->ext_enabled = 0;
	else if (ext)
		set_bits(&pi->ext_enabled, new->ext_enabled, pi->ext_supported, EXT_ALL);
	if (new->down_default)
		pi->down_default = new->down_default;
	if (new->mtu)
		pi->mtu = new->mtu;
	if (new->oper_vls)
		pi->oper_vls = new->oper_vls;
	pi->vl_high_limit = new->vl_high_limit;
	pi->phys_errors = new->phys_errors;
	pi->overrun_errors = new->overrun_errors;
	if (is_switch(p->node)) {
		pi->vl_stall_count = new->vl_stall_count;
		pi->hoq_life = new->hoq_life;
		data_new_life(p);
		pi->enforce_in = new->enforce_in;
		pi->enforce_out = new->enforce_out;
		pi->filter_raw_in = new->filter_raw_in;
		pi->filter_raw_out = new->filter_raw_out;
	}
}

static void set_states(struct fab_port *p, const struct port_info *new)
{
	if (new->phys_state) {
		link_down(p);
		p->pi.phys_state = new->phys_state;
		link_retrain(p);
	} else if (new->state == PORT_DOWN) {
		link_down(p);
		link_retrain(p);
	} else if (new->state) {
		p->pi.state = new->state;
	}
}

uint16_t port_info_set(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	struct fab_port *p = port_of(in, mod);
	bool ext = mod & MOD_EXT_SPEEDS, link;
	struct port_info new;
	uint16_t rc;

	if (!p)
		return MAD_BAD_FIELD;
	attr_get(&attr_port_info, data, &new);
	link = !is_switch(p->node) || p->num;
	if ((is_lid_port(p) && !good_lids(p, &new)) || (link && !good_link(p, &new, ext)))
		return MAD_BAD_FIELD;
	if (is_lid_port(p))
		set_lids(p, &new);
	if (link) {
		set_link(p, &new, ext);
		set_states(p, &new);
	}
	rc = port_info_get(in, mod, data);
	if (new.reregister && p->pi.cap_mask &CAP_REREGISTER) {
		data[51] |= 0x80; /* ClientReregister in the answer confirms it */
		p->reregisters++;
	}
	return rc;
}
