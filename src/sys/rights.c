/* SPDX-License-Identifier: BSD-2-Clause */
/* rights.c - SCM_RIGHTS messages; see rights.h. */
#include "sys/rights.h"

#include <errno.h>
#include <string.h>

#include "sys/closer.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

void rights_put(struct msghdr *m, struct cmsghdr *at, const int *fds, unsigned n)
{
	memset(at, 0, CMSG_SPACE(n * sizeof(int)));
	m->msg_control = at;
	m->msg_controllen = CMSG_SPACE(n * sizeof(int));
	at->cmsg_level = SOL_SOCKET;
	at->cmsg_type = SCM_RIGHTS;
	at->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(at), fds, n * sizeof(int));
}

unsigned rights_take(struct msghdr *m, uid_t uid, int *fds, unsigned max)
{
	unsigned got = 0;

	for (unsigned i = 0; i < max; i++)
		fds[i] = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (got < max)
				fds[got] = fd;
			else
				closer_put(uid, fd);
			got++;
		}
	}
	return got;
}

static bool set_passing(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof(on)) == 0;
}

bool rights_refuse(int fd)
{
	return set_passing(fd, 0);
}

void rights_allow(int fd)
{
	set_passing(fd, 1);
}
