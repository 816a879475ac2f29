/* SPDX-License-Identifier: BSD-2-Clause */
/* loopback.c - see loopback.h. */
#include "loopback.h"

#include <stdlib.h>
#include <string.h>

#include "driver/netdev.h"
#include "driver/pick.h"
#include "settings.h"
#include "verbs/device.h"

bool loopback_left_out(char name[IF_NAMESIZE], char other[IF_NAMESIZE])
{
	const struct netdev *out = NULL;
	struct conf_origin origin;
	struct netdev *net = NULL;
	char err[CONF_ERR];
	struct conf conf;
	int n = 0;

	if (settings_read(&conf, &origin, err) || conf.hca[0] || netdev_list(&net, &n))
		return false;
	out = pick_left_out(conf.devices, net, n, &device_roce);
	if (out) {
		memcpy(name, out->name, IF_NAMESIZE);
		memcpy(other, net[0].name, IF_NAMESIZE); /* loopback is last */
	}
	free(net);
	return out;
}
