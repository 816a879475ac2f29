/* SPDX-License-Identifier: BSD-2-Clause */
/* watch.c - prints, after every asynchronous event, what the port and its
 * GIDs are now:  EVENT state mtu max active gid,gid,...
 *
 *	--mode=list	and lists the devices all the time
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "rig.h"

static void show(struct ibv_context *ctx, const char *event)
{
	struct ibv_port_attr port;
	char line[2048], ip[INET6_ADDRSTRLEN];
	size_t at;

	CHECK(!ibv_query_port(ctx, 1, &port));
	at = (size_t)snprintf(line, sizeof(line), "%s: %s mtu %d %d gids", event,
			      ibv_port_state_str(port.state), port.max_mtu,
			      port.active_mtu);
	for (int i = 0; i < port.gid_tbl_len && at < sizeof(line) - 64; i++) {
		union ibv_gid gid;

		if (ibv_query_gid(ctx, 1, i, &gid))
			break;
		if (!gid.global.subnet_prefix && !gid.global.interface_id)
			continue;
		inet_ntop(AF_INET6, gid.raw, ip, sizeof(ip));
		at += (size_t)snprintf(line + at, sizeof(line) - at, " %d=%s", i, ip);
	}
	say("%s", line);
}

static void *list(void *arg)
{
	struct ibv_device **v;

	while ((v = ibv_get_device_list(NULL)))
		ibv_free_device_list(v);
	CHECK(v);
	return arg;
}

int watch(void)
{
	struct ibv_async_event event;
	pthread_t thread;
	struct rig r;

	rig_open(&r);
	if (opt.mode && !strcmp(opt.mode, "list"))
		CHECK(!pthread_create(&thread, NULL, list, NULL));
	show(r.ctx, "start");
	for (;;) {
		CHECK(!ibv_get_async_event(r.ctx, &event));
		show(r.ctx, ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
}
