/* SPDX-License-Identifier: BSD-2-Clause */
/* sma.c - the subnet management agent of a node (IBA 14.2.5, 14.3): which
 * attributes there are, and who may ask for them. */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

static uint16_t get_desc(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	(void)mod;
	memcpy(data, in->node->desc, SMP_DATA);
	return MAD_OK;
}

/* NodeInfo names the GUID and the number of the port that the request came in by. */
static uint16_t get_node(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	struct node_info ni = in->node->ni;

	(void)mod;
	ni.port_guid = lid_port(in)->guid;
	ni.local_port = in->num;
	attr_put(&attr_node_info, data, &ni);
	return MAD_OK;
}

static uint16_t get_switch(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	(void)mod;
	attr_put(&attr_switch_info, data, &in->node->si);
	return MAD_OK;
}

static uint16_t set_switch(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	struct switch_info *si = &in->node->si, new;

	(void)mod;
	attr_get(&attr_switch_info, data, &new);
	if (new.lft_top >= si->lft_cap)
		return MAD_BAD_FIELD;
	si->lft_top = new.lft_top;
	si->def_port = new.def_port;
	si->def_mc_primary = new.def_mc_primary;
	si->def_mc_other = new.def_mc_other;
	si->lifetime = new.lifetime;
	if (new.state_change) /* IBA 14.2.5.4: writing 1 clears the bit */
		si->state_change = 0;
	return get_switch(in, mod, data);
}

/* OpenSM asks devices of some vendors for this attribute, about FDR10: no FDR10 here. */
static uint16_t get_mlnx(struct fab_port *in, uint32_t mod, uint8_t *data)
{
	struct mlnx_ext_port_info none = { 0 };

	(void)in;
	if ((mod & 0xff) > in->node->ports)
		return MAD_BAD_FIELD;
	attr_put(&attr_mlnx_ext_port_info, data, &none);
	return MAD_OK;
}

static const struct row {
	uint16_t attr;
	bool switches_only, table;
	uint16_t (*get)(struct fab_port *in, uint32_t mod, uint8_t *data);
	uint16_t (*set)(struct fab_port *in, uint32_t mod, uint8_t *data);
} rows[] = {
	{ ATTR_NODE_DESC, false, false, get_desc, NULL },
	{ ATTR_NODE_INFO, false, false, get_node, NULL },
	{ ATTR_SWITCH_INFO, true, false, get_switch, set_switch },
	{ ATTR_PORT_INFO, false, false, port_info_get, port_info_set },
	{ ATTR_MLNX_EXT_PORT_INFO, false, false, get_mlnx, get_mlnx },
	{ ATTR_GUID_INFO, false, true, NULL, NULL },
	{ ATTR_PKEY_TABLE, false, true, NULL, NULL },
	{ ATTR_SL2VL, false, true, NULL, NULL },
	{ ATTR_VL_ARB, false, true, NULL, NULL },
	{ ATTR_LFT, true, true, NULL, NULL },
	{ ATTR_MFT, true, true, NULL, NULL },
};

static const struct row *find_row(const struct fab_node *n, uint16_t attr)
{
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (rows[i].attr == attr)
			return rows[i].switches_only && !is_switch(n) ? NULL : &rows[i];
	}
	return NULL;
}

static uint16_t handle_smp(struct fab_port *in, struct smp *smp)
{
	uint16_t attr = get_be16(smp->h.attr);
	const struct row *r = find_row(in->node, attr);
	uint32_t mod = get_be32(smp->h.mod);

	if (!r)
		return MAD_BAD_ATTR;
	if (smp->h.method == METHOD_GET) {
		memset(smp->data, 0, SMP_DATA);
		return r->table ? table_get(in, attr, mod, smp->data)
				: r->get(in, mod, smp->data);
	}
	in->node->f->changes++;
	if (r->table)
		return table_set(in, attr, mod, smp->data);
	return r->set ? r->set(in, mod, smp->data) : MAD_BAD_ATTR;
}

/* IBA 14.2.4: with the M_Key every request is allowed, without it those that mkey_protect
 * leaves.  A wrong key starts the lease period, if there is one and it is not running. */
static bool mkey_allows(struct fab_port *in, const struct smp *smp,
			const struct mad_pkt *pkt)
{
	struct fab_port *p = lid_port(in);
	struct fabric *f = p->node->f;
	bool right = get_be64(smp->mkey) == p->pi.mkey;

	if (!p->pi.mkey || right) {
		heap_del(&f->lease_due, &p->lease_due);
		return true;
	}
	if (smp->h.method == METHOD_GET && p->pi.mkey_protect < 2)
		return true;
	if (p->pi.mkey_violations < UINT16_MAX)
		p->pi.mkey_violations++;
	if (p->pi.mkey_lease && !heap_has(&p->lease_due))
		heap_set(&f->lease_due, &p->lease_due,
			 f->now + p->pi.mkey_lease * 1000000000ull);
	trap_mkey(p, pkt);
	return false;
}

/* A Get without the M_Key does not show the key, unless protection is off.  The answer to
 * a Set, whose sender knew the old key, shows the new one. */
static void hide_mkey(struct fab_port *in, struct smp *smp)
{
	struct fab_port *p = lid_port(in);

	if (smp->h.method == METHOD_GET && get_be16(smp->h.attr) == ATTR_PORT_INFO &&
	    p->pi.mkey_protect && get_be64(smp->mkey) != p->pi.mkey)
		memset(smp->data, 0, 8);
}

enum sma_says sma_answer(struct fab_port *in, struct smp *smp, const struct mad_pkt *pkt)
{
	uint16_t status;

	if (smp->h.method != METHOD_GET && smp->h.method != METHOD_SET)
		return SMA_NOT_MINE;
	if (get_be16(smp->h.attr) == ATTR_SM_INFO && !is_switch(in->node))
		return SMA_NOT_MINE; /* for a subnet manager at the adapter, if there is
					one */
	if (smp->h.base_version != MAD_BASE_VERSION || smp->h.class_version != 1) {
		status = MAD_BAD_VERSION;
	} else {
		if (!mkey_allows(in, smp, pkt))
			return SMA_SILENT;
		status = handle_smp(in, smp);
		hide_mkey(in, smp);
	}
	smp->h.method = METHOD_GET_RESP;
	smp->h.status = be16(status);
	return SMA_ANSWERS;
}
