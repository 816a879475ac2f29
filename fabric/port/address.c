/* SPDX-License-Identifier: BSD-2-Clause */
/* address.c - see address.h. */
#include "fabric/port/address.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/port/plug.h"

enum { LISTENS = 0x10000 }; /* __SO_ACCEPTCON in /proc/net/unix: listening */

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
		return "no such fabric runs here; "
		       "start one, such as `urnic fabric run star:2'";
	case ENODEV:
		return "the fabric has no such adapter";
	case EACCES:
		return "another user has that name; name that user's fabric as UID:NAME";
	case EDESTADDRREQ:
		return "no MPI launcher has said which rank this process is";
	case EINVAL:
		return "this is no name of a fabric";
	case ETIMEDOUT:
		return "the fabric does not answer";
	case EHOSTDOWN:
		return "the fabric's process is stopped; kill -CONT lets it go on";
	case EPROTO:
		return "the fabric is of another release of urnic; end it and start it "
		       "again";
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

/* This process's rank: the first of the MPI launchers' variables that holds a number, or
 * NULL. */
static const char *own_rank(void)
{
	static const char *const vars[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
					    "PMI_RANK", "MV2_COMM_WORLD_RANK",
					    "SLURM_PROCID" };

	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
		const char *v = secure_getenv(vars[i]);

		if (v && *v && strspn(v, "0123456789") == strlen(v))
			return v;
	}
	return NULL;
}

int plug_hca(const char *hca, char to[PLUG_HCA])
{
	const bool by_rank = strcmp(hca, "rank") == 0;
	const char *name = by_rank ? own_rank() : hca;

	if (!name)
		return -EDESTADDRREQ;
	if (strlen(name) >= PLUG_HCA - 1)
		return -ENODEV;
	snprintf(to, PLUG_HCA, "%s%s", by_rank ? "#" : "", name);
	return 0;
}

bool plug_listed(const char *line, uid_t self, char name[PLUG_LISTED])
{
	static const char prefix[] = " @urnic/fabric/";
	const char *at = strstr(line, prefix);
	unsigned long flags, uid;
	char *end;
	int n;

	if (!at || sscanf(line, "%*x: %*x %*x %lx", &flags) != 1 || !(flags & LISTENS))
		return false;
	at += strlen(prefix);
	uid = strtoul(at, &end, 10);
	if (!isdigit((unsigned char)*at) || *end != '/')
		return false;
	n = (int)strcspn(++end, "\n");
	if (uid == self)
		snprintf(name, PLUG_LISTED, "%.*s", n, end);
	else
		snprintf(name, PLUG_LISTED, "%lu:%.*s", uid, n, end);
	return plug_check_name(name) == 0;
}

void plug_each_running(void (*fn)(void *ctx, const char *fabric), void *ctx)
{
	FILE *f = fopen("/proc/net/unix", "re");
	char line[512], name[PLUG_LISTED];

	while (f && fgets(line, sizeof(line), f))
		if (plug_listed(line, geteuid(), name))
			fn(ctx, name);
	if (f)
		fclose(f);
}

struct names {
	char *out;
	size_t n, size;
};

static void add_name(void *ctx, const char *fabric)
{
	struct names *to = ctx;

	if (to->n < to->size)
		to->n += (size_t)snprintf(to->out + to->n, to->size - to->n, "%s%s",
					  to->n ? ", " : "", fabric);
}

void plug_running(char *out, size_t size)
{
	struct names to = { out, 0, size };

	plug_each_running(add_name, &to);
	if (!to.n)
		snprintf(out, size, "none");
}

/* In /proc/PID/stat the state is the letter after the program's name.  The name stands in
 * parentheses and may itself hold parentheses, so the last one ends it. */
bool plug_is_stopped(pid_t pid)
{
	char path[32], text[128];
	const char *name_end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	name_end = strrchr(text, ')');
	return name_end && (!strncmp(name_end, ") T", 3) || !strncmp(name_end, ") t", 3));
}
