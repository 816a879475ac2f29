/* SPDX-License-Identifier: BSD-2-Clause */
/* defaults.c - see defaults.h. */
#include "rsocket/defaults.h"

#include <pthread.h>
#include <stdio.h>

enum { MEM = 1 << 17, QUEUE = 384, INLINE = 64, POLLING_US = 10 };

static uint32_t from_file(const char *folder, const char *name, uint32_t value,
			  uint32_t min, uint32_t max)
{
	char path[256];
	FILE *f;
	unsigned v;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f)
		return value;
	if (fscanf(f, "%u", &v) == 1)
		value = v < min ? min : v < max ? v : max;
	fclose(f);
	return value;
}

void rsock_defaults_read(const char *folder, struct rsock_defaults *out)
{
	*out = (struct rsock_defaults){
		.sizes = {
			.rcvbuf = from_file(folder, "mem_default", MEM, 2,
					    RSOCK_BUFFER_MAX),
			.sndbuf = from_file(folder, "wmem_default", MEM, 1,
					    RSOCK_BUFFER_MAX),
			.sq = (uint16_t)from_file(folder, "sqsize_default", QUEUE, 2,
						  RSOCK_QUEUE_MAX),
			.rq = (uint16_t)from_file(folder, "rqsize_default", QUEUE, 2,
						  RSOCK_QUEUE_MAX),
			.inline_size = from_file(folder, "inline_default", INLINE, 0,
						 RSOCK_INLINE_MAX),
			.iomaps = from_file(folder, "iomap_size", 0, 0,
					    RSOCK_IOMAPS_MAX),
		},
		.polling_us = from_file(folder, "polling_time", POLLING_US, 0, 1000000),
	};
}

static struct rsock_defaults defaults;

static void read_defaults(void)
{
	rsock_defaults_read("/etc/rdma/rsocket", &defaults);
}

const struct rsock_defaults *rsock_defaults(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_defaults);
	return &defaults;
}
