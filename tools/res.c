/* SPDX-License-Identifier: BSD-2-Clause */
/* res.c - urnic res: the objects of running processes, a line each, as rdma-resource(8)
 * of iproute2 lists them. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "objects.h"
#include "options.h"
#include "seen.h"
#include "show.h"
#include "urnic.h"

enum { NAMES = 14, ARRAYS = 2 };

static const struct kind {
	const char *name;
	uint32_t asked;		   /* 1 << enum dump_kind */
	const char *array[ARRAYS]; /* of a dump as JSON */
	const char *value[NAMES];  /* what a line has; none: all */
} kinds[] = {
	{ "qp",
	  1u << DUMP_QP,
	  { "qp" },
	  { "number", "type", "state", "device", "by", "peer_qp", "peer", "sends",
	    "receives", "pd", "send_cq", "receive_cq", "srq", "lock" } },
	{ "cq", 1u << DUMP_CQ, { "cq" }, { NULL } },
	{ "mr", 1u << DUMP_MR, { "mr" }, { "key", "length", "address", "access", "pd" } },
	{ "pd", 1u << DUMP_PD, { "pd" }, { NULL } },
	{ "cm_id", 1u << DUMP_CM, { "listener", "connection" }, { NULL } },
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

struct res {
	const struct kind *kind; /* NULL: the numbers of all */
	pid_t pid;
	bool json, details, wants_pid;
};

/* --- lines ---------------------------------------------------------------------- */

static void print_value(const char *name, const json_t *value)
{
	if (json_is_integer(value))
		printf(" %s %lld", name, (long long)json_integer_value(value));
	else if (json_is_string(value))
		printf(" %s %s", name, json_string_value(value));
}

static void print_object(const struct res *r, json_t *object,
			 const struct seen_process *p)
{
	const char *name;
	json_t *value;

	fputs(r->kind->name, stdout);
	if (r->details || !r->kind->value[0])
		json_object_foreach(object, name, value) print_value(name, value);
	else
		for (int i = 0; i < NAMES && r->kind->value[i]; i++)
			print_value(r->kind->value[i],
				    json_object_get(object, r->kind->value[i]));
	printf(" pid %d comm %s\n", (int)p->pid, p->name);
}

/* Those of the process that the arguments ask for, into the array `into'; NULL: lines. */
static void list_objects(const struct res *r, json_t *dump, const struct seen_process *p,
			 json_t *into)
{
	json_t *object;
	size_t k;

	for (int i = 0; i < ARRAYS && r->kind->array[i]; i++)
		json_array_foreach(json_object_get(dump, r->kind->array[i]), k, object)
		{
			if (!into) {
				print_object(r, object, p);
				continue;
			}
			json_object_set_new(object, "pid", json_integer(p->pid));
			json_object_set_new(object, "comm", json_string(p->name));
			json_array_append(into, object);
		}
}

static size_t count_objects(const json_t *dump, const struct kind *kind)
{
	size_t n = 0;

	for (int i = 0; i < ARRAYS && kind->array[i]; i++)
		n += json_array_size(json_object_get(dump, kind->array[i]));
	return n;
}

static void sum_up(const json_t *dump, const struct seen_process *p, json_t *into)
{
	json_t *row = json_object();

	json_object_set_new(row, "pid", json_integer(p->pid));
	json_object_set_new(row, "comm", json_string(p->name));
	for (int i = 0; i < KINDS; i++)
		json_object_set_new(row, kinds[i].name,
				    json_integer(
					    (json_int_t)count_objects(dump, &kinds[i])));
	if (into) {
		json_array_append_new(into, row);
		return;
	}
	printf("pid %d comm %s:", (int)p->pid, p->name);
	for (int i = 0; i < KINDS; i++)
		print_value(kinds[i].name, json_object_get(row, kinds[i].name));
	putchar('\n');
	json_decref(row);
}

/* --- processes -------------------------------------------------------------------- */

/* Prints what a process has answered. Returns the exit status. */
static int show_answer(struct ask *a, const struct res *r, struct ask_question *q,
		       json_t *into)
{
	struct seen_process p = { .pid = q->to.pid };
	json_t *dump;

	if (ask_report(a, q))
		return 1;
	ask_as_text(q);
	dump = objects_of(q->bytes ? q->bytes : (char[]){ "" });
	ask_name(q->to.pid, p.name);
	if (r->kind)
		list_objects(r, dump, &p, into);
	else
		sum_up(dump, &p, into);
	json_decref(dump);
	return 0;
}

/* Asks those of this user at once, so that one that is stopped delays nobody. */
static int show_processes(struct ask *a, const struct res *r,
			  const struct ask_process *list, size_t n, json_t *into)
{
	const struct ask_dump what = { .kinds = r->kind ? r->kind->asked : UINT32_MAX };
	struct ask_question *q = calloc(n ? n : 1, sizeof(*q));
	size_t ours = 0;
	int rc = q ? 0 : 1;

	for (size_t i = 0; q && i < n; i++)
		if (list[i].ours)
			q[ours++] = (struct ask_question){ .to = list[i],
							   .kind = ASK_DUMP,
							   .what = &what,
							   .size = sizeof(what) };
		else
			fprintf(stderr,
				"urnic res: process %d opened its device as user %u, and "
				"answers that user only\n",
				(int)list[i].pid, (unsigned)list[i].uid);
	ask_all(a, q, ours, ASK_PATIENCE_MS);
	for (size_t i = 0; i < ours; i++) {
		rc |= show_answer(a, r, &q[i], into);
		ask_close_question(&q[i]);
	}
	free(q);
	return rc;
}

static int show_all(struct ask *a, const struct res *r, json_t *into)
{
	struct ask_process *list;
	size_t n = ask_list(a, &list);
	int rc = show_processes(a, r, list, n, into);

	if (!n && !r->json)
		puts("no process has a device open in this network namespace");
	free(list);
	return rc;
}

static int show_one(struct ask *a, const struct res *r, json_t *into)
{
	struct ask_process to;

	return ask_locate(a, r->pid, &to) || show_processes(a, r, &to, 1, into);
}

/* --- arguments -----------------------------------------------------------------------
 */

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ "details", 'd', NULL, 0, "show all that is known of each object", 0 },
	{ 0 },
};

