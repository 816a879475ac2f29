/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c - urnic run: runs a program with urnic's libraries in front of the system's. */
#include <argp.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nic/netdev.h"
#include "nic/pick.h"
#include "plug/plug.h"
#include "program.h"
#include "settings.h"
#include "sys/conf.h"
#include "urnic.h"

enum { NOT_RUN = 126, NOT_FOUND = 127 }; /* exit statuses, as of a shell */

/* clang-format off */
static const struct argp_option options[] = {
	{ "pcap", 'p', "FILE", 0, "capture packets to FILE (pcapng); %p in it"
	  " is the process id", 0 },
	{ "fault", 'f', "SPEC", 0, "inject faults, e.g."
	  " drop=0.01,reorder=0.001,seed=7; see urnic(1)", 0 },
	{ "log", 'l', "LEVEL[:FILE]", 0, "error, warn, info or debug", 0 },
	{ "devices", 'd', "LIST", 0, "comma-separated network interfaces that"
	  " get a device, or devices, e.g. roce_eth0,iwarp_eth0", 0 },
	{ "identity", 'i', "ID", 0, "urnic, connectx, or key=value,...; see"
	  " urnic.conf(5)", 0 },
	{ "local", 'L', "WAY", 0, "between processes of this host: off, pipe,"
	  " vm, auto or map", 0 },
	{ "hca", 'H', "NAME", 0, "run PROGRAM at that adapter of a fabric (urnic"
	  " fabric run): its name, description or GUID", 0 },
	{ "fabric", 'F', "NAME", 0, "the fabric; UID:NAME is another user's", 0 },
	{ "conf", 'c', "FILE", 0, "read the configuration from FILE", 0 },
	{ "dry-run", 'n', NULL, 0, "print the environment instead of running",
	  0 },
	{ 0 },
};
/* clang-format on */

struct run {
	char **argv; /* of the program */
	bool dry;
	char lib[PATH_MAX], preload[PATH_MAX + 32], map[PATH_MAX + 32];
};

static const struct {
	int opt;
	const char *key, *env;
} settings[] = {
	{ 'p', "pcap", "URNIC_PCAP" },	       { 'f', "fault", "URNIC_FAULT" },
	{ 'l', "log", "URNIC_LOG" },	       { 'd', "devices", "URNIC_DEVICES" },
	{ 'i', "identity", "URNIC_IDENTITY" }, { 'L', "local", "URNIC_LOCAL" },
	{ 'H', "hca", "URNIC_HCA" },	       { 'F', "fabric", "URNIC_FABRIC" },
};

/* The program may change directory: file names become absolute. */
static const char *absolute(const char *file, char buf[PATH_MAX])
{
	size_t n;

	if (file[0] == '/' || !getcwd(buf, PATH_MAX))
		return file;
	n = strlen(buf);
	if (n + strlen(file) + 2 > PATH_MAX)
		return file;
	snprintf(buf + n, PATH_MAX - n, "/%s", file);
	return buf;
}

static void set(struct argp_state *state, const char *key, const char *env,
		const char *value)
{
	char err[CONF_ERR], path[PATH_MAX];

	if (strcmp(key, "pcap") == 0) {
		if (!*value)
			argp_error(state, "--pcap: no file is named");
		value = absolute(value, path);
	}
	if (conf_check(key, value, err) != 0)
		argp_error(state, "--%s: %s", key, err);
	setenv(env, value, 1);
}

static error_t parse(int opt, char *arg, struct argp_state *state)
{
	struct run *r = state->input;
	char path[PATH_MAX];

	switch (opt) {
	case 'n':
		r->dry = true;
		return 0;
	case 'c':
		if (!realpath(arg, path))
			argp_failure(state, EXIT_USAGE, errno, "--conf: %s", arg);
		setenv("URNIC_CONF", path, 1);
		return 0;
	case ARGP_KEY_ARG:
		r->argv = &state->argv[state->next - 1];
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program is named");
		return 0;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (settings[i].opt == opt) {
			set(state, settings[i].key, settings[i].env, arg);
			return 0;
		}
	}
	return ARGP_ERR_UNKNOWN;
}

/* Finds a file beside the libraries, or, if not yet installed, in the tool's folder. */
static void find_beside(const struct run *r, const char *dir, const char *name,
			char path[PATH_MAX + 32])
{
	snprintf(path, PATH_MAX + 32, "%s/%s", r->lib, name);
	if (access(path, R_OK) != 0)
		snprintf(path, PATH_MAX + 32, "%.*s/%s", PATH_MAX, dir, name);
}

