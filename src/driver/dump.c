/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - see dump.h: asking for a dump, and answering. */
#include "driver/dump.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/cancel.h"
#include "verbs/core.h"

enum { PAUSE_NS = 50000 }; /* until objects that were locked are looked at again */

static bool is_writing(const struct dumper *d)
{
	return d->text.out;
}

/* Ends the dump in progress. */
static void end_dump(struct dumper *d)
{
	if (d->text.out)
		fclose(d->text.out);
	free(d->memory);
	d->text.out = NULL;
	d->memory = NULL;
}

/* Begins a dump for all who wait. Returns 0 or -errno. */
static int begin_dump(struct dumper *d, uint64_t now)
{
	FILE *out = open_memstream(&d->memory, &d->len);
	uint32_t kinds = 0;

	if (!out)
		return -ENOMEM;
	for (unsigned i = 0; i < d->askers; i++) {
		d->asker[i].served = true;
		kinds |= d->asker[i].kinds;
	}
	dump_begin(&d->text, d->core, d->cm, kinds, out);
	source_set(&d->source, now);
	return 0;
}

/* Tells those whom the dump serves, or all, and forgets them. */
static void tell_waiting(struct dumper *d, bool all, int error)
{
	unsigned left = 0;

	for (unsigned i = 0; i < d->askers; i++) {
		if (all || d->asker[i].served)
			asker_tell(&d->asker[i].by, error, d->memory, error ? 0 : d->len);
		else
			d->asker[left++] = d->asker[i];
	}
	d->askers = left;
}

/* The dump is complete: sends it to those that it serves, and begins one for the others.
 */
static void answer_waiting(struct dumper *d, uint64_t now)
{
	bool whole = !ferror(d->text.out);
	int rc;

	whole &= !fclose(d->text.out);
	d->text.out = NULL;
	tell_waiting(d, false, whole ? 0 : -ENOMEM);
	end_dump(d);
	rc = d->askers ? begin_dump(d, now) : 0;
	if (rc)
		tell_waiting(d, true, rc);
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
	/* A piece in each turn, which takes input in, too, and is given in between.
	 * Pauses made a dump of many queue pairs twice as long. */
	if (dump_go_on(&d->text))
		source_set(s, d->text.again ? now + PAUSE_NS : now);
	else
		answer_waiting(d, now);
	cancel_let(was);
}

/* Drops the dump in a forked child, which nobody asked. */
static void forked(struct source *s)
{
	dumper_fini(dumper_of(s));
}

static const struct source_ops ops = {
	.run = run,
	.forked = forked,
};

void dumper_init(struct dumper *d, struct core *core, struct cm *cm)
{
	*d = (struct dumper){ .core = core, .cm = cm };
	source_init(&d->source, &ops);
}

void dumper_fini(struct dumper *d)
{
	end_dump(d);
	d->askers = 0;
}

/* --- asked ------------------------------------------------------------------- */

static struct dump_asker *place_for(struct dumper *d, const struct asker *by)
{
	for (unsigned i = 0; i < d->askers; i++)
		if (d->asker[i].by.slot == by->slot)
			return &d->asker[i];
	return d->askers < DUMP_ASKERS ? &d->asker[d->askers++] : NULL;
}

int dump_ask(struct dumper *d, const struct asker *by, uint32_t kinds, uint64_t now)
{
	struct dump_asker *a = place_for(d, by);
	int rc;

	if (!a)
		return -EBUSY;
	*a = (struct dump_asker){ .by = *by, .kinds = kinds };
	rc = is_writing(d) ? 0 : begin_dump(d, now);
	if (rc)
		d->askers = 0; /* it is alone */
	return rc;
}
