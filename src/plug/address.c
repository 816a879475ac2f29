/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c - see address.h. */
#include "plug/address.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plug/plug.h"

static bool good_name(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > PLUG_NAME)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	}
	return true;
}

static int owner_of(const char *fabric, uid_t self, const char **name, uid_t *owner)
{
	const char *colon = strchr(fabric, ':');
	char *end;
	unsigned long uid;

	*name = colon ? colon + 1 : fabric;
	*owner = self;
	if (!good_name(*name))
		return -EINVAL;
	if (!colon)
		return 0;
	if (!isdigit((unsigned char)fabric[0]))
		return -EINVAL;
	errno = 0;
	uid = strtoul(fabric, &end, 10);
	if (errno || end != colon || uid >= (uid_t)-1)
		return -EINVAL;
	*owner = (uid_t)uid;
	return 0;
}

int plug_check_name(const char *fabric)
{
	const char *name;
	uid_t owner;

	return owner_of(fabric, 0, &name, &owner);
}

const char *plug_why(int rc)
{
	switch (-rc) {
	case ENOENT:
		return "no such fabric runs here; start one: urnic fabric run";
	case ENODEV:
		return "the fabric has no such adapter";
	case EACCES:
		return "another user has that name; is it UID:NAME?";
	case EINVAL:
		return "this is no name of a fabric";
	case ETIMEDOUT:
		return "the fabric does not answer";
	default:
		return strerror(-rc);
	}
}

int plug_address(const char *fabric, uid_t self, struct sockaddr_un *a, socklen_t *len,
		 uid_t *owner)
{
	const char *name;
	int n, rc = owner_of(fabric, self, &name, owner);

	if (rc)
		return rc;
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "urnic/fabric/%u/%s",
		     *owner, name);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return 0;
}

int plug_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return -errno;
	*uid = c.uid;
	*pid = c.pid;
	return 0;
}
