/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - see dump.h: asking for a dump, answering, reading the answer. */
#include "driver/dump.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/core.h"

enum { PAUSE_NS = 50000 }; /* ns between pieces, in which others have the turn */

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

/* Sends an answer to slot. A process that does not read its connection gets none. */
static void say(struct dumper *d, uint16_t slot, int32_t error, char *text, size_t len)
{
	const struct iovec part[2] = { { &error, sizeof(error) }, { text, len } };
	int rc = host_say(d->host, slot, HOST_DUMP_TEXT, part, 2, NULL, 0);

	if (!rc || rc == -EAGAIN || rc == -ESRCH)
		return;
	error = rc; /* there is no memory for the text, or no descriptor */
	(void)host_say(d->host, slot, HOST_DUMP_TEXT, part, 1, NULL, 0);
}

/* The dump is complete: sends it to all processes that asked. */
static void answer(struct dumper *d)
{
	bool whole = !ferror(d->text.out);

	whole &= !fclose(d->text.out);
	d->text.out = NULL;
	whole &= d->len <= HOST_DUMP_MAX;
	for (unsigned i = 0; i < d->askers; i++)
		say(d, d->asker[i], whole ? 0 : -ENOMEM, d->memory, whole ? d->len : 0);
	forget(d);
}

/* --- as a source ------------------------------------------------------------- */

static struct dumper *dumper_of(struct source *s)
{
	return container_of(s, struct dumper, source);
}

static void run(struct source *s, uint64_t now)
{
	struct dumper *d = dumper_of(s);
	int was;

	source_set(s, NEVER);
	if (!is_writing(d))
		return;
	was = cancel_hold();
	if (dump_go_on(&d->text))
		source_set(s, now + PAUSE_NS);
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
	.forked = forked,
};

void dumper_init(struct dumper *d, struct core *core, struct cm *cm, struct host *host)
{
	*d = (struct dumper){ .core = core, .cm = cm, .host = host };
	source_init(&d->source, &ops);
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
	source_set(&d->source, now);
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
		say(d, s->slot, rc, NULL, 0);
	cancel_let(was);
}

char *dump_read(const struct host_said *s, int *error, size_t *len)
{
	const size_t head = sizeof(int32_t), n = s->len - head;
	int32_t said;
	char *text;

	*error = -EPROTO;
	if (msg_read(s->msg, 0, &said, head))
		return NULL;
	*error = said ? said : -ENOMEM;
	text = said ? NULL : malloc(n + 1);
	if (!text)
		return NULL;
	*error = msg_read(s->msg, head, text, n);
	if (*error) {
		free(text);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
			text[i] = '?';
	text[n] = '\0';
	*len = n;
	return text;
}
