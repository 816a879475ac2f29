/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_picture.c - urnic fabric picture: prints nodes and links of a running fabric,
 * with the links' load, in the language of graphviz. */
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fabric_cmd.h"
#include "fabric_control.h"
#include "fabric_links.h"
#include "options.h"
#include "urnic.h"

enum { LOOK_US = 1000000, WORD_BITS = 32 };

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	if (opt != 'F')
		return ARGP_ERR_UNKNOWN;
	*(const char **)state->input = arg;
	return 0;
}

/* Two readings of the counters, and the seconds between them. */
struct picture {
	json_t *before, *after;
	double seconds;
};

/* Prints a name, which may hold any byte, as a quoted string. */
static void quote(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar((unsigned char)*s < ' ' ? '?' : *s);
	}
	putchar('"');
}

static long long words_sent(const json_t *counters, const char *node, long long port)
{
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(counters, "ports"), i, p)
	{
		if (json_number(p, "port") == port &&
		    strcmp(json_text(p, "node"), node) == 0)
			return json_number(json_object_get(p, "counters"),
					   "port_xmit_data");
	}
	return 0;
}

/* The data that a port sends, in Gb/s. */
static double load_of(const struct picture *pic, const char *node, long long port)
{
	long long words =
		words_sent(pic->after, node, port) - words_sent(pic->before, node, port);

	return (double)words * WORD_BITS / pic->seconds / 1e9;
}

static void draw_link(void *ctx, const struct link *l)
{
	const struct picture *pic = ctx;
	const char *from = json_text(l->node, "id"), *to = json_text(l->port, "peer");
	double rate = json_number_value(json_object_get(l->port, "rate"));
	double there, back, most;

	putchar('\t');
	quote(from);
	fputs(" -- ", stdout);
	quote(to);
	printf(" [taillabel=%lld headlabel=%lld ", json_number(l->port, "port"),
	       json_number(l->port, "peer_port"));
	if (strcmp(l->state, "active") != 0 || rate <= 0) {
		printf("style=dashed label=\"%s\"];\n", l->state);
		return;
	}
	there = load_of(pic, from, json_number(l->port, "port"));
	back = load_of(pic, to, json_number(l->port, "peer_port"));
	most = there > back ? there : back;
	printf("penwidth=%.2f label=\"%.2f / %.2f of %g Gb/s\"];\n",
	       1 + 9 * (most < rate ? most / rate : 1), there, back, rate);
}

static void draw_picture(const json_t *status, struct picture *pic)
{
	const json_t *nodes = json_object_get(status, "nodes"), *n;
	json_t *names = links_nodes(nodes);
	size_t i;

	fputs("graph ", stdout);
	quote(json_text(status, "fabric"));
	puts(" {\n\tgraph [overlap=false splines=true];\n\tedge [fontsize=9];");
	json_array_foreach(nodes, i, n)
	{
		putchar('\t');
		quote(json_text(n, "id"));
		printf(" [shape=%s];\n",
		       strcmp(json_text(n, "type"), "switch") ? "ellipse" : "box");
	}
	links_each(nodes, names, draw_link, pic);
	puts("}");
	json_decref(names);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static json_t *ask_status(const char *name, const char *what)
{
	return control_ask("urnic fabric picture", name, json_pack("{ss}", "ask", what));
}

int cmd_fabric_picture(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Print the nodes and links of a running fabric, and the bits "
		       "that cross each link in a second, in graphviz's language: "
		       "urnic fabric picture | dot -Tsvg >fabric.svg\vExit status: 1 "
		       "if no such fabric runs.",
	};
	struct picture pic = { 0 };
	const char *name = NULL;
	json_t *status;
	int rc = 1;

	options_parse(&argp, argc, argv, 0, &name);
	name = fabric_named(name);
	if (!name)
		return EXIT_USAGE;
	pic.before = ask_status(name, "counters");
	pic.seconds = -now();
	if (pic.before && usleep(LOOK_US) == 0)
		pic.after = ask_status(name, "counters");
	pic.seconds += now();
	status = pic.after ? ask_status(name, "status") : NULL;
	if (status) {
		draw_picture(status, &pic);
		rc = fflush(stdout) ? 1 : 0;
	}
	json_decref(status);
	json_decref(pic.after);
	json_decref(pic.before);
	return rc;
}
