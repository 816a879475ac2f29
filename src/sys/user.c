/* SPDX-License-Identifier: BSD-2-Clause */
/* user.c - which user a process belongs to; see user.h. */
#include "sys/user.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { OVERFLOW_UID = 65534 };

bool user_map_hides(const char *map)
{
	unsigned from, to, n;

	/* Hides no user: the initial user namespace, or one with the same mapping. */
	return !map || sscanf(map, "%u %u %u", &from, &to, &n) != 3 || from || to ||
	       n != (unsigned)-1;
}

/* Reads the first line of a file.  Returns NULL if it cannot be read. */
static char *read_start(const char *path, char *buf, int size)
{
	FILE *f = fopen(path, "re");
	char *got = f ? fgets(buf, size, f) : NULL;

	if (f)
		fclose(f);
	return got;
}

void user_open(struct user *u)
{
	unsigned overflow = OVERFLOW_UID;
	char buf[128];

	u->uid = geteuid();
	u->hidden = (uid_t)-1;
	if (!user_map_hides(read_start("/proc/self/uid_map", buf, sizeof(buf))))
		return;
	if (read_start("/proc/sys/kernel/overflowuid", buf, sizeof(buf)))
		(void)sscanf(buf, "%u", &overflow);
	u->hidden = overflow;
}

bool user_is_hidden(const struct user *u, uid_t uid)
{
	return uid == u->hidden;
}

bool user_is_ours(const struct user *u, uid_t uid, pid_t pid)
{
	if (uid != u->uid)
		return false;
	/* A uid that stands for several users: the kernel itself compares the users where
	 * one process signals another. */
	return !user_is_hidden(u, uid) || (pid > 0 && kill(pid, 0) == 0);
}

bool user_is_same(const struct user *u, uid_t a, uid_t b)
{
	return a == b && !user_is_hidden(u, a);
}

bool user_is_of(const struct user *u, uid_t owner, uid_t uid, pid_t pid)
{
	return owner == u->uid ? user_is_ours(u, uid, pid) : user_is_same(u, owner, uid);
}

int user_of_peer(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return -errno;
	*uid = c.uid;
	*pid = c.pid;
	return 0;
}

uid_t user_of_now(pid_t pid)
{
	unsigned real, effective = (unsigned)-1;
	char path[32], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %u %u", &real, &effective) == 2)
			break;
	if (f)
		fclose(f);
	return (uid_t)effective;
}
