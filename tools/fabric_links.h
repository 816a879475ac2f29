/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_links.h - the links of a running fabric, from its answer to "status". */
#ifndef TOOLS_FABRIC_LINKS_H
#define TOOLS_FABRIC_LINKS_H

#include <jansson.h>

/* A member of an object; "" or 0 if there is none of that name and type. */
const char *json_text(const json_t *j, const char *key);
long long json_number(const json_t *j, const char *key);

/* Makes an object that maps a node's name to its JSON; the caller releases it. */
json_t *links_nodes(const json_t *nodes);

struct link {
	const json_t *node, *port, *peer;
	const char *state;
};

/* Calls fn once for each link, as seen from the switch if one end is an adapter. */
void links_each(const json_t *nodes, const json_t *names,
		void (*fn)(void *ctx, const struct link *l), void *ctx);

#endif
