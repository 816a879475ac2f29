/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_pair.c - the calls that find the adapters for SMPs (SMI) and for other MADs (GSI)
 * of a host. Multi-plane hardware has two of them for one port; here one adapter is both.
 *
 * Older headers of libibumad lack these calls. Without the header, this file compiles
 * against each. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "abi/umad_own.h"
#include "fabric/port/plug.h"

enum { NAME_LEN = 20 }; /* UMAD_CA_NAME_LEN */

struct umad_ca_pair {
	char smi_name[NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[NAME_LEN];
	uint32_t gsi_preferred_port;
};
_Static_assert(sizeof(struct umad_ca_pair) == 48, "ABI");

int umad_open_port(const char *ca_name, int portnum);
int umad_open_smi_port(const char *ca_name, int portnum);
int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
				     struct umad_ca_pair *ca_pair, unsigned enforce_smi);

EXPORT int umad_open_smi_port(const char *ca_name, int portnum)
{
	return umad_open_port(ca_name, portnum);
}

/* Returns the number of pairs, at most one. */
EXPORT int umad_get_smi_gsi_pairs(struct umad_ca_pair cas[], size_t max)
{
	struct umad_place at;
	struct plug_ca ca;

	if (!cas)
		return -1;
	memset(cas, 0, max * sizeof(cas[0]));
	if (!max || umad_place(&at, &ca))
		return 0;
	memcpy(cas[0].smi_name, ca.name, NAME_LEN);
	memcpy(cas[0].gsi_name, ca.name, NAME_LEN);
	return 1;
}

/* Of port 0 finds the port that works best. */
EXPORT int umad_get_smi_gsi_pair_by_ca_name(const char *devname, uint8_t portnum,
					    struct umad_ca_pair *ca_pair,
					    unsigned enforce_smi)
{
	struct umad_place at;
	int port = portnum;

	(void)enforce_smi; /* an adapter always has an SMI */
	if (!ca_pair)
		return -1;
	if (umad_get_smi_gsi_pairs(ca_pair, 1) != 1 ||
	    umad_resolve(&at, devname, &port) != 0) {
		memset(ca_pair, 0, sizeof(*ca_pair));
		errno = ENODEV;
		return -ENODEV;
	}
	ca_pair->smi_preferred_port = ca_pair->gsi_preferred_port = (uint32_t)port;
	return 0;
}
