/* SPDX-License-Identifier: BSD-2-Clause */
/* retake.c - makes file pages private again while regions contain them and other
 * processes may be using them (share.h). */
#include <string.h>
#include <unistd.h>

#include "direct/direct.h"
#include "direct/share.h"
#include "direct/share_own.h"
#include "direct/words.h"
#include "sys/guard.h"
#include "sys/inside.h"
#include "sys/log.h"
#include "sys/procmaps.h"
#include "verbs/exports.h"
#include "verbs/mr.h"

/* --- from processes that do not leave --------------------------------------- */

/* Returns the run that contains all that others have mapped of the region; RUNS: none. */
static unsigned find_run(struct core *core, uint32_t key, const struct mkey *mk)
{
	struct extent e = { 0, 0 };
	struct fd_id id = { 0 };
	unsigned i;

	turn_take(&core->turn);
	if (!mk)
		mk = mkey_find(&core->mkeys, key);
	if (mk && !mk->lent_more) {
		id = mk->lent;
		e = extent_of(mk);
	}
	turn_give(&core->turn);
	for (i = 0; i < runs_count(); i++)
		if (id.ino && fd_same(&runs_at(i)->id, &id) && runs_has(i, &e))
			return i;
	return RUNS;
}

/* Where the pages are now; the program may have moved them. */
struct places {
	unsigned n;
	bool marked; /* SWAP_MARKED */
	struct extent at[PIECES];
};

/* Finds the pages. False: they are in too many places, or must not move. */
static bool find_places(const struct core *core, const struct swap_run *run,
			struct places *p)
{
	struct procmap m;
	struct procmaps maps;
	bool good;

	p->n = 0;
	p->marked = false;
	procmaps_open_flags(&maps);
	good = maps.fd >= 0;
	while (good && procmaps_next(&maps, &m)) {
		struct extent is = { m.lo, m.hi };

		if (!swap_has(run, &m))
			continue;
		good = p->n < PIECES && share_is_the_programs(core, &is) &&
		       movable_is_revertible(&maps, &p->marked);
		if (good)
			p->at[p->n++] = is;
	}
	procmaps_close(&maps);
	return good;
}

static bool may_go_back(const struct core *core, unsigned run, struct places *p,
			unsigned *how)
{
	struct respite *tried = &share.tried[run].take;
	uint64_t since = clock_ns();

	if (runs_at(run)->edged || !respite_is_over(tried))
		return false;
	*how = movable_may_be_pinned() ? SWAP_PINNED : 0;
	if ((!*how || swap_shows_pins(runs_at(run))) &&
	    find_places(core, runs_at(run), p)) {
		*how = (p->n ? *how : 0) | (p->marked ? SWAP_MARKED : 0);
		return true;
	}
	respite_begin(tried, since);
	return false;
}

static bool has_part(const struct places *p, const struct extent *e)
{
	for (unsigned i = 0; i < p->n; i++)
		if (extents_meet(&p->at[i], e))
			return true;
	return false;
}

/* Takes every region that has a part of these pages, at their old or new address, out
 * of the export table, so that no process begins to touch them. */
static bool take_down(struct core *core, const struct swap_run *run,
		      const struct places *p, unsigned *n)
{
	const struct extent was = extent_of_run(run);

	*n = 0;
	turn_take(&core->turn);
	for (unsigned i = 0; i < EXPORT_MRS && *n < REGIONS; i++) {
		uint32_t key = core->exports->mr[i].key;
		const struct mkey *mk = key ? mkey_find(&core->mkeys, key) : NULL;
		struct extent e;

		if (!mk)
			continue;
		e = extent_of(mk);
		if (!extents_meet(&e, &was) && !has_part(p, &e) &&
		    !fd_same(&mk->lent, &run->id))
			continue;
		exports_del_mr(core, key);
		share.key[(*n)++] = key;
	}
	turn_give(&core->turn);
	return *n < REGIONS;
}

static void put_up(struct core *core, unsigned n)
{
	turn_take(&core->turn);
	for (unsigned i = 0; i < n; i++) {
		const struct mkey *mk = mkey_find(&core->mkeys, share.key[i]);

		if (mk)
			exports_put_mr(core, mk);
	}
	turn_give(&core->turn);
}

/* Waits until processes inside these regions have left, except the threads `gone`,
 * which do not leave. key: of a region that has ended, or 0. */
static bool are_out(struct core *core, uint32_t key, unsigned n,
		    const struct insiders *gone)
{
	if (key && gate_wait_others(core, key, gone))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (share.key[i] != key && gate_wait_others(core, share.key[i], gone))
			return false;
	return true;
}

static void are_harmless(struct core *core, uint32_t key, unsigned n)
{
	if (key)
		gate_is_harmless(core, key);
	for (unsigned i = 0; i < n; i++)
		gate_is_harmless(core, share.key[i]);
}

static bool take_back(struct core *core, uint32_t key, unsigned run,
		      const struct insiders *gone)
{
	struct places places;
	unsigned n, how;
	bool good;

	if (!movable_is_only_thread() || !may_go_back(core, run, &places, &how))
		return false;
	if (!core || !core->exports)
		return share_run_in(core, run, how);
	good = take_down(core, runs_at(run), &places, &n) && are_out(core, key, n, gone);
	if (good) {
		atomic_fetch_add(&core->exports->torn, 1);
		words_barrier();
		good = share_run_in(core, run, how);
	}
	if (good)
		are_harmless(core, key, n);
	put_up(core, n);
	return good;
}

bool share_take_back(struct core *core, uint32_t key, const struct mkey *mk,
		     const struct insiders *gone)
{
	bool good = false;
	unsigned run;

	lock_take(&share.lock);
	run = find_run(core, key, mk);
	if (run < RUNS)
		good = take_back(core, key, run, gone);
	lock_give(&share.lock);
	return good;
}

/* --- before the program can notice ---------------------------------------- */

/* The caller may be in malloc(), or have interrupted a thread that holds a lock: so locks
 * are waited for only briefly; and not at all where the turn may be the caller's own. */
enum { NAPS = 2000, NAP_NS = 50000 };

NO_TSA static bool can_have_turn(struct core *core)
{
	const unsigned tries = guard_inside() ? 1 : NAPS;

	for (unsigned i = 0; i < tries; i++) {
		if (turn_try(&core->turn)) {
			turn_give(&core->turn);
			return true;
		}
		turn_nap(NAP_NS);
	}
	return false;
}

static bool take_back_all(const struct extent *e)
{
	bool good = !share.core || can_have_turn(share.core), all = good;

	/* One that stays is no reason for others to stay. */
	for (unsigned i = runs_count(); good && i-- > 0;)
		if (runs_has(i, e))
			all &= take_back(share.core, 0, i, NULL);
	return all;
}

/* It is one of our calls (sys/inside.h), whoever makes it: a signal handler that forks
 * must not wait for share.lock. */
NO_TSA bool share_make_private(const struct extent *e)
{
	bool good = false;

	inside_begin();
	if (lock_try(&share.lock) || lock_wait_for(&share.lock, NAPS)) {
		runs_give_spare();
		good = take_back_all(e);
		runs_keep_spare();
		lock_give(&share.lock);
	}
	inside_end();
	return good;
}

void share_no_more(void)
{
	if (!atomic_exchange(&share.refused, true))
		log_info("private memory is not shared with other processes: %s",
			 "the program has called what may touch that memory unseen, "
			 "or hides which memory is a file's (clone, userfaultfd, "
			 "RTLD_DEEPBIND, chroot)");
}
