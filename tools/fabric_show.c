/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_show.c - urnic fabric status and counters: print the state and the counters of a
 * running fabric, for people or, with --json, for programs. */
#include <argp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fabric_cmd.h"
#include "fabric_control.h"
#include "fabric_links.h"
#include "options.h"
#include "urnic.h"

enum { EVERY_US = 1000000 };

struct options {
	const char *name, *word[2];
	unsigned words, max;
	bool json, once, all;
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ "once", '1', NULL, 0, "show it once, on a terminal, too", 0 },
	{ 0 },
};

static const struct argp_option status_options[] = {
	{ "all", 'a', NULL, 0, "list the fabrics that run", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case 'F':
		o->name = arg;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case '1':
		o->once = true;
		return 0;
	case 'a':
		o->all = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->words == o->max)
			argp_error(state, "'%s' is one word too many", arg);
		o->word[o->words++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Standard output.  live: a terminal that is refreshed and shows only as many rows as
 * fit. */
struct page {
	bool live;
	unsigned rows, used, hidden;
};

static __attribute__((format(printf, 2, 3))) void line(struct page *p, const char *fmt,
						       ...)
{
	char text[1024];
	va_list ap;
	size_t n;

	if (p->live && p->used + 2 > p->rows) {
		p->hidden++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (n = strlen(text); n && text[n - 1] == ' '; n--)
		;
	printf("%.*s%s\n", (int)n, text, p->live ? "\033[K" : "");
	p->used++;
}

/* --- status --------------------------------------------------------------------- */

struct sum {
	unsigned links, active;
};

static void count_link(void *ctx, const struct link *l)
{
	struct sum *s = ctx;

	s->links++;
	s->active += strcmp(l->state, "active") == 0;
}

static void print_link(void *ctx, const struct link *l)
{
	char from[80], to[80], rate[40] = "";
	double gbps = json_number_value(json_object_get(l->port, "rate"));

	snprintf(from, sizeof(from), "%.70s %lld", json_text(l->node, "id"),
		 json_number(l->port, "port"));
	snprintf(to, sizeof(to), "%.70s %lld", json_text(l->port, "peer"),
		 json_number(l->port, "peer_port"));
	if (gbps > 0)
		snprintf(rate, sizeof(rate), "%g Gb/s (%s)", gbps,
			 json_text(l->port, "speed"));
	line(ctx, "%-24s %-24s %-9s%s%s", from, to, l->state, *rate ? " " : "", rate);
}

static void print_node(struct page *to, const json_t *n)
{
	const json_t *p, *ports = json_object_get(n, "ports");
	const char *address = "";
	char lids[64] = "";
	bool sm = false;
	size_t i;

	json_array_foreach(ports, i, p)
	{
		size_t at = strlen(lids);

		if (!*address)
			address = json_text(p, "address");
		sm |= json_is_true(json_object_get(p, "manager"));
		if (json_object_get(p, "lid") && at < sizeof(lids) - 8)
			snprintf(lids + at, sizeof(lids) - at, "%s%lld", at ? "," : "",
				 json_number(p, "lid"));
	}
	line(to, "%-24s %-9s %-9s %-15s %s", json_text(n, "id"), json_text(n, "type"),
	     lids, address, sm ? "subnet manager" : "");
}

/* Prints packets that wait: those that came by a port's link, and an adapter's own. */
static void print_waits(struct page *to, const json_t *node, bool *any)
{
	const json_t *p, *w, *waits;
	size_t i, k;

	json_array_foreach(json_object_get(node, "ports"), i, p)
	{
		waits = json_object_get(p, "waiting");
		json_array_foreach(waits, k, w)
		{
			char port[80];

			if (!*any) {
				line(to, "%s", "");
				line(to, "%-24s %2s %8s %9s  %s", "packets wait at", "VL",
				     "packets", "bytes", "the first for");
				*any = true;
			}
			snprintf(port, sizeof(port), "%.70s %lld", json_text(node, "id"),
				 json_number(p, "port"));
			line(to, "%-24s %2lld %8lld %9lld  %.2f s%s", port,
			     json_number(w, "vl"), json_number(w, "packets"),
			     json_number(w, "bytes"),
			     json_number_value(json_object_get(w, "seconds")),
			     json_is_true(json_object_get(w, "own")) ? ", own" : "");
		}
	}
}

static void print_status(struct page *to, const json_t *j)
{
	const json_t *nodes = json_object_get(j, "nodes"), *n;
	json_t *names = links_nodes(nodes);
	struct sum sum = { 0 };
	unsigned switches = 0, adapters;
	bool waits = false;
	size_t i;

	json_array_foreach(nodes, i, n) switches +=
		strcmp(json_text(n, "type"), "switch") == 0;
	links_each(nodes, names, count_link, &sum);
	adapters = (unsigned)json_array_size(nodes) - switches;
	line(to, "fabric %s: %u switch%s, %u adapter%s; %u link%s, %u of them active",
	     json_text(j, "fabric"), switches, switches == 1 ? "" : "es", adapters,
	     adapters == 1 ? "" : "s", sum.links, sum.links == 1 ? "" : "s", sum.active);
	line(to, "%s", "");
	line(to, "%-24s %-9s %-9s %s", "node", "type", "LID", "address");
	json_array_foreach(nodes, i, n) print_node(to, n);
	line(to, "%s", "");
	line(to, "%-24s %-24s %-9s %s", "link", "to", "state", "rate");
	links_each(nodes, names, print_link, to);
	json_array_foreach(nodes, i, n) print_waits(to, n, &waits);
	json_decref(names);
}

/* --- counters ------------------------------------------------------------------- */

static bool is_traffic(const char *name)
{
	return strstr(name, "_data") || strstr(name, "_packets");
}

static void print_port(struct page *to, const json_t *p)
{
	const json_t *counters = json_object_get(p, "counters");
	char port[80], errors[512] = "";
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)counters, name, v)
	{
		size_t at = strlen(errors);

		if (json_integer_value(v) && !is_traffic(name))
			snprintf(errors + at, sizeof(errors) - at, " %s %lld", name,
				 (long long)json_integer_value(v));
	}
	snprintf(port, sizeof(port), "%.70s %lld", json_text(p, "node"),
		 json_number(p, "port"));
	line(to, "%-24s %12lld %14lld %12lld %14lld %s", port,
	     json_number(counters, "port_xmit_packets"),
	     4 * json_number(counters, "port_xmit_data"),
	     json_number(counters, "port_rcv_packets"),
	     4 * json_number(counters, "port_rcv_data"), errors);
}

static void print_counters(struct page *to, const json_t *j)
{
	const json_t *p;
	size_t i;

	line(to, "%-24s %12s %14s %12s %14s  %s", "port", "packets sent", "bytes",
	     "received", "bytes", "others, where they are not 0");
	json_array_foreach(json_object_get(j, "ports"), i, p) print_port(to, p);
}

/* --- both ------------------------------------------------------------------------ */

static unsigned rows(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row ? w.ws_row : 24;
}

/* Asks the fabric and prints the answer, repeatedly if live; ends with the fabric. */
static int show_answers(const struct options *o, const char *who, json_t *ask,
			void (*print)(struct page *to, const json_t *j))
{
	bool live = !o->json && !o->once && isatty(STDOUT_FILENO);
	int rc = 0;

	do {
		struct page page = { .live = live, .rows = rows() };
		json_t *j = control_ask(who, o->name, json_incref(ask));

		if (!j) {
			rc = 1;
			break;
		}
		if (live)
			fputs("\033[H", stdout);
		if (o->json) {
			json_dumpf(j, stdout, JSON_INDENT(2));
			putchar('\n');
		} else {
			print(&page, j);
		}
		if (page.hidden)
			printf("... %u more lines; --once shows them", page.hidden);
		if (live)
			fputs("\033[J", stdout);
		json_decref(j);
		rc = fflush(stdout) ? 1 : 0;
	} while (live && !rc && usleep(EVERY_US) == 0);
	json_decref(ask);
	return rc;
}

static error_t parse_status(int opt, char *arg, struct argp_state *state)
{
	if (opt == ARGP_KEY_INIT)
		state->child_inputs[0] = state->input;
	return opt == 'a' ? parse_option(opt, arg, state) : ARGP_ERR_UNKNOWN;
}

int cmd_fabric_status(int argc, char **argv)
{
	static const struct argp common = { .options = options, .parser = parse_option };
	static const struct argp_child children[] = { { &common, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.options = status_options,
		.parser = parse_status,
		.children = children,
		.doc = "Show the nodes and links of a running fabric, with states and "
		       "rates, and where packets wait; on a terminal, refresh that "
		       "each second.  If no fabric is named and `default' does not "
		       "run, list the fabrics that run.\vExit status: 1 if no such "
		       "fabric runs.",
	};
	struct options o = { 0 };
	bool named;

	options_parse(&argp, argc, argv, 0, &o);
	named = o.name;
	o.name = fabric_named(o.name);
	if (!o.name)
		return EXIT_USAGE;
	named |= strcmp(o.name, "default") != 0;
	if (o.all || (!named && !fabric_runs(o.name)))
		return fabric_list("urnic fabric status", o.json);
	return show_answers(&o, "urnic fabric status", json_pack("{ss}", "ask", "status"),
			    print_status);
}

int cmd_fabric_counters(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "[NODE [PORT]]",
		.doc = "Show the counters of a running fabric's ports: of all ports "
		       "with a cable, or of those of NODE, or of PORT alone; on a "
		       "terminal, refresh them each second.\vExit status: 1 if no "
		       "such fabric runs, or it has no such port.",
	};
	struct options o = { .max = 2 };
	char *end = NULL;
	json_t *ask;
	long port = 0;

	options_parse(&argp, argc, argv, 0, &o);
	if (o.words == 2)
		port = strtol(o.word[1], &end, 10);
	if (end && (*end || end == o.word[1])) {
		fprintf(stderr,
			"urnic fabric counters: expected the number of a port,"
			" not '%s'\n",
			o.word[1]);
		return EXIT_USAGE;
	}
	o.name = fabric_named(o.name);
	if (!o.name)
		return EXIT_USAGE;
	ask = json_pack("{ss}", "ask", "counters");
	if (o.words)
		json_object_set_new(ask, "node", json_string(o.word[0]));
	if (o.words == 2)
		json_object_set_new(ask, "port", json_integer(port));
	return show_answers(&o, "urnic fabric counters", ask, print_counters);
}
