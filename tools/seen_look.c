/* SPDX-License-Identifier: BSD-2-Clause */
/* seen_look.c - asks processes for their QPs: see seen.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "host/name.h"
#include "seen.h"
#include "sys/clock.h"

enum { LIST_NS = 1000000000, PATIENCE_MS = 1000, AWAKE_MS = 50 };

struct seen_watch {
	struct ask *a;
	pid_t pid;
	struct ask_process *list;
	size_t n;
	uint64_t listed_at;
	bool silent[SLOT_LAST + 1]; /* slots that gave no answer at the last look */
};

static const struct ask_dump qps_only = { .kinds = 1u << DUMP_QP };
static const struct ask_dump nothing = { .kinds = 0 };

struct seen_watch *seen_watch_open(struct ask *a, pid_t pid)
{
	struct seen_watch *w = calloc(1, sizeof(*w));

	if (w) {
		w->a = a;
		w->pid = pid;
	}
	return w;
}

void seen_watch_close(struct seen_watch *w)
{
	if (!w)
		return;
	free(w->list);
	free(w);
}

/* One process that the caller has named stays the same one. */
static void list(struct seen_watch *w, uint64_t now)
{
	if (w->pid || (w->list && now - w->listed_at < LIST_NS))
		return;
	free(w->list);
	w->n = ask_list(w->a, &w->list);
	w->listed_at = now;
}

static struct seen_process process_of(const struct ask_process *p)
{
	struct seen_process out = { .slot = p->slot,
				    .pid = p->pid,
				    .uid = p->uid,
				    .ours = p->ours,
				    .error = p->ours ? 0 : -EACCES };

	if (p->pid)
		ask_name(p->pid, out.name);
	return out;
}

/* Do those answer again that gave no answer at the last look? So the looks at a process
 * that is stopped wait long only once. */
static void try_silent(struct seen_watch *w, struct ask_question *q)
{
	size_t n = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->list[i].ours && w->silent[w->list[i].slot])
			q[n++] = (struct ask_question){ .to = w->list[i],
							.kind = ASK_DUMP,
							.what = &nothing,
							.size = sizeof(nothing) };
	ask_all(w->a, q, n, AWAKE_MS);
	for (size_t i = 0; i < n; i++) {
		w->silent[q[i].to.slot] = q[i].error == -ETIMEDOUT;
		ask_close_question(&q[i]);
	}
}

/* Asks the processes of the list that answer this user. */
static int ask_them(struct seen_watch *w, struct seen *out)
{
	struct ask_question *q = calloc(w->n ? w->n : 1, sizeof(*q));
	size_t *whose = calloc(w->n ? w->n : 1, sizeof(*whose));
	size_t asked = 0;
	int rc = q && whose ? 0 : -ENOMEM;

	if (!rc)
		try_silent(w, q);
	for (size_t i = 0; !rc && i < w->n; i++) {
		out->process[i] = process_of(&w->list[i]);
		if (!w->list[i].ours)
			continue;
		if (w->silent[w->list[i].slot]) {
			out->process[i].error = -ETIMEDOUT;
			continue;
		}
		whose[asked] = i;
		q[asked++] = (struct ask_question){ .to = w->list[i],
						    .kind = ASK_DUMP,
						    .what = &qps_only,
						    .size = sizeof(qps_only) };
	}
	out->processes = rc ? 0 : w->n;
	if (!rc)
		ask_all(w->a, q, asked, PATIENCE_MS);
	for (size_t i = 0; i < asked; i++) {
		out->process[whose[i]].error = q[i].error;
		w->silent[q[i].to.slot] = q[i].error == -ETIMEDOUT;
		ask_as_text(&q[i]);
		if (!rc && !q[i].error && q[i].bytes)
			rc = seen_parse(out, q[i].to.pid, q[i].bytes);
		ask_close_question(&q[i]);
	}
	free(whose);
	free(q);
	return rc;
}

static int look_at_all(struct seen_watch *w, struct seen *out)
{
	out->at = clock_ns();
	list(w, out->at);
	out->process = calloc(w->n ? w->n : 1, sizeof(*out->process));
	return out->process ? ask_them(w, out) : -ENOMEM;
}

static int look_at_one(struct seen_watch *w, struct seen *out)
{
	struct ask_question q = { .kind = ASK_DUMP,
				  .what = &qps_only,
				  .size = sizeof(qps_only) };
	int rc;

	if (w->list)
		return look_at_all(w, out);
	rc = ask_pid(w->a, w->pid, &q);
	ask_close_question(&q);
	w->list = rc ? NULL : malloc(sizeof(*w->list));
	if (rc || !w->list)
		return rc ? 1 : -ENOMEM;
	*w->list = q.to;
	w->n = 1;
	return look_at_all(w, out);
}

int seen_look(struct seen_watch *w, struct seen *out)
{
	int rc;

	*out = (struct seen){ .at = 0 };
	rc = w->pid ? look_at_one(w, out) : look_at_all(w, out);
	if (rc)
		seen_free(out);
	return rc;
}
