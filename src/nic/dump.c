/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - see dump.h: asking for a dump, answering, reading the answer. */
#include "nic/dump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/core.h"
#include "sys/cancel.h"
#include "sys/fd.h"

enum {
	SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
	TEXT_MAX = 64 << 20, /* that an asker takes */
};

static const uint8_t magic[8] = "urnicdmp";

static_assert(sizeof(struct dump_msg) == 16, "layout");
static_assert(sizeof(struct dump_msg) <= HOST_SAY_MAX, "it can be said");

void dump_put(struct dump_msg *m, enum dump_what what, int error)
{
	*m = (struct dump_msg){ .what = (uint8_t)what, .error = error };
	memcpy(m->magic, magic, sizeof(magic));
}

bool dump_is(const struct host_said *s, struct dump_msg *out)
{
	if (s->len != sizeof(*out))
		return false;
	memcpy(out, s->buf, sizeof(*out));
	return !memcmp(out->magic, magic, sizeof(magic));
}

/* A descriptor, or -errno. */
static int memory_of(const char *text, size_t len)
{
	int fd = fd_memory("urnic-dump", len), rc = 0;

	if (fd < 0)
		return fd;
	for (size_t at = 0; at < len && !rc;) {
		ssize_t n = pwrite(fd, text + at, len - at, (off_t)at);

		if (n > 0)
			at += (size_t)n;
		else if (n == 0 || errno != EINTR)
			rc = n ? -errno : -EIO;
	}
	if (!rc && fcntl(fd, F_ADD_SEALS, SEALS))
		rc = -errno;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int take_dump(struct core *core)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int rc = -ENOMEM;
	bool whole;

	if (!out)
		return rc;
	dump_write(core, out);
	whole = !ferror(out);
	if (!fclose(out) && whole)
		rc = memory_of(text, len);
	free(text);
	return rc;
}

void dump_answer(struct core *core, struct host *host, const struct host_said *s)
{
	int was, fd;
	struct dump_msg m;

	if (!host_is_ours(host, s->slot))
		return;
	was = cancel_hold();
	/* Keys and addresses are for whoever could read them in /proc. */
	fd = prctl(PR_GET_DUMPABLE) == 1 ? take_dump(core) : -EPERM;
	dump_put(&m, DUMP_TEXT, fd < 0 ? fd : 0);
	/* One that does not read its connection gets none. */
	(void)host_say(host, s->slot, &m, sizeof(m), &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
	cancel_let(was);
}

char *dump_read(int fd, size_t *len)
{
	struct stat st;
	char *text;
	ssize_t n;

	if (fstat(fd, &st) || st.st_size < 0 || st.st_size > TEXT_MAX ||
	    !fd_is_sealed(fd, (size_t)st.st_size, SEALS))
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return NULL;
	n = pread(fd, text, (size_t)st.st_size, 0);
	if (n != st.st_size) {
		free(text);
		return NULL;
	}
	for (ssize_t i = 0; i < n; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			text[i] = '?';
	text[n] = '\0';
	*len = (size_t)n;
	return text;
}
