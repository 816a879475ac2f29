/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_list.c - urnic fabric, and urnic fabric status -a: list the running fabrics. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/port/plug.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "fabric_links.h"
#include "show.h"

struct listing {
	bool json;
	unsigned n;
	json_t *all;
};

static void print_fabric(const char *fabric, pid_t pid, const json_t *j, int rc)
{
	if (!j) {
		printf("%-20s %8d  %s\n", fabric, (int)pid, fabric_why(rc));
		return;
	}
	printf("%-20s %8d %8lld %8lld %6lld %6lld %8lld\n", fabric, (int)pid,
	       json_number(j, "switches"), json_number(j, "adapters"),
	       json_number(j, "links"), json_number(j, "active"),
	       json_number(j, "programs"));
}

/* Prints one fabric.  Another user's is left out: it answers only that user and root. */
static void row(void *ctx, const char *fabric)
{
	struct listing *l = ctx;
	pid_t pid;
	int rc;
	json_t *j = control_try(fabric, json_pack("{ss}", "ask", "summary"), &pid, &rc);

	if (j && json_object_get(j, "error")) {
		json_decref(j);
		j = NULL;
		rc = -EPROTO;
	}
	if (!j && (rc == -EACCES || rc == -ENOENT || (rc == -EIO && strchr(fabric, ':'))))
		return;
	if (!l->n++ && !l->json)
		printf("%-20s %8s %8s %8s %6s %6s %8s\n", "fabric", "PID", "switches",
		       "adapters", "links", "active", "programs");
	if (!l->json) {
		print_fabric(fabric, pid, j, rc);
		json_decref(j);
		return;
	}
	if (!j)
		j = json_pack("{ss}", "error", fabric_why(rc));
	json_object_set_new(j, "fabric", json_string(fabric));
	json_object_set_new(j, "pid", json_integer(pid));
	json_array_append_new(l->all, j);
}

int fabric_list(const char *who, bool json)
{
	struct listing l = { .json = json, .all = json_array() };

	plug_each_running(row, &l);
	if (json) {
		json_t *out = json_pack("{sO}", "fabrics", l.all);

		show_json(out);
	} else if (!l.n) {
		fprintf(stderr,
			"%s: no fabric runs here; start one, such as `urnic fabric run"
			" star:2'\n",
			who);
	}
	json_decref(l.all);
	return fflush(stdout) || !l.n ? 1 : 0;
}

struct sought {
	const char *name;
	bool found;
};

static void compare_fabric(void *ctx, const char *fabric)
{
	struct sought *s = ctx;

	s->found |= strcmp(fabric, s->name) == 0;
}

bool fabric_runs(const char *name)
{
	struct sought s = { name, false };

	plug_each_running(compare_fabric, &s);
	return s.found;
}
