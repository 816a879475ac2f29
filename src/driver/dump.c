/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - see dump.h: asking for a dump, answering, reading the answer. */
#include "driver/dump.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "verbs/core.h"

enum {
	SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE,
	TEXT_MAX = 128 << 20, /* bytes that an asker accepts */
	PAUSE_NS = 50000,     /* ns between pieces, in which others have the turn */
};

static const char magic[] = "urnicdmp";

static_assert(sizeof(struct dump_msg) == 16, "layout");
static_assert(sizeof(struct dump_msg) <= HOST_SAY_MAX, "it can be said");

void dump_put(struct dump_msg *m, enum dump_what what, int error)
{
	*m = (struct dump_msg){ .what = (uint8_t)what, .error = error };
	memcpy(m->magic, magic, sizeof(m->magic));
}

bool dump_is(const struct host_said *s, struct dump_msg *out)
{
	if (s->len != sizeof(*out))
		return false;
	memcpy(out, s->buf, sizeof(*out));
	return !memcmp(out->magic, magic, sizeof(out->magic));
}

/* Makes sealed memory with the text. Returns its descriptor, or -errno. */
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

static bool is_writing(const struct dumper *d)
{
	return d->text.out;
}

static void forget(struct dumper *d)
{
	if (d->text.out)
		fclose(d->text.out);
	free(d->memory);
	d->text.out = NULL;
	d->memory = NULL;
	d->askers = 0;
}

/* Sends the dump to slot. A process that does not read its connection gets none. */
static void say(struct dumper *d, uint16_t slot, int fd)
{
	struct dump_msg m;

	dump_put(&m, DUMP_TEXT, fd < 0 ? fd : 0);
	(void)host_say(d->host, slot, &m, sizeof(m), &fd, fd >= 0);
}

/* The dump is complete: sends it to all processes that asked. */
static void answer(struct dumper *d)
{
	bool whole = !ferror(d->text.out);
	int fd;

	whole &= !fclose(d->text.out);
	d->text.out = NULL;
	fd = whole ? memory_of(d->memory, d->len) : -ENOMEM;
	for (unsigned i = 0; i < d->askers; i++)
		say(d, d->asker[i], fd);
	if (fd >= 0)
		close(fd);
	forget(d);
}

/* --- as a source ------------------------------------------------------------- */

static struct dumper *dumper_of(struct source *s)
{
	return container_of(s, struct dumper, source);
}

static uint64_t deadline(struct source *s, uint64_t now)
{
	struct dumper *d = dumper_of(s);

	(void)now;
	return is_writing(d) ? d->next : NEVER;
}

static void run(struct source *s, uint64_t now)
{
	struct dumper *d = dumper_of(s);
	int was;

	if (!is_writing(d) || now < d->next)
		return;
	was = cancel_hold();
	if (dump_go_on(&d->text))
		d->next = now + PAUSE_NS;
	else
		answer(d);
	cancel_let(was);
}

/* Drops the dump in a forked child, which nobody asked. */
static void forked(struct source *s)
{
	forget(dumper_of(s));
}

static const struct source_ops ops = {
	.run = run,
	.deadline = deadline,
	.forked = forked,
};

void dumper_init(struct dumper *d, struct core *core, struct cm *cm, struct host *host)
{
	*d = (struct dumper){ .source = { .ops = &ops, .rang = -1 },
			      .core = core,
			      .cm = cm,
			      .host = host };
}

void dumper_fini(struct dumper *d)
{
	forget(d);
}

/* --- asked ------------------------------------------------------------------- */

/* Begins a dump. Returns 0 or -errno. */
static int begin(struct dumper *d, uint64_t now)
{
	FILE *out;

	if (is_writing(d))
		return 0;
	out = open_memstream(&d->memory, &d->len);
	if (!out)
		return -ENOMEM;
	dump_begin(&d->text, d->core, d->cm, out);
	d->next = now;
	return 0;
}

/* Adds slot to those that get the dump. Returns 0 or -errno. */
static int add_asker(struct dumper *d, uint16_t slot)
{
	for (unsigned i = 0; i < d->askers; i++)
		if (d->asker[i] == slot)
			return 0;
	if (d->askers == DUMP_ASKERS)
		return -EBUSY;
	d->asker[d->askers++] = slot;
	return 0;
}

void dump_ask(struct dumper *d, const struct host_said *s, uint64_t now)
{
	int was, rc;

	if (!host_is_ours_now(d->host, s->slot))
		return;
	was = cancel_hold();
	/* A dump has keys and addresses, so it is refused where /proc would not show
	 * them either. */
	rc = prctl(PR_GET_DUMPABLE) == 1 ? begin(d, now) : -EPERM;
	if (!rc)
		rc = add_asker(d, s->slot);
	if (rc)
		say(d, s->slot, rc);
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
