/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_roce.c - what libibumad reports of RoCE devices, as rdma-core's finds it in /sys:
 * ibstat lists them. Nobody manages them by MADs: there is no port to open. */
#include <errno.h>
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/umad_own.h"
#include "driver/nic.h"
#include "verbs/device.h"
#include "verbs/rate.h"

static bool is_roce(const struct device *dev)
{
	return device_on_netdev(dev) && dev->kind->node_type == IBV_NODE_CA;
}

int umad_roce_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	struct device **dev = NULL;
	int n = 0, found = 0;

	if (nic_devices(&dev, &n))
		return 0;
	for (int i = 0; i < n && found < max; i++)
		if (is_roce(dev[i]) && strlen(dev[i]->ibv.name) < UMAD_CA_NAME_LEN)
			strcpy(cas[found++], dev[i]->ibv.name);
	free(dev);
	return found;
}

/* A device's address never changes. */
static struct device *find_roce(const char *name)
{
	struct device **dev = NULL, *found = NULL;
	int n = 0;

	if (!name || nic_devices(&dev, &n))
		return NULL;
	for (int i = 0; i < n && !found; i++)
		if (is_roce(dev[i]) && !strcmp(dev[i]->ibv.name, name))
			found = dev[i];
	free(dev);
	return found;
}

static void put_name(char to[UMAD_CA_NAME_LEN], const struct device *dev)
{
	snprintf(to, UMAD_CA_NAME_LEN, "%.*s", UMAD_CA_NAME_LEN - 1, dev->ibv.name);
}

static int read_port(struct device *dev, umad_port_t *out)
{
	struct ibv_port_attr a;
	struct gid_entry gid;
	uint16_t *pkeys;

	if (device_query_port(dev, 1, &a, sizeof(a)) || device_query_gid(dev, 1, 0, &gid))
		return -EIO;
	pkeys = calloc(a.pkey_tbl_len ? a.pkey_tbl_len : 1, sizeof(*pkeys));
	if (!pkeys)
		return -ENOMEM;
	for (int i = 0; i < a.pkey_tbl_len; i++)
		device_query_pkey(dev, 1, i, &pkeys[i]);
	*out = (umad_port_t){
		.portnum = 1,
		.base_lid = a.lid,
		.lmc = a.lmc,
		.sm_lid = a.sm_lid,
		.sm_sl = a.sm_sl,
		.state = a.state,
		.phys_state = a.phys_state,
		.rate = rate_of_port(a.active_width, a.active_speed) / 1000,
		.capmask = (__be32)__builtin_bswap32(a.port_cap_flags),
		.gid_prefix = gid.gid.global.subnet_prefix,
		.port_guid = gid.gid.global.interface_id,
		.pkeys_size = a.pkey_tbl_len,
		.pkeys = pkeys,
		.link_layer = "Ethernet",
	};
	put_name(out->ca_name, dev);
	return 0;
}

int umad_roce_port(const char *name, int num, umad_port_t *out)
{
	struct device *dev = find_roce(name);

	return !dev || num > 1 ? -ENODEV : read_port(dev, out);
}

int umad_roce_ca(const char *name, umad_ca_t *ca)
{
	struct device *dev = find_roce(name);
	int rc;

	if (!dev)
		return -ENODEV;
	*ca = (umad_ca_t){
		.node_type = (unsigned)dev->kind->node_type,
		.ca_type = "urnic",
		.node_guid = dev->guid,
		.system_guid = dev->guid,
		.numports = 1,
	};
	snprintf(ca->fw_ver, sizeof(ca->fw_ver), "%.*s", (int)sizeof(ca->fw_ver) - 1,
		 dev->id.fw_ver);
	snprintf(ca->hw_ver, sizeof(ca->hw_ver), "0x%X", dev->id.hw_ver);
	put_name(ca->ca_name, dev);
	ca->ports[1] = calloc(1, sizeof(*ca->ports[1]));
	rc = ca->ports[1] ? read_port(dev, ca->ports[1]) : -ENOMEM;
	if (rc)
		umad_release_ca(ca);
	return rc;
}
