/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor.c - urnic doctor: reports what this machine allows and forbids, what that costs,
 * and the remedy. */
#include <argp.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "probe.h"
#include "show.h"
#include "urnic.h"

static const struct check {
	const char *name;
	void (*probe)(struct finding *f);
	bool vital; /* urnic does not work without this */
} checks[] = {
	{ "configuration", probe_conf, true },
	{ "programs", probe_programs, false },
	{ "network interfaces", probe_interfaces, true },
	{ "iWARP", probe_iwarp, false },
	{ "fabric", probe_fabric, false },
	{ "UDP port, IPv4", probe_port4, true },
	{ "UDP port, IPv6", probe_port6, false },
	{ "IPv6", probe_ipv6, false },
	{ "abstract sockets", probe_names, true },
	{ "port shared by processes", probe_steering, false },
	{ "optmem_max", probe_optmem, false },
	{ "UDP GSO", probe_gso, false },
	{ "UDP GRO", probe_gro, false },
	{ "receive buffer", probe_rcvbuf, false },
	{ "send buffer", probe_sndbuf, false },
	{ "raw packets", probe_raw, false },
	{ "same host", probe_same_host, false },
	{ "memfd", probe_memfd, false },
	{ "process_vm_readv", probe_process_vm, false },
	{ "user namespaces", probe_userns, false },
	{ "network namespaces", probe_netns, false },
	{ "descriptors", probe_files, true },
	{ "memlock", probe_memlock, false },
	{ "processors", probe_cpus, false },
};
enum { CHECKS = sizeof(checks) / sizeof(checks[0]) };

static const char *const verdict_name[VERDICTS] = {
	[OK] = "ok",
	[LIMITED] = "limited",
	[MISSING] = "missing",
};

void finding(struct finding *f, enum verdict v, const char *cost, const char *todo,
	     const char *fmt, ...)
{
	va_list ap;

	f->verdict = v;
	f->cost = cost;
	f->todo = todo;
	va_start(ap, fmt);
	vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
}

long probe_number(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &n) != 1)
		n = -1;
	fclose(f);
	return n;
}

static void print_finding(const struct check *c, const struct finding *f)
{
	static const enum colour colour[] = {
		[OK] = GREEN,
		[LIMITED] = YELLOW,
		[MISSING] = RED,
	};

	printf("%s%-8s%s %-25s %s\n", show_colour(colour[f->verdict]),
	       verdict_name[f->verdict], show_colour(PLAIN), c->name, f->detail);
	if (f->verdict == OK)
		return;
	printf("%9scosts:  %s\n", "", f->cost);
	if (f->todo[0])
		printf("%9sto do:  %s\n", "", f->todo);
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp argp = {
		.options = show_options,
		.parser = show_parse,
		.doc = "Say whether the configuration is right and what this"
		       " machine allows and forbids, what that costs and what"
		       " to do about it.\vEach line is ok, limited or"
		       " missing. Exit status: 1 if something without which"
		       " urnic cannot work is missing.",
	};
	json_t *all = json_array();
	bool json = false, well = true;

	options_parse(&argp, argc, argv, 0, &json);
	for (int i = 0; i < CHECKS; i++) {
		struct finding f = { .verdict = OK, .cost = "", .todo = "" };

		checks[i].probe(&f);
		well &= f.verdict != MISSING || !checks[i].vital;
		if (!json)
			print_finding(&checks[i], &f);
		json_array_append_new(all,
				      json_pack("{ss ss ss ss ss sb}", "check",
						checks[i].name, "verdict",
						verdict_name[f.verdict], "detail",
						f.detail, "costs", f.cost, "do", f.todo,
						"vital", (int)checks[i].vital));
	}
	if (json)
		show_json(all);
	else
		json_decref(all);
	return well ? 0 : 1;
}
