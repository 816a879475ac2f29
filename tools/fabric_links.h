/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_links.h - the links of a running fabric, as its answer to "status" has them. */
#ifndef TOOLS_FABRIC_LINKS_H
#define TOOLS_FABRIC_LINKS_H

#include <jansson.h>

/* Of an object: "" and 0 where there is none. */
const char *json_text(const json_t *j, const char *key);
long long json_number(const json_t *j, const char *key);

/* An object that leads from a node's name to its JSON; the caller's. */
json_t *links_nodes(const json_t *nodes);

struct link {
	const json_t *node, *port, *peer;
	const char *state;
};

/* Each once, from the switch of two ends. */
void links_each(const json_t *nodes, const json_t *names,
		void (*fn)(void *ctx, const struct link *l), void *ctx);

#endif
