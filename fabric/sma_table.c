/* SPDX-License-Identifier: BSD-2-Clause */
/* sma_table.c - attributes that are blocks of a table (IBTA 14.2.5.5, .7 to .12): the
 * modifier selects a block, which a Get reads and a Set writes. */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

/* The place of a block, and the layout of its entries in the MAD. */
struct block {
	void *at;
	unsigned entries, size; /* bytes of an entry */
};

static struct fab_port *port_by(struct fab_port *in, uint32_t num)
{
	if (!is_switch(in->node))
		return in;
	return num <= in->node->ports ? &in->node->port[num] : NULL;
}

static bool guids(struct fab_port *in, uint32_t mod, struct block *b)
{
	struct fab_port *p = lid_port(in);

	*b = (struct block){ p->guids + mod * GUID_BLOCK, GUID_BLOCK, 8 };
	return mod < GUIDS / GUID_BLOCK;
}

static bool pkeys(struct fab_port *in, uint32_t mod, struct block *b)
{
	struct fab_port *p = port_by(in, mod >> 16);
	uint32_t block = mod & 0xffff;

	if (!p || block >= p->pkeys / PKEY_BLOCK)
		return false;
	*b = (struct block){ p->pkey + block * PKEY_BLOCK, PKEY_BLOCK, 2 };
	return true;
}

static bool sl2vl(struct fab_port *in, uint32_t mod, struct block *b)
{
	struct fab_port *p = port_by(in, mod & 0xff);
	uint32_t row = is_switch(in->node) ? mod >> 8 & 0xff : 0;

	if (!p || row > in->node->ports)
		return false;
	*b = (struct block){ p->sl2vl[row], 8, 1 };
	return true;
}

/* Blocks 1 and 2 are the low-priority table, 3 and 4 the high-priority one, with 32
 * entries each. */
static bool vl_arb(struct fab_port *in, uint32_t mod, struct block *b)
{
	struct fab_port *p = port_by(in, mod & 0xffff);
	uint32_t block = mod >> 16;

	if (!p || (block != 1 && block != 3))
		return false;
	*b = (struct block){ p->vl_arb[block - 1], VL_ARB_CAP * 2, 1 };
	return true;
}

static bool lft(struct fab_port *in, uint32_t mod, struct block *b)
{
	if (mod >= LFT_CAP / LFT_BLOCK)
		return false;
	*b = (struct block){ in->node->lft + mod * LFT_BLOCK, LFT_BLOCK, 1 };
	return true;
}

static bool mft(struct fab_port *in, uint32_t mod, struct block *b)
{
	uint32_t position = mod >> 28, block = mod & 0x1ff;

	if (position >= in->node->mft_positions || block >= MFT_CAP / MFT_BLOCK)
		return false;
	*b = (struct block){ in->node->mft + position * MFT_CAP + block * MFT_BLOCK,
			     MFT_BLOCK, 2 };
	return true;
}

static bool find_block(struct fab_port *in, uint16_t attr, uint32_t mod, struct block *b)
{
	switch (attr) {
	case ATTR_GUID_INFO:
		return guids(in, mod, b);
	case ATTR_PKEY_TABLE:
		return pkeys(in, mod, b);
	case ATTR_SL2VL:
		return sl2vl(in, mod, b);
	case ATTR_VL_ARB:
		return vl_arb(in, mod, b);
	case ATTR_LFT:
		return lft(in, mod, b);
	default:
		return mft(in, mod, b);
	}
}

static void copy_out(const struct block *b, uint8_t *data)
{
	memset(data, 0, SMP_DATA);
	if (b->size == 1)
		memcpy(data, b->at, b->entries);
	for (unsigned i = 0; b->size == 2 && i < b->entries; i++) {
		be16_t v = be16(((const uint16_t *)b->at)[i]);

		memcpy(data + i * 2, &v, 2);
	}
	for (unsigned i = 0; b->size == 8 && i < b->entries; i++) {
		be64_t v = be64(((const uint64_t *)b->at)[i]);

		memcpy(data + i * 8, &v, 8);
	}
}

static void copy_in(const struct block *b, const uint8_t *data)
{
	if (b->size == 1)
		memcpy(b->at, data, b->entries);
	for (unsigned i = 0; b->size == 2 && i < b->entries; i++) {
		be16_t v;

		memcpy(&v, data + i * 2, 2);
		((uint16_t *)b->at)[i] = get_be16(v);
	}
	for (unsigned i = 0; b->size == 8 && i < b->entries; i++) {
		be64_t v;

		memcpy(&v, data + i * 8, 8);
		((uint64_t *)b->at)[i] = get_be64(v);
	}
}

uint16_t table_get(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data)
{
	struct block b;

	if (!find_block(in, attr, mod, &b))
		return MAD_BAD_FIELD;
	copy_out(&b, data);
	return MAD_OK;
}

uint16_t table_set(struct fab_port *in, uint16_t attr, uint32_t mod, uint8_t *data)
{
	struct block b;

	if (!find_block(in, attr, mod, &b))
		return MAD_BAD_FIELD;
	copy_in(&b, data);
	if (attr == ATTR_GUID_INFO && mod == 0)
		lid_port(in)->guids[0] = lid_port(in)->guid; /* read-only */
	copy_out(&b, data);
	return MAD_OK;
}
