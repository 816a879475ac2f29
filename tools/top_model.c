/* SPDX-License-Identifier: BSD-2-Clause */
/* top_model.c - see top_model.h: rates, and the order of rows. */
#include "top_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const top_keys[TOP_KEYS] = {
	[TOP_RATE] = "requests", [TOP_BYTES] = "bytes", [TOP_AGAIN] = "sent again",
	[TOP_RNR] = "RNR",	 [TOP_DEPTH] = "depth", [TOP_PID] = "process",
	[TOP_QP] = "QP",
};

/* --- two looks ---------------------------------------------------------------- */

static int by_place(const struct seen_qp *a, const struct seen_qp *b)
{
	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return strcmp(a->number, b->number);
}

static int by_place_at(const void *left, const void *right)
{
	const struct seen_qp *const *a = left, *const *b = right;

	return by_place(*a, *b);
}

/* The QPs of a look, sorted, so that many are found soon; NULL: none, or no memory. */
static const struct seen_qp **sort(const struct seen *l)
{
	const struct seen_qp **all = l && l->qps ? calloc(l->qps, sizeof(*all)) : NULL;

	if (!all)
		return NULL;
	for (size_t i = 0; i < l->qps; i++)
		all[i] = &l->qp[i];
	qsort(all, l->qps, sizeof(*all), by_place_at);
	return all;
}

static const struct seen_qp *find_before(const struct seen_qp **all, const struct seen *l,
					 const struct seen_qp *q)
{
	const struct seen_qp **at =
		all ? bsearch(&q, all, l->qps, sizeof(*all), by_place_at) : NULL;

	return at ? *at : NULL;
}

/* --- rates ------------------------------------------------------------------- */

/* Has the QP of this number been there before? Numbers are used again. */
static bool goes_on(const struct seen_qp *q, const struct seen_qp *was)
{
	if (!was || was->busy || q->busy)
		return false;
	for (int i = 0; i < SEEN_NUMBERS; i++)
		if (seen_names[i].counter && q->n[i] < was->n[i])
			return false;
	return true;
}

static void set_rates(struct top_row *r, const struct seen_qp *was, double s)
{
	const struct seen_qp *q = r->qp;

	r->fresh = s <= 0 || !goes_on(q, was);
	for (int i = 0; i < SEEN_NUMBERS && !r->fresh; i++)
		if (seen_names[i].counter)
			r->per_s[i] = (double)(q->n[i] - was->n[i]) / s;
	r->rate = r->per_s[SEEN_COMPLETED] + r->per_s[SEEN_RECEIVED];
	r->bytes = r->per_s[SEEN_SENT_BYTES] + r->per_s[SEEN_CAME_BYTES] +
		   r->per_s[SEEN_MAPPED_BYTES] + r->per_s[SEEN_COPIED_BYTES];
	r->again = r->per_s[SEEN_SENT_AGAIN];
	r->rnr = r->per_s[SEEN_RNR_IN] + r->per_s[SEEN_RNR_OUT];
}

/* --- which rows ---------------------------------------------------------------- */

static const struct seen_process *process_of(const struct seen *l, pid_t pid)
{
	for (size_t i = 0; i < l->processes; i++)
		if (l->process[i].pid == pid)
			return &l->process[i];
	return NULL;
}

static bool is_wanted(const struct top_row *r, const char *filter)
{
	const struct seen_qp *q = r->qp;
	char pid[16];
	const char *words[] = {
		pid,	  q->number,  q->type,
		q->state, q->by,      q->device,
		q->peer,  q->peer_qp, r->process ? r->process->name : ""
	};

	snprintf(pid, sizeof(pid), "%d", (int)q->pid);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcasestr(words[i], filter))
			return true;
	return false;
}

/* --- in which order ------------------------------------------------------------ */

static double value_of(const struct top_row *r, enum top_key key)
{
	switch (key) {
	case TOP_RATE:
		return r->rate;
	case TOP_BYTES:
		return r->bytes;
	case TOP_AGAIN:
		return r->again;
	case TOP_RNR:
		return r->rnr;
	case TOP_DEPTH:
		return (double)r->qp->n[SEEN_SENDS];
	case TOP_PID: /* the smallest first */
		return -(double)r->qp->pid;
	case TOP_QP:
	case TOP_KEYS:
		break;
	}
	return 0;
}

/* Equal rows stand in the order of process and number, so that they keep their places. */
static int compare_rows(const void *left, const void *right, void *arg)
{
	const struct top_view *v = arg;
	const struct top_row *a = left, *b = right;
	const double x = value_of(a, v->key), y = value_of(b, v->key);
	int order = x != y	       ? (x > y ? -1 : 1)
		    : v->key == TOP_QP ? strcmp(a->qp->number, b->qp->number)
				       : 0;

	return order ? (v->reverse ? -order : order) : by_place(a->qp, b->qp);
}

size_t top_rows(const struct seen *now, const struct seen *before,
		const struct top_view *view, struct top_row **rows)
{
	struct top_row *all = calloc(now->qps ? now->qps : 1, sizeof(*all));
	const struct seen_qp **were = sort(before);
	const double s = before ? (double)(now->at - before->at) / 1e9 : 0;
	size_t n = 0;

	for (size_t i = 0; all && i < now->qps; i++) {
		const struct seen_qp *q = &now->qp[i];
		struct top_row r = { .qp = q, .process = process_of(now, q->pid) };

		if (*view->filter && !is_wanted(&r, view->filter))
			continue;
		set_rates(&r, find_before(were, before, q), s);
		all[n++] = r;
	}
	free(were);
	if (all)
		qsort_r(all, n, sizeof(*all), compare_rows, (void *)(uintptr_t)view);
	*rows = all;
	return n;
}
