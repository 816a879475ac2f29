/* SPDX-License-Identifier: BSD-2-Clause */
/* environment.c - the environment of a program on urnic; see environment.h. */
#include "environment.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/netdev.h"
#include "driver/pick.h"
#include "fabric/port/plug.h"
#include "fault_keys.h"
#include "net/fault_spec.h"
#include "settings.h"
#include "sys/conf.h"
#include "urnic.h"

/* Options without a letter */
enum { OPT_CHECK_EXIT = 256, OPT_CHECK_ABORT, OPT_CHECK_SUPPRESS };

/* clang-format off */
static const struct argp_option options[] = {
	{ "pcap", 'p', "FILE", 0, "capture packets to FILE (pcapng); %p in it"
	  " is the process id", 0 },
	{ "check", 'C', "LIST", OPTION_ARG_OPTIONAL, "look for misuse of verbs:"
	  " default (without LIST), all, or names of checks, e.g."
	  " sq-overflow,stale-key; see urnic(1)", 0 },
	{ "check-exit", OPT_CHECK_EXIT, NULL, 0, "exit with status 86 if a check"
	  " has reported something", 0 },
	{ "check-abort", OPT_CHECK_ABORT, NULL, 0, "abort at the first report of a"
	  " check", 0 },
	{ "check-suppress", OPT_CHECK_SUPPRESS, "FILE", 0, "leave out the reports"
	  " that FILE names, a line CHECK:PATTERN each", 0 },
	{ "fault", 'f', "SPEC", 0, "inject faults, e.g."
	  " drop=0.01,reorder=0.001,seed=7; see below", 0 },
	{ "log", 'l', "LEVEL[:FILE]", 0, "error, warn, info or debug", 0 },
	{ "devices", 'd', "LIST", 0, "comma-separated network interfaces that"
	  " get a device, or devices, e.g. roce_eth0,iwarp_eth0", 0 },
	{ "like", 'k', "DEVICE", 0, "keep the limits of mlx5, rxe, siw, irdma,"
	  " bnxt or ionic (several: with commas), or strict: of all", 0 },
	{ "order", 'o', "SPEC", 0, "orders that verbs allow and programs forget,"
	  " e.g. write=1,swap=0.5,seed=7; see urnic.conf(5)", 0 },
	{ "identity", 'i', "ID", 0, "urnic, connectx, or key=value,...; see"
	  " urnic.conf(5)", 0 },
	{ "local", 'L', "WAY", 0, "between processes of this host: off, pipe,"
	  " vm, auto or map", 0 },
	{ "hca", 'H', "NAME", 0, "use that adapter of a fabric (urnic"
	  " fabric run): its name, description or GUID", 0 },
	{ "fabric", 'F', "NAME", 0, "the fabric; UID:NAME is another user's", 0 },
	{ "conf", 'c', "FILE", 0, "read the configuration from FILE", 0 },
	{ 0 },
};
/* clang-format on */

static const struct {
	int opt;
	const char *key, *env;
} settings[] = {
	{ 'p', "pcap", "URNIC_PCAP" },
	{ 'f', "fault", "URNIC_FAULT" },
	{ 'l', "log", "URNIC_LOG" },
	{ 'd', "devices", "URNIC_DEVICES" },
	{ 'k', "like", "URNIC_LIKE" },
	{ 'o', "order", "URNIC_ORDER" },
	{ 'i', "identity", "URNIC_IDENTITY" },
	{ 'L', "local", "URNIC_LOCAL" },
	{ 'C', "check", "URNIC_CHECK" },
	{ OPT_CHECK_EXIT, "check_exit", "URNIC_CHECK_EXIT" },
	{ OPT_CHECK_ABORT, "check_abort", "URNIC_CHECK_ABORT" },
	{ OPT_CHECK_SUPPRESS, "check_suppress", "URNIC_CHECK_SUPPRESS" },
	{ 'H', "hca", "URNIC_HCA" },
	{ 'F', "fabric", "URNIC_FABRIC" },
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
	buf[n] = '/';
	memcpy(buf + n + 1, file, strlen(file) + 1);
	return buf;
}

static void set(struct argp_state *state, const char *key, const char *env,
		const char *value)
{
	char err[CONF_ERR], path[PATH_MAX], spec[FAULT_TEXT_MAX];

	if (strcmp(key, "fault") == 0) {
		if (fault_rewrite(spec, sizeof(spec), value, FAULT_FILES_ABSOLUTE, err,
				  sizeof(err)))
			argp_error(state, "--fault: %s", err);
		value = spec;
	}
	if (strcmp(key, "pcap") == 0 || strcmp(key, "check_suppress") == 0) {
		if (!*value)
			argp_error(state, "--%s: no file is named", settings_option(key));
		value = absolute(value, path);
	}
	if (strcmp(key, "check") == 0 && !*value)
		argp_error(state, "--check: no check is named; the default ones are "
				  "--check without =");
	if (conf_check(key, value, err) != 0)
		argp_error(state, "--%s: %s", settings_option(key), err);
	setenv(env, value, 1);
}

/* An option that speaks of checks, though none may be asked for; or NULL. */
static const char *about_checks;

/* What an option means that is given without a value. */
static const char *without_value(int opt)
{
	return opt == 'C' ? "default" : "yes";
}

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	char path[PATH_MAX];

	if (opt == 'c') {
		if (!realpath(arg, path))
			argp_failure(state, EXIT_USAGE, errno, "--conf: %s", arg);
		setenv("URNIC_CONF", path, 1);
		return 0;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (settings[i].opt == opt) {
			set(state, settings[i].key, settings[i].env,
			    arg ? arg : without_value(opt));
			if (opt >= OPT_CHECK_EXIT)
				about_checks = settings[i].key;
			return 0;
		}
	}
	return ARGP_ERR_UNKNOWN;
}

