/* SPDX-License-Identifier: BSD-2-Clause */
/* between.c - requests of different processes that meet in this process's memory, and
 * that nothing can have ordered: one-sided-race (docs/dev/races.md, "Between processes").
 */
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "check/parts.h"
#include "sys/log.h"

enum {
	KEPT = 4096,	  /* accesses, the latest */
	MARGIN_NS = 1000, /* clocks of two processors may differ, by much less */
};

/* An access, and when it was about to be executed */
struct done {
	struct check_access a;
	uint64_t at;
};

/* Under the turn, which the NIC of this process has one of; a lock for the time after a
 * device was closed and another one opened. */
static struct lock lock;
static struct done kept[KEPT] GUARDED_BY(lock); /* a ring */
static uint64_t head GUARDED_BY(lock);		/* free-running */

/* --- the clock ---------------------------------------------------------------- */

bool check_clock_is_shifted(void)
{
	FILE *f = fopen("/proc/self/timens_offsets", "re");
	char line[128];
	bool shifted = false;

	while (f && fgets(line, sizeof(line), f))
		shifted |= !strncmp(line, "monotonic", 9) && strpbrk(line, "123456789");
	if (f)
		fclose(f);
	return shifted;
}

static void start(void)
{
	checks_time = !check_clock_is_shifted();
	if (!checks_time)
		log_info("checks: this process is in a time namespace, so it takes no "
			 "part in finding races between processes");
}

/* --- what meets ---------------------------------------------------------------- */

static bool is_access(int how)
{
	return how == IBV_ACCESS_REMOTE_WRITE || how == IBV_ACCESS_REMOTE_READ ||
	       how == IBV_ACCESS_REMOTE_ATOMIC;
}

static const char *name_of(int how)
{
	return how == IBV_ACCESS_REMOTE_WRITE  ? "WRITE"
	       : how == IBV_ACCESS_REMOTE_READ ? "READ"
					       : "atomic";
}

static bool accesses_overlap(const struct check_access *a, const struct check_access *b)
{
	const uintptr_t at = (uintptr_t)a->host, bt = (uintptr_t)b->host;

	return at < bt ? bt - at < a->len : at - bt < b->len;
}

/* The upper 10 of 24 bits are the process, where the peer has urnic. */
static uint32_t process_of(uint32_t qpn)
{
	return qpn >> 14;
}

/* Atomics meet neither each other nor READs.  What requests of one process do is seen
 * there: onesided.c. */
static bool conflict(const struct check_access *a, const struct check_access *b)
{
	return (a->how == IBV_ACCESS_REMOTE_WRITE || b->how == IBV_ACCESS_REMOTE_WRITE) &&
	       process_of(a->qpn) != process_of(b->qpn) && accesses_overlap(a, b);
}

/* The latest access that b meets: it was not executed when b was posted already, so
 * nobody can have known of it who has posted b. */
static bool find_met(const struct check_access *b, struct done *out) REQUIRES(lock)
{
	for (uint64_t n = 1; n <= head && n <= KEPT; n++) {
		const struct done *d = &kept[(head - n) % KEPT];

		if (d->at <= b->posted || d->at - b->posted <= MARGIN_NS)
			return false;
		if (conflict(&d->a, b)) {
			*out = *d;
			return true;
		}
	}
	return false;
}

static void say_race(const struct check_access *b, const struct done *d)
{
	const struct check_mr *mr = check_mr_of_key(b->rkey);

	check_report_made(
		CHECK_ONE_SIDED_RACE, mr ? &mr->o : NULL, NULL, 0,
		"the %s of QP 0x%06x, process %d, of %llu bytes at 0x%llx (rkey "
		"0x%08x) meets the %s of QP 0x%06x, process %d, of %llu bytes at "
		"0x%llx, which was executed %.3f ms after the first was posted: "
		"nothing orders the two",
		name_of(b->how), b->qpn, (int)b->pid, (unsigned long long)b->len,
		(unsigned long long)b->va, b->rkey, name_of(d->a.how), d->a.qpn,
		(int)d->a.pid, (unsigned long long)d->a.len, (unsigned long long)d->a.va,
		(double)(d->at - b->posted) / 1e6);
}

static void reaches(const struct check_access *a)
{
	struct done met = { 0 };
	bool found;

	if (!is_access(a->how))
		return;
	lock_take(&lock);
	found = a->posted && find_met(a, &met);
	kept[head++ % KEPT] = (struct done){ *a, check_now() };
	lock_give(&lock);
	if (found)
		say_race(a, &met);
}

const struct check_part between_part = {
	.name = "between",
	.first = CHECK_ONE_SIDED_RACE,
	.last = CHECK_ONE_SIDED_RACE,
	.start = start,
	.reaches = reaches,
};
