/* SPDX-License-Identifier: BSD-2-Clause */
/* seen.c - see seen.h. */
#include "seen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/mark.h"

enum { COUNTER = true, GAUGE = false };

const struct seen_name seen_names[SEEN_NUMBERS] = {
#define SEEN(value, name, kind, what) [value] = { #name, what, kind },
#include "seen.def"
#undef SEEN
};

static void set_word(struct seen_qp *q, const char *name, const char *value)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} words[] = {
		{ "number", q->number, sizeof(q->number) },
		{ "type", q->type, sizeof(q->type) },
		{ "state", q->state, sizeof(q->state) },
		{ "device", q->device, sizeof(q->device) },
		{ "by", q->by, sizeof(q->by) },
		{ "peer", q->peer, sizeof(q->peer) },
		{ "peer_qp", q->peer_qp, sizeof(q->peer_qp) },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcmp(words[i].name, name) == 0)
			snprintf(words[i].to, words[i].size, "%s", value);
	q->busy |= strcmp(name, "lock") == 0;
}

static void set_value(struct seen_qp *q, const char *name, const char *value)
{
	for (int i = 0; i < SEEN_NUMBERS; i++) {
		if (strcmp(seen_names[i].name, name) != 0)
			continue;
		q->n[i] = strtoull(value, NULL, 10);
		q->has[i] = true;
		return;
	}
	set_word(q, name, value);
}

static struct seen_qp *add_qp(struct seen *l)
{
	struct seen_qp *grown;

	if (l->qps == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		grown = reallocarray(l->qp, l->room, sizeof(*l->qp));
		if (!grown)
			return NULL;
		l->qp = grown;
	}
	memset(&l->qp[l->qps], 0, sizeof(*l->qp));
	return &l->qp[l->qps++];
}

/* An object's first line begins with its kind, the others with a space. */
int seen_parse(struct seen *l, pid_t pid, char *text)
{
	const char *name, *value;
	struct seen_qp *q = NULL;

	for (char *line; (line = strsep(&text, "\n"));) {
		if (*line != ' ')
			q = NULL;
		if (strncmp(line, "qp ", 3) == 0) {
			q = add_qp(l);
			if (!q)
				return -ENOMEM;
			q->pid = pid;
		}
		while (q && mark_next(&line, &name, &value))
			set_value(q, name, value);
	}
	return 0;
}

void seen_free(struct seen *l)
{
	free(l->process);
	free(l->qp);
	*l = (struct seen){ .at = 0 };
}
