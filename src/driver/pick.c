/* SPDX-License-Identifier: BSD-2-Clause */
/* pick.c - see pick.h. */
#include "driver/pick.h"

#include <stdio.h>
#include <string.h>

static const char between[] = ", ";

/* Returns the next name of the list from *at on, not terminated; NULL: no more. */
static const char *next(const char **at, size_t *len)
{
	const char *name = *at + strspn(*at, between);

	*len = strcspn(name, between);
	*at = name + *len;
	return *len ? name : NULL;
}

static bool is(const char *name, size_t len, const char *wanted)
{
	return len == strlen(wanted) && !strncmp(name, wanted, len);
}

/* Is name "KIND_netdev"? */
static bool is_device(const char *name, size_t len, const struct device_kind *kind,
		      const char *netdev)
{
	size_t n = strlen(kind->prefix);

	return len > n && !strncmp(name, kind->prefix, n) && name[n] == '_' &&
	       is(name + n + 1, len - n - 1, netdev);
}

/* Is name that of the interface, or of a device of it? */
static bool names(const char *name, size_t len, const char *netdev)
{
	bool it = is(name, len, netdev);

	for (int i = 0; i < NETDEV_KINDS && !it; i++)
		it = is_device(name, len, netdev_kinds[i], netdev);
	return it;
}

bool pick_has(const char *list, const char *wanted)
{
	const char *name;
	size_t len;

	while ((name = next(&list, &len)))
		if (is(name, len, wanted))
			return true;
	return false;
}

/* Does no interface but loopback's run? */
static bool alone(const struct netdev *net, int n)
{
	for (int i = 0; i < n; i++)
		if (!net[i].loopback && net[i].running)
			return false;
	return true;
}

bool pick_device(const char *list, const struct netdev *net, int n, int i,
		 const struct device_kind *kind)
{
	const char *name;
	size_t len;

	if (!*list)
		return !kind->named && (!net[i].loopback || alone(net, n));
	while ((name = next(&list, &len)))
		if (is_device(name, len, kind, net[i].name) ||
		    (!kind->named && is(name, len, net[i].name)))
			return true;
	return false;
}

const struct netdev *pick_left_out(const char *list, const struct netdev *net, int n,
				   const struct device_kind *kind)
{
	for (int i = 0; i < n && !*list && !kind->named; i++)
		if (net[i].loopback && !pick_device(list, net, n, i, kind))
			return &net[i];
	return NULL;
}

bool pick_some(const char *list, const struct netdev *net, int n)
{
	for (int i = 0; i < NETDEV_KINDS * n; i++)
		if (pick_device(list, net, n, i % n, netdev_kinds[i / n]))
			return true;
	return false;
}

/* Appends name to the string in out. */
static void append_name(char *out, size_t size, const char *name, size_t len)
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
			known = names(name, len, net[i].name);
		if (known)
			continue;
		append_name(out, size, name, len);
		unknown++;
	}
	return unknown;
}

void pick_names(const struct netdev *net, int n, char *out, size_t size)
{
	*out = '\0';
	for (int i = 0; i < n; i++)
		append_name(out, size, net[i].name, strlen(net[i].name));
}