static char *add_help(int key, const char *text, void *input)
{
	(void)input;
	return key == ARGP_KEY_HELP_EXTRA ? fault_keys_text() : (char *)(uintptr_t)text;
}

const struct argp environment_argp = { .options = options,
				       .parser = parse_option,
				       .help_filter = add_help };

struct libs {
	char dir[PATH_MAX], preload[PATH_MAX + 32], map[PATH_MAX + 32];
};

/* Finds a file beside the libraries, or, if not yet installed, in the tool's folder. */
static void find_beside(const struct libs *libs, const char *self, const char *name,
			char path[PATH_MAX + 32])
{
	snprintf(path, PATH_MAX + 32, "%s/%s", libs->dir, name);
	if (access(path, R_OK) != 0)
		snprintf(path, PATH_MAX + 32, "%.*s/%s", PATH_MAX, self, name);
}

/* Finds urnic's libraries from the place of this program's own file.  The installed
 * folder has both; so it can be copied or mounted anywhere. */
static int find_libs(struct libs *libs, const char *command)
{
	/* clang-format off */
	static const char *const places[] = {
		".", "lib", "../lib/urnic", "../lib64/urnic",
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
		if (!realpath(try, libs->dir))
			return -errno;
		find_beside(libs, dir, "liburnic-preload.so", libs->preload);
		find_beside(libs, dir, "liburnic-map.so", libs->map);
		return 0;
	}
	fprintf(stderr,
		"%s: libibverbs.so.1 of urnic is not in %s, %s/lib"
		" or %s/../lib/urnic; `make build' makes it\n",
		command, dir, dir, dir);
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
static void preload(const struct libs *libs, bool maps)
{
	char all[sizeof(libs->map) + sizeof(libs->preload)];

	maps = maps && access(libs->map, R_OK) == 0;
	if (access(libs->preload, R_OK) == 0)
		snprintf(all, sizeof(all), "%s%s%s", maps ? libs->map : "",
			 maps ? ":" : "", libs->preload);
	else if (maps)
		snprintf(all, sizeof(all), "%s", libs->map);
	else
		return;
	prepend("LD_PRELOAD", all, ':');
}

static bool have_checks(const char *list, const char *command)
{
	if (!about_checks || *list)
		return true;
	fprintf(stderr,
		"%s: --%s without a check: write --check, too, for the default ones, or "
		"--check=LIST\n",
		command, settings_option(about_checks));
	return false;
}

/* Does at least one of the devices exist that the user names?  The library itself warns
 * of each name without a device. */
static bool have_devices(const char *list, const char *command)
{
	struct netdev *net = NULL;
	char names[400];
	int n = 0;
	bool some = !*list || netdev_list(&net, &n) != 0 || pick_some(list, net, n);

	pick_names(net, n, names, sizeof(names));
	free(net);
	if (!some)
		fprintf(stderr,
			"%s: URNIC_DEVICES (--devices) is \"%s\": no interface with"
			" an address has that name.  There are: %s\n",
			command, list, n ? names : "none");
	return some;
}

/* Does the adapter exist that the user names?  If it is chosen by rank, each process of
 * an MPI program checks its own. */
static bool have_adapter(const struct conf *conf, const char *command)
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
	fprintf(stderr, "%s: adapter %s of fabric %s: %s%s.  Fabrics that run here: %s\n",
		command, conf->hca, conf->fabric, plug_why(rc), list, running);
	return false;
}

/* NCCL 2.28 looks for a way to start transfers from the GPU that only mlx5 has, and
 * crashes with any other device, unless it is told which other way to take. */
static void help_nccl(void)
{
	setenv("NCCL_GIN_TYPE", "2", 0);
}

/* ThreadSanitizer sees which of the program's memory urnic's libraries touch, but none of
 * their locks, unless they are built with it, too. */
static void help_tsan(const struct libs *libs)
{
	char rule[sizeof(libs->dir) + 32];

	snprintf(rule, sizeof(rule), "suppressions=%s/tsan.supp", libs->dir);
	if (access(rule + strlen("suppressions="), R_OK) == 0)
		prepend("TSAN_OPTIONS", rule, ':');
}

int environment_set(const char *command)
{
	struct conf conf;
	struct conf_origin origin;
	struct libs libs;
	char err[CONF_ERR];

	if (settings_read(&conf, &origin, err) != 0) {
		fprintf(stderr, "%s: %s\n", command, err);
		return -EINVAL;
	}
	if (!have_checks(conf.check, command))
		return -EINVAL;
	if (!have_devices(conf.devices, command) || !have_adapter(&conf, command))
		return -ENODEV;
	if (find_libs(&libs, command) != 0)
		return -ENOENT;
	if (strpbrk(libs.dir, ": ;")) {
		fprintf(stderr,
			"%s: %s: the dynamic loader cannot take"
			" a path with a space or colon in it\n",
			command, libs.dir);
		return -EINVAL;
	}
	prepend("LD_LIBRARY_PATH", libs.dir, ':');
	preload(&libs, conf.local == CONF_LOCAL_AUTO || conf.local == CONF_LOCAL_MAP);
	help_nccl();
	help_tsan(&libs);
	return 0;
}

void environment_each(void (*fn)(const char *name, const char *value, void *arg),
		      void *arg)
{
	static const char *const names[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
					     "NCCL_GIN_TYPE", "TSAN_OPTIONS",
					     "URNIC_CONF" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (getenv(names[i]))
			fn(names[i], getenv(names[i]), arg);
	}
	for (unsigned i = 0; conf_key(i); i++) {
		const char *value = getenv(conf_key(i)->env);

		if (value)
			fn(conf_key(i)->env, value, arg);
	}
}
