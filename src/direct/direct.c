/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.c - what this process exports, and the list of peers it knows. */
#include "direct/direct.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "direct/map.h"
#include "direct/words.h"
#include "verbs/core.h"
#include "verbs/exports.h"

enum {
	PATIENCE_MS = 250, /* a copy takes microseconds */
	GIVE_UP_MS = 1000,
};

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

/* --- this process -------------------------------------------------------- */

struct room_key direct_key;

static bool begin_life(struct export_life *l)
{
	l->at = (uintptr_t)l;
	return getrandom(l->id, sizeof(l->id), GRND_NONBLOCK) == sizeof(l->id);
}

/* Without an export table nothing is direct. */
static void open_exports(struct direct *d)
{
	struct exports *b;
	int fd = fd_memory("urnic-exports", sizeof(*b));

	if (fd < 0)
		return;
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (b == MAP_FAILED)
		goto fail;
	if (!begin_life(&b->life) ||
	    fcntl(fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		munmap(b, sizeof(*b));
		goto fail;
	}
	madvise(b, sizeof(*b), MADV_DONTFORK);
	d->exports_fd = fd;
	d->core->exports = b;
	words_begin(b);
	d->core->region.wait = gate_wait_key;
	return;
fail:
	close(fd);
}

int direct_open(struct core *core, bool exports)
{
	struct direct *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->core = core;
	d->patience_ns = PATIENCE_MS * 1000000ull;
	d->give_up_ns = GIVE_UP_MS * 1000000ull;
	d->exports_fd = -1;
	list_init(&d->reaches);
	list_init(&d->left);
	room_put(core, &direct_key, d);
	if (exports)
		open_exports(d);
	return 0;
}

void direct_close(struct core *core)
{
	struct direct *d = direct_of(core);

	maps_fini(d);
	if (core->exports)
		munmap(core->exports, sizeof(*core->exports));
	core->exports = NULL;
	if (d->exports_fd >= 0)
		close(d->exports_fd);
	free(d);
	room_put(core, &direct_key, NULL);
}

void direct_forked(struct core *core)
{
	struct direct *d = direct_of(core);

	if (d->exports_fd >= 0)
		close(d->exports_fd);
	d->exports_fd = -1;
	core->exports = NULL;
	maps_left_forked(d);
	words_forked();
}

/* --- peers --------------------------------------------------------------- */

void reach_init(struct reach *r, struct direct *d, uint16_t slot)
{
	*r = (struct reach){ .d = d, .number = ++d->made, .slot = slot, .gate.fd = -1 };
	maps_changed(r);
	list_add_tail(&d->reaches, &r->node);
	unseen_add(&r->gate.unseen);
}

void reach_close(struct reach *r)
{
	list_del(&r->node);
	unseen_del(&r->gate.unseen);
	reach_part(r);
	if (r->exports)
		munmap((void *)(uintptr_t)r->exports, sizeof(*r->exports));
	r->exports = NULL;
	r->told = r->lent = false;
	r->inside = r->theirs = NULL;
	gate_close(&r->gate);
}

/* The peer's mappings were not inherited by the fork: do not touch or unmap those
 * addresses, since something else may lie there. */
void reach_forked(struct reach *r)
{
	unseen_forked();
	r->told = r->lent = false;
	r->inside = r->theirs = NULL;
	gate_forked(&r->gate);
	maps_forked(r);
	r->exports = NULL;
	r->vm = false;
}
