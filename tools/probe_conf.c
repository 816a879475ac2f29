/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_conf.c - checks the configuration, and says where it comes from. */
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "probe.h"
#include "settings.h"
#include "verbs/netport.h"

uint16_t probe_udp_port(void)
{
	struct conf_origin origin;
	char err[CONF_ERR];
	struct conf conf;

	return conf_read(&conf, &origin, err) ? 4791 : conf.udp_port;
}

enum conf_share probe_share(void)
{
	struct conf_origin origin;
	char err[CONF_ERR];
	struct conf conf;

	return conf_read(&conf, &origin, err) ? CONF_SHARE_AUTO : conf.share;
}

/* Is name a network interface, or the device of one? */
static bool is_known(const char *name)
{
	bool is = if_nametoindex(name);

	for (int i = 0; i < NETDEV_KINDS && !is; i++) {
		const char *prefix = netdev_kinds[i]->prefix;
		size_t n = strlen(prefix);

		is = strncmp(name, prefix, n) == 0 && name[n] == '_' &&
		     if_nametoindex(name + n + 1);
	}
	return is;
}

/* Finds the first name of the list that is_known() does not know; false: it knows all. */
static bool no_interface(const char *list, char name[64])
{
	static const char between[] = ", ";

	for (const char *at = list; *at; at += strspn(at, between)) {
		size_t len = strcspn(at, between), n = len < 63 ? len : 63;

		memcpy(name, at, n);
		name[n] = '\0';
		if (len && !is_known(name))
			return true;
		at += len;
	}
	return false;
}

static void add_item(char *buf, size_t size, const char *what)
{
	size_t n = strlen(buf);

	snprintf(buf + n, size - n, "%s%s", n ? ", " : "", what);
}

void probe_conf(struct finding *f)
{
	char text[CONF_ERR] = "", name[64];
	struct conf_origin origin;
	struct conf conf;

	if (settings_read(&conf, &origin, text) != 0) {
		finding(f, MISSING, "no device can be opened",
			"correct it; `urnic"
			" conf --help' has every key",
			"%s", text);
		return;
	}
	if (no_interface(conf.devices, name)) {
		finding(f, LIMITED, "the interface gets no device",
			"correct devices (URNIC_DEVICES, urnic run -d); `ip link' "
			"lists the interfaces; the devices of eth0 are called "
			"roce_eth0 and iwarp_eth0",
			"there is no interface '%s'", name);
		return;
	}
	if (origin.path[0])
		add_item(text, sizeof(text), origin.path);
	for (unsigned i = 0; conf_key(i); i++) {
		if (origin.from[i] == CONF_ENV)
			add_item(text, sizeof(text), conf_key(i)->env);
	}
	if (conf.like[0]) {
		add_item(text, sizeof(text), "devices are like ");
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s",
			 conf.like);
	}
	finding(f, OK, "", "", "%s", text[0] ? text : "the defaults");
}
