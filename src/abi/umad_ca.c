/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_ca.c - the adapter of a fabric that libibumad reports, and the attributes of its
 * ports; of a process without one the RoCE devices (umad_roce.c). */
#include <errno.h>
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/umad_own.h"
#include "fabric/port/plug.h"
#include "sys/conf.h"
#include "sys/ident.h"
#include "sys/log.h"

enum { PHYS_DISABLED = 3, PHYS_LINK_UP = 5, STATE_ACTIVE = 4, NODE_CA = 1 };

int umad_place(struct umad_place *at, struct plug_ca *ca)
{
	const struct conf *conf = conf_get();
	static bool told;
	int rc;

	if (!conf || !conf->hca[0])
		return -ENODEV;
	*at = (struct umad_place){ conf->fabric, conf->hca };
	rc = plug_ca(at->fabric, at->hca, ca);
	if (rc && !told) {
		told = true;
		log_error("adapter %s of fabric %s: %s", at->hca, at->fabric,
			  plug_why(rc));
	}
	return rc;
}

static bool has_adapter(void)
{
	const struct conf *conf = conf_get();

	return !conf || conf->hca[0];
}

/* Returns the port that works best: active, else up, else not disabled. */
static int best_port(const struct umad_place *at, const struct plug_ca *ca)
{
	int best = 0, rank = 0;

	for (int i = 1; i <= (int)ca->ports && i < UMAD_CA_MAX_PORTS; i++) {
		struct plug_port p;
		int r;

		if (plug_port(at->fabric, at->hca, (uint32_t)i, &p))
			return -EIO;
		r = p.state == STATE_ACTIVE	   ? 3
		    : p.phys_state == PHYS_LINK_UP ? 2
						   : p.phys_state != PHYS_DISABLED;
		if (r > rank) {
			rank = r;
			best = i;
		}
	}
	return best ? best : -ENODEV;
}

int umad_resolve(struct umad_place *at, const char *ca_name, int *port)
{
	struct plug_ca ca;
	int rc = umad_place(at, &ca);

	if (rc)
		return rc;
	if (ca_name && strcmp(ca_name, ca.name) != 0)
		return -ENODEV;
	if (!port)
		return 0;
	if (*port <= 0) {
		rc = best_port(at, &ca);
		*port = rc;
	}
	return rc < 0 ? rc : *port > (int)ca.ports ? -ENODEV : 0;
}

EXPORT int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	struct umad_place at;
	struct plug_ca ca;

	if (!has_adapter())
		return umad_roce_names(cas, max);
	if (max < 1 || umad_place(&at, &ca))
		return 0;
	memcpy(cas[0], ca.name, UMAD_CA_NAME_LEN);
	return 1;
}

static __be64 big(uint64_t v)
{
	return (__be64)__builtin_bswap64(v);
}

static int read_port(const struct umad_place *at, const char *name, int num,
		     umad_port_t *out)
{
	struct plug_port p;
	uint16_t *pkeys;
	int rc = plug_port(at->fabric, at->hca, (uint32_t)num, &p);

	pkeys = rc ? NULL : calloc(p.pkeys ? p.pkeys : 1, sizeof(*pkeys));
	if (!pkeys)
		return -EIO;
	memcpy(pkeys, p.pkey, p.pkeys * sizeof(*pkeys));
	*out = (umad_port_t){
		.portnum = num,
		.base_lid = p.lid,
		.lmc = p.lmc,
		.sm_lid = p.sm_lid,
		.sm_sl = p.sm_sl,
		.state = p.state,
		.phys_state = p.phys_state,
		.rate = p.rate,
		.capmask = (__be32)__builtin_bswap32(p.cap_mask),
		.gid_prefix = big(p.prefix),
		.port_guid = big(p.guid),
		.pkeys_size = p.pkeys,
		.pkeys = pkeys,
		.link_layer = "InfiniBand",
	};
	snprintf(out->ca_name, sizeof(out->ca_name), "%s", name);
	return 0;
}

