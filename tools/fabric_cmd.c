/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_cmd.c - urnic fabric: InfiniBand subnets on this machine (docs/dev/fabric.md).
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "fabric/make.h"
#include "fabric/port/plug.h"
#include "fabric/port/server.h"
#include "fabric/topo.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "options.h"
#include "sys/conf.h"
#include "sys/near.h"
#include "urnic.h"

enum { FILE_MAX = 64 << 20, FAILED = 1 };

struct options {
	const char *name, *file, *settings;
};

static const struct argp_option run_options[] = {
	{ "fabric", 'F', "NAME", 0,
	  "the name of the fabric to run; default: URNIC_FABRIC", 0 },
	{ "settings", 's', "FILE", 0, "rates and addresses of the topology's ports", 0 },
	{ 0 },
};

static error_t parse_run(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case 'F':
		o->name = arg;
		return 0;
	case 's':
		o->settings = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->file)
			argp_error(state, "one topology is enough: '%s'", arg);
		o->file = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no topology is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Reads all of a file, or of standard input ("-").  Returns NULL with the reason in
 * errno; errno 0 means that the file is too long. */
static char *read_whole(const char *name, size_t *len)
{
	FILE *f = strcmp(name, "-") == 0 ? stdin : fopen(name, "re");
	char *text = NULL;
	size_t cap = 0, n;
	int err;

	*len = 0;
	if (!f)
		return NULL;
	errno = 0;
	while (!ferror(f) && !feof(f) && *len < FILE_MAX) {
		if (*len == cap) {
			char *more = realloc(text, cap = cap ? cap * 2 : 65536);

			if (!more)
				break;
			text = more;
		}
		n = fread(text + *len, 1, cap - *len, f);
		*len += n;
	}
	err = errno;
	if (!feof(f) || ferror(f)) {
		free(text);
		text = NULL;
	}
	if (f != stdin)
		fclose(f);
	errno = text ? 0 : err;
	return text;
}

/* Says why read_whole() has failed. */
static void not_read(const char *name)
{
	fprintf(stderr, "urnic fabric: %s: %s\n", name,
		errno ? strerror(errno) : "too long");
}

static char *read_file(const char *name, size_t *len)
{
	char *text = read_whole(name, len);

	if (!text)
		not_read(name);
	return text;
}

static int say_error(int rc, const char *err)
{
	if (rc)
		fprintf(stderr, "urnic fabric: %s\n",
			rc == -EINVAL ? err : strerror(-rc));
	return rc;
}

/* Makes a topology by rule, and returns it as the text of a file. */
static char *make_text(const char *spec, size_t *len)
{
	char err[TOPO_ERR], *text = NULL;
	struct topo t;
	FILE *f;

	if (say_error(make_topo(&t, spec, err), err))
		return NULL;
	f = open_memstream(&text, len);
	if (f) {
		make_print(f, &t);
		fclose(f);
	}
	topo_free(&t);
	return text;
}

static int read_settings(struct topo *t, const char *file)
{
	char err[TOPO_ERR], *text;
	size_t len;
	int rc;

	text = read_file(file, &len);
	if (!text)
		return -EINVAL;
	rc = say_error(topo_set(t, file, text, len, err), err);
	free(text);
	return rc;
}

/* Opens an included file; as in ibsim, names are relative to the working directory. */
static int open_included(const char *name, char **text, size_t *len)
{
	errno = 0;
	*text = read_whole(name, len);
	return *text ? 0 : errno ? -errno : -EFBIG;
}

/* Reads a topology by its rule or from its file. */
static char *read_topology(const char *name, size_t *len)
{
	char err[TOPO_ERR], *text;
	struct topo t;

	if (make_is(name))
		return make_text(name, len);
	text = read_whole(name, len);
	if (!text && errno == ENOENT && make_topo(&t, name, err))
		fprintf(stderr, "urnic fabric: this is neither a file nor a rule: %s\n",
			err);
	else if (!text)
		not_read(name);
	return text;
}

int fabric_read(struct topo *t, const char *file, const char *settings)
{
	char err[TOPO_ERR];
	size_t len = 0;
	char *text = read_topology(file, &len);
	int rc;

	if (!text)
		return -EINVAL;
	rc = say_error(topo_parse_files(t, strcmp(file, "-") == 0 ? "stdin" : file, text,
					len, open_included, err),
		       err);
	free(text);
	if (rc || !settings)
		return rc;
	rc = read_settings(t, settings);
	if (rc)
		topo_free(t);
	return rc;
}

int fabric_stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Prints how many nodes the fabric has, and how to use the first adapter. */
static void welcome(const struct topo *t, const char *name)
{
	uint32_t switches = 0, cas = 0, first = 0;

	for (uint32_t i = t->nodes; i-- > 0;) {
		switches += t->node[i].type == TOPO_SWITCH;
		cas += t->node[i].type == TOPO_CA;
		if (t->node[i].type == TOPO_CA)
			first = i;
	}
	printf("fabric %s: %u switch%s, %u adapter%s", name, switches,
	       switches == 1 ? "" : "es", cas, cas == 1 ? "" : "s");
	if (cas)
		printf("; urnic run%s%s --hca '%s' -- opensm -f -",
		       strcmp(name, "default") ? " --fabric " : "",
		       strcmp(name, "default") ? name : "", t->node[first].id);
	puts("");
	fflush(stdout);
}

