/* SPDX-License-Identifier: BSD-2-Clause */
/* holder.c - see holder.h. */
#include "driver/holder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Parses a line of /proc/net/udp: "sl local:port remote:port st tx:rx tr:when retrnsmt
 * uid timeout inode ..." */
static bool parse_line(const char *line, uint16_t port, struct holder *out)
{
	unsigned at, uid;
	unsigned long inode;

	if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*s %lu", &at,
		   &uid, &inode) != 3 ||
	    at != port)
		return false;
	*out = (struct holder){ .uid = uid, .inode = inode };
	return true;
}

/* Finds the n-th line of `path` with port, from 0. Returns how many there are, at most n
 * + 1. */
static unsigned search(const char *path, uint16_t port, unsigned n, struct holder *out)
{
	FILE *f = fopen(path, "re");
	unsigned found = 0;
	struct holder h;
	char line[512];

	if (!f)
		return 0;
	while (found <= n && fgets(line, sizeof(line), f))
		found += parse_line(line, port, &h);
	fclose(f);
	if (found > n)
		*out = h;
	return found;
}

static bool has_socket(const char *pid, unsigned long inode)
{
	char path[300], want[64], got[64];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(want, sizeof(want), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (e = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), e->d_name, got, sizeof(got) - 1);

		if (n <= 0)
			continue;
		got[n] = '\0';
		found = !strcmp(got, want);
	}
	closedir(dir);
	return found;
}

static void read_comm(const char *pid, char *comm, size_t size)
{
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(comm, (int)size, f))
		comm[strcspn(comm, "\n")] = '\0';
	fclose(f);
}

static void find_process(struct holder *h)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;

	while (proc && h->inode && !h->pid && (e = readdir(proc))) {
		if (!isdigit((unsigned char)e->d_name[0]) ||
		    !has_socket(e->d_name, h->inode))
			continue;
		h->pid = atoi(e->d_name);
		read_comm(e->d_name, h->comm, sizeof(h->comm));
	}
	if (proc)
		closedir(proc);
}

int holder_nth(int family, uint16_t port, unsigned n, struct holder *out)
{
	unsigned found = 0;

	if (family == AF_INET)
		found = search("/proc/thread-self/net/udp", port, n, out);
	/* An IPv6 socket may hold the port in IPv4, too. */
	if (!found)
		found = search("/proc/thread-self/net/udp6", port, n, out);
	return found > n ? 0 : -ESRCH;
}

int holder_find(int family, uint16_t port, struct holder *out)
{
	return holder_nth(family, port, 0, out);
}

void holder_text(struct holder *h, char *buf, size_t size)
{
	find_process(h);
	if (h->pid)
		snprintf(buf, size, "user %u, process %d (%s)", (unsigned)h->uid,
			 (int)h->pid, h->comm);
	else
		snprintf(buf, size, "user %u, a process that cannot be seen%s",
			 (unsigned)h->uid,
			 h->uid ? "" : " or the kernel (is rdma_rxe loaded?)");
}

void holder_user_text(uid_t uid, pid_t pid, char *buf, size_t size)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (pid && stat(path, &st) == 0 && st.st_uid != uid)
		snprintf(buf, size, "user %u (when it opened its device; user %u now)",
			 (unsigned)uid, (unsigned)st.st_uid);
	else
		snprintf(buf, size, "user %u", (unsigned)uid);
}