static void take_word(struct res *r, const char *word, struct argp_state *state)
{
	if (r->wants_pid) {
		r->pid = ask_pid_of(word);
		if (!r->pid)
			argp_error(state, "'%s' is no process id", word);
		r->wants_pid = false;
		return;
	}
	if (!strcmp(word, "pid") && !r->pid) {
		r->wants_pid = true;
		return;
	}
	if (!strcmp(word, "show") && state->arg_num == 0)
		return;
	for (int i = 0; i < KINDS; i++)
		if (!r->kind && !strcmp(word, kinds[i].name)) {
			r->kind = &kinds[i];
			return;
		}
	argp_error(state, "'%s' is none of show, qp, cq, mr, pd, cm_id, pid PID", word);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct res *r = state->input;

	switch (key) {
	case 'j':
		r->json = true;
		return 0;
	case 'd':
		r->details = true;
		return 0;
	case ARGP_KEY_ARG:
		take_word(r, arg, state);
		return 0;
	case ARGP_KEY_END:
		if (r->wants_pid)
			argp_error(state, "no process is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_res(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "[show] [qp|cq|mr|pd|cm_id] [pid PID]",
		.doc = "List the objects of running processes, a line each; without a kind,"
		       " how many each process has.\vOnly a process's own user can ask.",
	};
	struct res r = { .pid = 0 };
	json_t *into;
	struct ask *a;
	int rc;

	options_parse(&argp, argc, argv, 0, &r);
	a = ask_open("urnic res");
	if (!a)
		return 1;
	into = r.json ? json_array() : NULL;
	rc = r.pid ? show_one(a, &r, into) : show_all(a, &r, into);
	if (into)
		show_json(into);
	ask_close(a);
	return rc;
}
