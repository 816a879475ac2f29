/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap.c - urnic extcap: what Wireshark asks a program that captures for it. */
#include <argp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "extcap.h"
#include "fabric_cmd.h"
#include "options.h"
#include "urnic.h"

#ifndef URNIC_VERSION
#define URNIC_VERSION "unknown"
#endif

enum { LINKTYPE_RAW = 101, LINKTYPE_ERF = 197 };
enum {
	OPT_INTERFACES = 256,
	OPT_VERSION,
	OPT_DLTS,
	OPT_INTERFACE,
	OPT_CONFIG,
	OPT_CAPTURE,
	OPT_FIFO,
	OPT_FILTER,
	OPT_INSTALL,
};

struct options {
	int what; /* one of OPT_ */
	const char *interface, *fifo, *filter;
};

static const struct argp_option options[] = {
	{ "extcap-interfaces", OPT_INTERFACES, NULL, 0, "list the interfaces", 0 },
	{ "extcap-version", OPT_VERSION, "VERSION", OPTION_ARG_OPTIONAL,
	  "Wireshark's version", 0 },
	{ "extcap-dlts", OPT_DLTS, NULL, 0, "list the link types of an interface", 0 },
	{ "extcap-interface", OPT_INTERFACE, "NAME", 0, "the interface", 0 },
	{ "extcap-config", OPT_CONFIG, NULL, 0, "list an interface's options", 0 },
	{ "capture", OPT_CAPTURE, NULL, 0, "capture", 0 },
	{ "fifo", OPT_FIFO, "FILE", 0, "write packets to FILE", 0 },
	{ "extcap-capture-filter", OPT_FILTER, "F", 0, "refused: use a display filter",
	  0 },
	{ "install", OPT_INSTALL, NULL, 0,
	  "link this program into a folder where Wireshark looks", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case OPT_INSTALL:
		if (strcmp(state->argv[state->next - 1], "--install") != 0)
			argp_error(state, "%s: --install is written in full",
				   state->argv[state->next - 1]);
		/* fall through */
	case OPT_INTERFACES:
	case OPT_DLTS:
	case OPT_CONFIG:
	case OPT_CAPTURE:
		if (o->what && o->what != key)
			argp_error(state, "one task at a time");
		o->what = key;
		return 0;
	case OPT_VERSION:
		return 0;
	case OPT_INTERFACE:
		o->interface = arg;
		return 0;
	case OPT_FIFO:
		o->fifo = arg;
		return 0;
	case OPT_FILTER:
		o->filter = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->what && !o->filter)
			argp_error(state, "what is to be done? --install is for people, "
					  "the rest for Wireshark");
		if (o->what != OPT_INTERFACES && o->what != OPT_INSTALL && !o->interface)
			argp_error(state, "no --extcap-interface is named");
		if (o->what == OPT_CAPTURE && !o->fifo)
			argp_error(state, "no --fifo is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int list_all(void)
{
	printf("extcap {version=" URNIC_VERSION "}{display=urnic}\n");
	return extcap_list();
}

static int list_dlts(const struct extcap_interface *of)
{
	if (of->kind == EXTCAP_FABRIC)
		printf("dlt {number=%d}{name=ERF}{display=InfiniBand (ERF)}\n",
		       LINKTYPE_ERF);
	else
		printf("dlt {number=%d}{name=RAW}{display=RoCE v2 (IP packets)}\n",
		       LINKTYPE_RAW);
	return 0;
}

static int capture_fabric(const struct extcap_interface *of, const char *file)
{
	signal(SIGPIPE, SIG_IGN);
	return fabric_capture(EXTCAP_WHO, of->fabric, of->node, of->port, file, 0);
}

/* Wireshark takes what is printed for the reason. */
static int refuse_filter(FILE *to)
{
	fprintf(to, "urnic takes no capture filter; use a display filter, such as "
		    "infiniband.bth.destqp == 0x11\n");
	return 1;
}

static int obey(const struct options *o)
{
	struct extcap_interface of;

	if (o->what == OPT_INTERFACES)
		return list_all();
	if (o->what == OPT_INSTALL)
		return extcap_install();
	if (extcap_interface(o->interface, &of))
		return 1;
	if (o->filter && *o->filter)
		return refuse_filter(o->what == OPT_CAPTURE ? stderr : stdout);
	if (o->what == OPT_DLTS)
		return list_dlts(&of);
	if (o->what != OPT_CAPTURE) /* there are no options, nor is a filter wrong */
		return 0;
	return of.kind == EXTCAP_FABRIC ? capture_fabric(&of, o->fifo)
					: extcap_live(&of, o->fifo);
}

int cmd_extcap(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Show packets of running processes, and of fabrics, to Wireshark, "
		       "which calls this program as it calls all in its extcap folder: "
		       "after --install, tshark -D lists the interfaces, and tshark -i "
		       "urnic-all captures.\vA process that was not started with a "
		       "capture gives packets from then on; it never waits for the "
		       "reader.  Messages between processes of one host go through "
		       "memory, and are counted only.",
	};
	struct options o = { 0 };

	options_parse(&argp, argc, argv, 0, &o);
	return obey(&o);
}
