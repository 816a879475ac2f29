/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_iwarp.c - says which iWARP devices there are, and how to get more. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/device.h"
#include "nic/netdev.h"
#include "nic/pick.h"
#include "probe.h"
#include "settings.h"

struct tally {
	char iwarp[400];	/* their names */
	bool roce, loopback;	/* there is a RoCE device; an iWARP device of loopback */
	const char *first, *lo; /* interfaces that could have an iWARP device */
};

static void look_at(struct tally *t, const char *list, const struct netdev *net)
{
	size_t n = strlen(t->iwarp);

	t->roce |= pick_device(list, net, &device_roce);
	if (net->loopback)
		t->lo = net->name;
	else if (!t->first)
		t->first = net->name;
	if (!pick_device(list, net, &device_iwarp))
		return;
	t->loopback |= net->loopback;
	snprintf(t->iwarp + n, sizeof(t->iwarp) - n, "%siwarp_%s", n ? ", " : "",
		 net->name);
}

static void say(struct finding *f, const struct tally *t)
{
	const char *a = t->first ? t->first : t->lo;

	if (t->iwarp[0] && !t->roce && !t->loopback)
		finding(f, LIMITED, "127.0.0.1 cannot be connected to",
			"name iwarp_lo in devices (URNIC_DEVICES), too",
			"%s, and none of loopback", t->iwarp);
	else if (t->iwarp[0])
		finding(f, OK, "", "", "%s, connected by rdma_cm", t->iwarp);
	else if (!a)
		finding(f, OK, "", "", "no interface has an address");
	else if (t->first && t->lo)
		finding(f, OK, "", "",
			"none; to have devices, name them:"
			" URNIC_DEVICES=iwarp_%s,iwarp_%s",
			t->first, t->lo);
	else
		finding(f, OK, "", "",
			"none; to have one, name it:"
			" URNIC_DEVICES=iwarp_%s",
			a);
}

void probe_iwarp(struct finding *f)
{
	struct tally t = { .iwarp = "" };
	struct netdev *net = NULL;
	struct conf_origin origin;
	char err[CONF_ERR];
	struct conf conf;
	int n = 0;

	if (settings_read(&conf, &origin, err) != 0) {
		finding(f, OK, "", "", "not known: the configuration is wrong");
		return;
	}
	if (netdev_list(&net, &n) != 0)
		n = 0;
	for (int i = 0; i < n; i++)
		look_at(&t, conf.devices, &net[i]);
	say(f, &t);
	free(net);
}
