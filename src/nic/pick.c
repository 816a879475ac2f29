/* SPDX-License-Identifier: BSD-2-Clause */
/* pick.c - see pick.h. */
#include "nic/pick.h"

#include <stdio.h>
#include <string.h>

static const char between[] = ", ";

/* The next name of the list from *at on, not terminated; NULL: no more. */
static const char *next(const char **at, size_t *len)
{
	const char *name = *at + strspn(*at, between);

	*len = strcspn(name, between);
	*at = name + *len;
	return *len ? name : NULL;
}

static bool is(const char *name, size_t len, const char *prefix, const char *netdev)
{
	size_t n = strlen(prefix);

	return len == n + strlen(netdev) && !strncmp(name, prefix, n) &&
	       !strncmp(name + n, netdev, len - n);
}

bool pick_has(const char *list, const char *wanted)
{
	const char *name;
	size_t len;

	while ((name = next(&list, &len)))
		if (is(name, len, "", wanted))
			return true;
	return false;
}

bool pick_device(const char *list, const struct netdev *net, bool iwarp)
{
	const char *name;
	size_t len;

	if (!*list)
		return !iwarp;
	while ((name = next(&list, &len)))
		if (is(name, len, iwarp ? "iwarp_" : "roce_", net->name) ||
		    (!iwarp && is(name, len, "", net->name)))
			return true;
	return false;
}

/* Appends to out, which holds a string. */
static void append(char *out, size_t size, const char *name, size_t len)
{
	size_t n = strlen(out);

	snprintf(out + n, size - n, "%s%.*s", n ? ", " : "", (int)len, name);
}

int pick_unknown(const char *list, const struct netdev *net, int n, char *out,
		 size_t size)
{
	const char *name;
	int unknown = 0;
	size_t len;

	*out = '\0';
	while ((name = next(&list, &len))) {
		bool known = false;

		for (int i = 0; i < n && !known; i++)
			known = is(name, len, "", net[i].name) ||
				is(name, len, "roce_", net[i].name) ||
				is(name, len, "iwarp_", net[i].name);
		if (known)
			continue;
		append(out, size, name, len);
		unknown++;
	}
	return unknown;
}

void pick_names(const struct netdev *net, int n, char *out, size_t size)
{
	*out = '\0';
	for (int i = 0; i < n; i++)
		append(out, size, net[i].name, strlen(net[i].name));
}