EXPORT int umad_release_port(umad_port_t *port)
{
	if (!port)
		return -ENODEV;
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

EXPORT int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	struct umad_place at;
	struct plug_ca ca;
	int rc;

	if (!has_adapter())
		return umad_roce_port(ca_name, portnum, port);
	rc = umad_resolve(&at, ca_name, &portnum);
	if (rc == 0)
		rc = plug_ca(at.fabric, at.hca, &ca);
	return rc ? rc : read_port(&at, ca.name, portnum, port);
}

EXPORT int umad_release_ca(umad_ca_t *ca)
{
	if (!ca)
		return -ENODEV;
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++) {
		if (ca->ports[i])
			umad_release_port(ca->ports[i]);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
	return 0;
}

/* Reads as many ports as the struct has room for. */
static int read_ports(const struct umad_place *at, umad_ca_t *ca, unsigned ports)
{
	for (int i = 1; i <= (int)ports && i < UMAD_CA_MAX_PORTS; i++) {
		ca->ports[i] = calloc(1, sizeof(*ca->ports[i]));
		if (!ca->ports[i] || read_port(at, ca->ca_name, i, ca->ports[i])) {
			umad_release_ca(ca);
			return -EIO;
		}
		ca->numports = i;
	}
	return 0;
}

EXPORT int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	struct umad_place at;
	struct ident id;
	struct plug_ca a;
	char why[160];
	int rc;

	if (!has_adapter())
		return umad_roce_ca(ca_name, ca);
	rc = umad_resolve(&at, ca_name, NULL);
	if (rc == 0)
		rc = plug_ca(at.fabric, at.hca, &a);
	if (rc == 0)
		rc = ident_parse(conf_get()->identity, &id, why, sizeof(why));
	if (rc)
		return rc;
	*ca = (umad_ca_t){
		.node_type = NODE_CA,
		.ca_type = "urnic",
		.node_guid = big(a.guid),
		.system_guid = big(a.sys_guid),
	};
	snprintf(ca->fw_ver, sizeof(ca->fw_ver), "%.*s", (int)sizeof(ca->fw_ver) - 1,
		 id.fw_ver);
	snprintf(ca->hw_ver, sizeof(ca->hw_ver), "0x%X", id.hw_ver);
	memcpy(ca->ca_name, a.name, sizeof(ca->ca_name));
	return read_ports(&at, ca, a.ports);
}

EXPORT int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	umad_ca_t ca;
	int n = 0, rc = umad_get_ca(ca_name, &ca);

	if (rc)
		return rc == -ENODEV ? rc : -1;
	if (portguids && ca.numports + 1 > max)
		n = -ENOMEM;
	for (int i = 0; portguids && n >= 0 && i <= ca.numports; i++)
		portguids[n++] = ca.ports[i] ? ca.ports[i]->port_guid : 0;
	umad_release_ca(&ca);
	return n;
}

EXPORT struct umad_device_node *umad_get_ca_device_list(void)
{
	char name[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	struct umad_device_node *n, *head = NULL;

	errno = 0;
	for (int i = umad_get_cas_names(name, UMAD_MAX_DEVICES); i > 0; i--) {
		n = calloc(1, sizeof(*n));
		if (n)
			n->ca_name = strdup(name[i - 1]);
		if (!n || !n->ca_name) {
			free(n);
			umad_free_ca_device_list(head);
			errno = ENOMEM;
			return NULL;
		}
		n->next = head;
		head = n;
	}
	return head;
}

EXPORT void umad_free_ca_device_list(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free((char *)(uintptr_t)head->ca_name);
		free(head);
		head = next;
	}
}

/* Sorts by name; digits count as a number (mlx5_2 before mlx5_10). */
EXPORT int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node *sorted = NULL;

	if (!head)
		return EINVAL;
	for (size_t i = 0; *head && (!size || i < size); i++) {
		struct umad_device_node *n = *head, **at = &sorted;

		*head = n->next;
		while (*at && strverscmp((*at)->ca_name, n->ca_name) <= 0)
			at = &(*at)->next;
		n->next = *at;
		*at = n;
	}
	if (sorted) {
		struct umad_device_node *last = sorted;

		while (last->next)
			last = last->next;
		last->next = *head;
		*head = sorted;
	}
	return 0;
}