/* Finds urnic's libraries: beside this program, or where they were installed. */
static int find_libs(struct run *r)
{
	/* clang-format off */
	static const char *const places[] = {
		"lib", "../lib/urnic", "../lib64/urnic",
		"../lib/x86_64-linux-gnu/urnic", "../lib/aarch64-linux-gnu/urnic",
		"../lib", "../src/abi",
	};
	/* clang-format on */
	char self[PATH_MAX], try[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *dir;

	if (n < 0)
		return -errno;
	self[n] = '\0';
	dir = dirname(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(try, sizeof(try), "%s/%s/libibverbs.so.1", dir, places[i]);
		if (access(try, R_OK) != 0)
			continue;
		*strrchr(try, '/') = '\0';
		if (!realpath(try, r->lib))
			return -errno;
		find_beside(r, dir, "liburnic-preload.so", r->preload);
		find_beside(r, dir, "liburnic-map.so", r->map);
		return 0;
	}
	fprintf(stderr,
		"urnic run: libibverbs.so.1 of urnic is not in %s/lib"
		" or %s/../lib/urnic; `make build' makes it\n",
		dir, dir);
	return -ENOENT;
}

static void prepend(const char *var, const char *what, char sep)
{
	const char *old = getenv(var);
	char *all;

	if (!old || !*old) {
		setenv(var, what, 1);
		return;
	}
	if (strncmp(old, what, strlen(what)) == 0 && strchr(": ", old[strlen(what)]))
		return; /* already set by an outer urnic run */
	if (asprintf(&all, "%s%c%s", what, sep, old) < 0)
		abort();
	setenv(var, all, 1);
	free(all);
}

/* Preloads those of our libraries that exist; the one for mapped memory comes first. */
static void preload(const struct run *r, bool maps)
{
	char all[sizeof(r->map) + sizeof(r->preload)];

	maps = maps && access(r->map, R_OK) == 0;
	if (access(r->preload, R_OK) == 0)
		snprintf(all, sizeof(all), "%s%s%s", maps ? r->map : "", maps ? ":" : "",
			 r->preload);
	else if (maps)
		snprintf(all, sizeof(all), "%s", r->map);
	else
		return;
	prepend("LD_PRELOAD", all, ':');
}

/* Does at least one of the devices exist that the user names?  The library itself warns
 * of each name without a device. */
static bool have_devices(const char *list)
{
	struct netdev *net = NULL;
	char names[400];
	int n = 0;
	bool some = !*list || netdev_list(&net, &n) != 0 || pick_some(list, net, n);

	pick_names(net, n, names, sizeof(names));
	free(net);
	if (!some)
		fprintf(stderr,
			"urnic run: URNIC_DEVICES (--devices) is \"%s\": no interface with"
			" an address is called so.  There are: %s\n",
			list, n ? names : "none");
	return some;
}

/* Does the adapter exist that the user names?  If it is chosen by rank, each process of
 * an MPI program checks its own. */
static bool have_adapter(const struct conf *conf)
{
	char running[256], list[sizeof(conf->fabric) + 64] = "";
	struct plug_ca ca;
	int rc;

	if (!conf->hca[0])
		return true;
	rc = plug_ca(conf->fabric, conf->hca, &ca);
	if (!rc || rc == -EDESTADDRREQ)
		return true;
	if (rc == -ENODEV)
		snprintf(list, sizeof(list),
			 "; `urnic fabric status -F %s' lists those that it has",
			 conf->fabric);
	plug_running(running, sizeof(running));
	fprintf(stderr,
		"urnic run: adapter %s of fabric %s: %s%s.  Fabrics that run here: %s\n",
		conf->hca, conf->fabric, plug_why(rc), list, running);
	return false;
}

/* NCCL 2.28 looks for a way to start transfers from the GPU that only mlx5 has, and
 * crashes with any other device, unless it is told which other way to take. */
static void help_nccl(void)
{
	setenv("NCCL_GIN_TYPE", "2", 0);
}

static int prepare(struct run *r)
{
	struct conf conf;
	struct conf_origin origin;
	char err[CONF_ERR];

	if (settings_read(&conf, &origin, err) != 0) {
		fprintf(stderr, "urnic run: %s\n", err);
		return -EINVAL;
	}
	if (!have_devices(conf.devices) || !have_adapter(&conf))
		return -ENODEV;
	if (find_libs(r) != 0)
		return -ENOENT;
	if (strpbrk(r->lib, ": ;")) {
		fprintf(stderr,
			"urnic run: %s: the dynamic loader cannot take"
			" a path with a space or colon in it\n",
			r->lib);
		return -EINVAL;
	}
	prepend("LD_LIBRARY_PATH", r->lib, ':');
	preload(r, conf.local == CONF_LOCAL_AUTO || conf.local == CONF_LOCAL_MAP);
	help_nccl();
	return 0;
}

static void print_environment(void)
{
	static const char *const vars[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
					    "NCCL_GIN_TYPE", "URNIC_CONF" };

	for (size_t i = 0; i < sizeof(vars) / sizeof(vars[0]); i++) {
		if (getenv(vars[i]))
			printf("%s=%s\n", vars[i], getenv(vars[i]));
	}
	for (unsigned i = 0; conf_key(i); i++) {
		const char *v = getenv(conf_key(i)->env);

		if (v)
			printf("%s=%s\n", conf_key(i)->env, v);
	}
}

int cmd_run(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[--] PROGRAM [ARG...]",
		.doc = "Run PROGRAM with urnic's libibverbs, librdmacm and libibumad"
		       " in place of the system's.\vThe options set the environment"
		       " variables of urnic(7).  Exit status: PROGRAM's; 127 if"
		       " it is not found, 126 if it cannot be run on urnic, 2 for"
		       " wrong arguments or configuration.",
	};
	char path[PATH_MAX], why[256];
	struct run r = { 0 };
	int rc;

	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &r);
	rc = program_find(r.argv[0], path, sizeof(path));
	if (rc) {
		fprintf(stderr, "urnic run: %s: %s\n", r.argv[0],
			rc == -ENOENT ? "no such program" : strerror(-rc));
		return rc == -ENOENT ? NOT_FOUND : NOT_RUN;
	}
	if (program_check(path, why, sizeof(why)) != 0) {
		fprintf(stderr, "urnic run: %s %s\n", path, why);
		return NOT_RUN;
	}
	if (prepare(&r) != 0)
		return EXIT_USAGE;
	if (r.dry) {
		print_environment();
		return 0;
	}
	execv(path, r.argv);
	if (errno == ENOEXEC) /* a script without #! */
		execvp(path, r.argv);
	fprintf(stderr, "urnic run: %s: %s\n", path, strerror(errno));
	return NOT_RUN;
}
