/* SPDX-License-Identifier: BSD-2-Clause */
/* topo.c - finds the nodes of a topology by their names.  See topo.h. */
#include "fabric/topo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void topo_free(struct topo *t)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		free(t->node[i].port);
	free(t->node);
	*t = (struct topo){ 0 };
}

/* How well a name fits a node. */
enum fit { FIT_NONE, FIT_DESC, FIT_SHORT, FIT_GUID, FIT_ID };

static enum fit fits_node(const struct topo_node *n, const char *name)
{
	static const char prefix[] = {
		[TOPO_CA] = 'H', [TOPO_SWITCH] = 'S', [TOPO_ROUTER] = 'R'
	};
	char *end;
	uint64_t guid = strtoull(name, &end, 16);

	if (strcmp(n->id, name) == 0)
		return FIT_ID;
	if (strncmp(name, "0x", 2) == 0 && !*end && n->guid == guid)
		return FIT_GUID;
	if (n->id[0] == prefix[n->type] && n->id[1] == '-' &&
	    strcmp(n->id + 2, name) == 0)
		return FIT_SHORT;
	return strcmp(n->desc, name) == 0 ? FIT_DESC : FIT_NONE;
}

static int find_node(const struct topo *t, const char *name, bool any, uint32_t *node)
{
	enum fit best = FIT_NONE;
	unsigned found = 0;

	for (uint32_t i = 0; i < t->nodes; i++) {
		enum fit fit = any || t->node[i].type == TOPO_CA
				       ? fits_node(&t->node[i], name)
				       : FIT_NONE;

		if (fit == FIT_NONE || fit < best)
			continue;
		found = fit > best ? 1 : found + 1;
		best = fit;
		*node = i;
	}
	return found == 1 ? 0 : found ? -ENOTUNIQ : -ENOENT;
}

/* Finds the adapter #N: the Nth in the file's order, modulo their number. */
static int nth_ca(const struct topo *t, const char *number, uint32_t *node)
{
	unsigned long cas = 0, n;
	char *end;

	for (uint32_t i = 0; i < t->nodes; i++)
		cas += t->node[i].type == TOPO_CA;
	n = strtoul(number, &end, 10);
	if (!cas || end == number || *end)
		return -ENOENT;
	n %= cas;
	for (uint32_t i = 0; i < t->nodes; i++) {
		if (t->node[i].type == TOPO_CA && !n--) {
			*node = i;
			break;
		}
	}
	return 0;
}

int topo_find_ca(const struct topo *t, const char *name, uint32_t *node)
{
	int rc = find_node(t, name, false, node);

	return rc == -ENOENT && *name == '#' ? nth_ca(t, name + 1, node) : rc;
}

int topo_find_node(const struct topo *t, const char *name, uint32_t *node)
{
	return find_node(t, name, true, node);
}
