/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_iwarp.c - says which iWARP devices there are, and how to get more. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/netdev.h"
#include "driver/pick.h"
#include "probe.h"
#include "settings.h"
#include "verbs/device.h"

struct tally {
	char iwarp[400]; /* their names */
	const struct netdev
		*first; /* could have one; loopback only if there is no other */
};

static void look_at(struct tally *t, const struct netdev *net, bool picked)
{
	size_t n = strlen(t->iwarp);

	if (!t->first || t->first->loopback)
		t->first = net;
	if (picked)
		snprintf(t->iwarp + n, sizeof(t->iwarp) - n, "%siwarp_%s", n ? ", " : "",
			 net->name);
}

static void say_tally(struct finding *f, const struct tally *t)
{
	if (t->iwarp[0])
		finding(f, OK, "", "", "%s, connected by rdma_cm", t->iwarp);
	else if (!t->first)
		finding(f, OK, "", "", "no interface has an address");
	else
		finding(f, OK, "", "",
			"none; to have one, name it:"
			" URNIC_DEVICES=iwarp_%s",
			t->first->name);
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
		look_at(&t, &net[i], pick_device(conf.devices, net, n, i, &device_iwarp));
	say_tally(f, &t);
	free(net);
}
