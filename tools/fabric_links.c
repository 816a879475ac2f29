/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_links.c - the links in a fabric's status; see fabric_links.h. */
#include "fabric_links.h"

#include <stdbool.h>
#include <string.h>

const char *json_text(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

long long json_number(const json_t *j, const char *key)
{
	return (long long)json_integer_value(json_object_get(j, key));
}

json_t *links_nodes(const json_t *nodes)
{
	json_t *all = json_object(), *n;
	size_t i;

	json_array_foreach(nodes, i, n) json_object_set(all, json_text(n, "id"), n);
	return all;
}

static const json_t *port_of(const json_t *node, long long num)
{
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(node, "ports"), i, p)
	{
		if (json_number(p, "port") == num)
			return p;
	}
	return NULL;
}

/* Ranks a port's state, the lowest first: a link has the lower state of its two ends. */
static unsigned state_rank(const json_t *port)
{
	static const char *const names[] = { "down", "init", "armed", "active" };

	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(json_text(port, "state"), names[i]) == 0)
			return i;
	}
	return 0;
}

/* Finds the link at a port; false: there is none, or it is reported at its other end. */
static bool link_at(const json_t *names, const json_t *node, const json_t *port,
		    struct link *l)
{
	const char *peer = json_text(port, "peer"), *id = json_text(node, "id");
	long long far = json_number(port, "peer_port");
	const json_t *other;
	int order = strcmp(id, peer);
	bool adapter = strcmp(json_text(node, "type"), "switch") != 0;

	other = json_object_get(names, peer);
	if (!*peer || !other)
		return false;
	if (adapter != (strcmp(json_text(other, "type"), "switch") != 0)) {
		if (adapter)
			return false; /* reported at the switch */
	} else if (order > 0 || (order == 0 && json_number(port, "port") > far)) {
		return false;
	}
	*l = (struct link){ node, port, port_of(other, far), NULL };
	if (!json_is_true(json_object_get(port, "cable")))
		l->state = "pulled";
	else if (l->peer && state_rank(l->peer) < state_rank(port))
		l->state = json_text(l->peer, "state");
	else
		l->state = json_text(port, "state");
	if (strcmp(l->state, "down") == 0 &&
	    (strcmp(json_text(port, "physical"), "disabled") == 0 ||
	     strcmp(json_text(l->peer, "physical"), "disabled") == 0))
		l->state = "disabled";
	return true;
}

void links_each(const json_t *nodes, const json_t *names,
		void (*fn)(void *ctx, const struct link *l), void *ctx)
{
	const json_t *n, *p;
	struct link l;
	size_t i, k;

	json_array_foreach(nodes, i, n)
	{
		json_array_foreach(json_object_get(n, "ports"), k, p)
		{
			if (link_at(names, n, p, &l))
				fn(ctx, &l);
		}
	}
}
