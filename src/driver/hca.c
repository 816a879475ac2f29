/* SPDX-License-Identifier: BSD-2-Clause */
/* hca.c - see hca.h. */
#include "driver/hca.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/log.h"

enum { STATE_ACTIVE = 4, VLS_MAX = 5 };

static void put_gid(struct gid_entry *e, uint64_t prefix, uint64_t guid)
{
	e->gid.global.subnet_prefix = htobe64(prefix);
	e->gid.global.interface_id = htobe64(guid);
	e->used = guid != 0;
}

/* verbs has one code for both kinds of speed: SDR 1, DDR 2, QDR 4; FDR 16, EDR 32 ... */
static uint8_t speed_of(const struct plug_port *p)
{
	return (uint8_t)(p->ext_speed ? p->ext_speed << 4 : p->speed);
}

static enum ibv_mtu mtu_of(uint32_t code)
{
	return code >= IBV_MTU_256 && code <= IBV_MTU_4096 ? (enum ibv_mtu)code
							   : IBV_MTU_256;
}

static void put_ip(uint8_t ip[16], uint32_t address)
{
	address = htobe32(address);
	if (!address)
		return;
	ip[10] = ip[11] = 0xff;
	memcpy(ip + 12, &address, sizeof(address));
}

void hca_fill(struct port *out, const struct plug_port *p)
{
	*out = (struct port){
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.active = p->state == STATE_ACTIVE,
		.state = (uint8_t)p->state,
		.phys_state = (uint8_t)p->phys_state,
		.subnet_timeout = (uint8_t)p->subnet_timeout,
		.max_vl = (uint8_t)(p->vls <= VLS_MAX ? p->vls : VLS_MAX),
		.reregisters = p->reregisters,
		.speed = speed_of(p),
		.width = (uint8_t)p->width,
		.max_mtu = mtu_of(p->mtu_cap),
		.active_mtu = mtu_of(p->mtu),
		.cap_flags = p->cap_mask,
		.lid = (uint16_t)p->lid,
		.lmc = (uint8_t)(p->lmc & 7),
		.sm_lid = (uint16_t)p->sm_lid,
		.sm_sl = (uint8_t)(p->sm_sl & 15),
		.pkeys = p->pkeys <= PKEY_TABLE ? p->pkeys : PKEY_TABLE,
		.gids = PLUG_GUIDS,
	};
	put_ip(out->ip, p->address);
	for (unsigned i = 0; i < out->pkeys; i++)
		out->pkey[i] = p->pkey[i];
	for (unsigned i = 0; i < PLUG_GUIDS; i++)
		put_gid(&out->gid[i], p->prefix, p->guids[i]);
}

static int make_device(const struct plug_ca *ca, const struct identity *id,
		       const struct port *port, struct device **dev)
{
	struct device *d = calloc(1, sizeof(*d));
	struct identity own = *id;

	if (!d)
		return -ENOMEM;
	snprintf(own.name, sizeof(own.name), "%s", ca->name);
	own.speed = port->speed;
	own.width = port->width;
	device_init(d, &device_ib, ca->name, htobe64(ca->guid), port, &own);
	d->ports = (uint8_t)(ca->ports < UINT8_MAX ? ca->ports : UINT8_MAX);
	*dev = d;
	return 0;
}

int hca_look(const char *fabric, const char *hca, const struct identity *id, bool says,
	     struct device **dev, unsigned *changes)
{
	static bool told;
	struct plug_ca ca;
	struct plug_port p;
	struct port port;
	int rc = plug_ca(fabric, hca, &ca);

	if (!rc)
		rc = plug_port(fabric, hca, HCA_PORT, &p);
	*changes = 0;
	if (rc) {
		if (says && !told)
			log_error("adapter %s of fabric %s: %s", hca, fabric,
				  plug_why(rc));
		told = told || says;
		return -EIO;
	}
	hca_fill(&port, &p);
	if (!*dev)
		return make_device(&ca, id, &port, dev);
	*changes = device_fill(*dev, &port);
	return 0;
}