static int serve_topo(struct topo *t, const char *name)
{
	struct control control = { .topo = t, .name = name };
	struct plug_server *s;
	int stop = fabric_stop_signals(), rc;

	topo_give_addresses(t, name);
	rc = plug_server_new(&s, name, t);

	if (rc) {
		fprintf(stderr, "urnic fabric run: %s: %s\n", name,
			rc == -EADDRINUSE ? "a fabric of that name runs here; name"
					    " this one with --fabric"
			: rc == -EINVAL	  ? "a name is letters, digits, '.', '_' and '-'"
					  : strerror(-rc));
		return FAILED;
	}
	control.server = s;
	plug_server_control(s, control_answer, &control);
	welcome(t, name);
	rc = stop < 0 ? -errno : plug_serve(s, stop);
	plug_server_free(s);
	if (rc)
		fprintf(stderr, "urnic fabric run: %s\n", strerror(-rc));
	return rc ? FAILED : 0;
}

const char *fabric_named(const char *option)
{
	const struct conf *conf = conf_get();

	return !conf ? NULL : option ? option : conf->fabric;
}

static int cmd_fabric_run(int argc, char **argv)
{
	static const struct argp argp = {
		.options = run_options,
		.parser = parse_run,
		.args_doc = "TOPOLOGY",
		.doc = "Run the InfiniBand subnet that the file TOPOLOGY describes, "
		       "until SIGINT or SIGTERM; - is standard input.\vThe file is in "
		       "the form that ibnetdiscover writes and ibsim reads; a rule of "
		       "`urnic fabric make' may take its place.  `urnic run --hca "
		       "NAME' runs a program at one of its adapters.  Exit status: 2 "
		       "for wrong arguments or a wrong topology.",
	};
	struct options o = { 0 };
	struct topo t;
	int rc;

	options_parse(&argp, argc, argv, 0, &o);
	o.name = fabric_named(o.name);
	if (!o.name || fabric_read(&t, o.file, o.settings))
		return EXIT_USAGE;
	rc = serve_topo(&t, o.name);
	topo_free(&t);
	return rc;
}

static error_t parse_make(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case ARGP_KEY_ARG:
		if (o->file)
			argp_error(state, "one rule is enough: '%s'", arg);
		o->file = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no rule is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int cmd_fabric_make(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_make,
		.args_doc = "RULE",
		.doc = "Print a topology for `urnic fabric run', or for ibsim.\v"
		       "Rules; h is the number of adapters at a switch:\n"
		       "  star:n               one switch, n adapters\n"
		       "  ring:n[,h]           n switches in a circle\n"
		       "  mesh:x,y[,h]         a grid of switches\n"
		       "  torus:x,y[,z[,h]]    a grid whose edges meet\n"
		       "  clos:leaves,spines,h each leaf is linked to each spine\n"
		       "  fattree:k,n          a k-ary n-tree of k^n adapters\n"
		       "  dragonfly:a,h,p      groups of a switches with h links out"
		       " and p adapters each\n",
	};
	struct options o = { 0 };
	size_t len = 0;
	char *text;
	int rc;

	options_parse(&argp, argc, argv, 0, &o);
	text = make_text(o.file, &len);
	if (!text)
		return EXIT_USAGE;
	rc = fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0 ? 0 : FAILED;
	free(text);
	return rc;
}

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "run", cmd_fabric_run },	     { "exec", cmd_fabric_exec },
	{ "make", cmd_fabric_make },	     { "status", cmd_fabric_status },
	{ "counters", cmd_fabric_counters }, { "link", cmd_fabric_link },
	{ "picture", cmd_fabric_picture },   { "pcap", cmd_fabric_pcap },
	{ "sysfs", cmd_fabric_sysfs },
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *command_name(unsigned i)
{
	return i < COMMANDS ? commands[i].name : NULL;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	int *at = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_ARG:
		*at = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_fabric(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_option,
		.args_doc = "[COMMAND [ARG...]]",
		.doc = "Run InfiniBand subnets on this machine, which OpenSM and the "
		       "infiniband-diags manage like hardware; without a command, "
		       "list the subnets that run.\vCommands:\n"
		       "  run TOPOLOGY   run a subnet\n"
		       "  exec TOPOLOGY PROGRAM...\n"
		       "                 run a program on a subnet with OpenSM\n"
		       "  make RULE      print a topology, e.g. fattree:4,2\n"
		       "  status         show the nodes and links of a fabric, or list\n"
		       "                 the fabrics that run\n"
		       "  counters [NODE [PORT]]\n"
		       "                 show the counters of its ports\n"
		       "  picture        print its links and their loads for graphviz\n"
		       "  link down|up NODE PORT\n"
		       "                 pull a cable, or plug it in again\n"
		       "  pcap FILE [NODE [PORT]]\n"
		       "                 capture the packets that cross its links\n"
		       "  sysfs DIR      write what sysfs would show of its adapters\n\n"
		       "`urnic fabric COMMAND --help' explains a command.",
	};
	char name[40], near[NEAR_HINT];
	int at = 0;

	options_parse(&argp, argc, argv, ARGP_IN_ORDER, &at);
	if (!at)
		return fabric_list("urnic fabric", false);
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, argv[at]) != 0)
			continue;
		snprintf(name, sizeof(name), "urnic fabric %s", argv[at]);
		argv[at] = name;
		return commands[i].run(argc - at, argv + at);
	}
	near_hint(near, argv[at], command_name);
	fprintf(stderr, "urnic fabric: no command '%s'%s; try `urnic fabric --help'\n",
		argv[at], near);
	return EXIT_USAGE;
}
