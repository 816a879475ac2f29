/* SPDX-License-Identifier: BSD-2-Clause */
/* cdi.c - urnic cdi: describes urnic to container runtimes (Container Device Interface
 * 0.6.0).
 *
 * A container that asks for a device of the file gets urnic's files, each mounted on its
 * own since the folder may have to hold libraries that the system has elsewhere, and the
 * environment of `urnic run'.  No file of /dev is needed. */
#include <argp.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/nic.h"
#include "environment.h"
#include "fabric_control.h"
#include "options.h"
#include "sys/conf.h"
#include "urnic.h"
#include "verbs/netport.h"

#define FOLDER "/usr/lib/urnic" /* in the container */

enum { FAILED = 1 };

struct options {
	const char *fabric, *file, *spec;
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "also describe the adapters of that fabric", 0 },
	{ "output", 'o', "FILE", 0,
	  "write to FILE, not to /etc/cdi/urnic.dev-hca.json; - is standard output", 0 },
	{ "spec", 's', "VERSION", 0,
	  "the specification's version, 0.3.0 to 0.6.0 (the default); Podman 4.3 needs 0.5.0",
	  0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case 'F':
		o->fabric = arg;
		return 0;
	case 'o':
		o->file = arg;
		return 0;
	case 's':
		/* Versions differ in fields that the file does not have. */
		if (strlen(arg) != 5 || strncmp(arg, "0.", 2) != 0 || arg[2] < '3' ||
		    arg[2] > '6' || strcmp(arg + 3, ".0") != 0)
			argp_error(state, "--spec: expected 0.3.0 to 0.6.0, not '%s'",
				   arg);
		o->spec = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The specification's form of a device's name. */
static bool is_name(const char *name)
{
	size_t n = strlen(name);

	if (!n || !isalnum((unsigned char)name[0]) ||
	    !isalnum((unsigned char)name[n - 1]))
		return false;
	for (; *name; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("_-.:", *name))
			return false;
	}
	return true;
}

/* Adds a device whose programs have these variables; takes over env. */
static void add_device(json_t *devices, const char *name, json_t *env)
{
	if (is_name(name))
		json_array_append_new(devices, json_pack("{ss s{so}}", "name", name,
							 "containerEdits", "env", env));
	else
		json_decref(env);
}

/* A device for all interfaces that a container has, and one for each device of this host,
 * for containers that share its network namespace. */
static int add_netdevs(json_t *devices)
{
	struct device **dev = NULL;
	int n = 0, rc = nic_devices(&dev, &n);

	if (rc) {
		fprintf(stderr, "urnic cdi: %s\n", strerror(-rc));
		return rc;
	}
	add_device(devices, "all", json_pack("[s]", "URNIC_DEVICES="));
	for (int i = 0; i < n; i++) {
		if (device_on_netdev(dev[i]))
			add_device(devices, dev[i]->ibv.name,
				   json_pack("[o]", json_sprintf("URNIC_DEVICES=%s",
								 dev[i]->ibv.name)));
	}
	free(dev);
	return 0;
}

static int add_adapters(json_t *devices, const char *fabric)
{
	json_t *j = control_ask("urnic cdi", fabric, json_pack("{ss}", "ask", "status")),
	       *n;
	char name[160], whose[24] = "";
	size_t i;

	if (!j)
		return -ENOENT;
	if (!strchr(fabric, ':')) /* the container's user may be another one */
		snprintf(whose, sizeof(whose), "%u:", getuid());
	json_array_foreach(json_object_get(j, "nodes"), i, n)
	{
		const char *id = json_string_value(json_object_get(n, "id"));
		const char *type = json_string_value(json_object_get(n, "type"));

		if (!id || !type || strcmp(type, "adapter") != 0)
			continue;
		snprintf(name, sizeof(name), "fabric-%s", id);
		add_device(devices, name,
			   json_pack("[oo]",
				     json_sprintf("URNIC_FABRIC=%s%s", whose, fabric),
				     json_sprintf("URNIC_HCA=%s", id)));
	}
	json_decref(j);
	return 0;
}

static void add_mount(json_t *mounts, const char *from, const char *folder)
{
	char name[PATH_MAX], path[PATH_MAX];

	snprintf(name, sizeof(name), "%s", from);
	if (!realpath(from, path))
		return;
	json_array_append_new(mounts,
			      json_pack("{ss so s[sss]}", "hostPath", path,
					"containerPath",
					json_sprintf("%s/%s", folder, basename(name)),
					"options", "ro", "nosuid", "rbind"));
}

/* Of the libraries that this process has loaded: those that urnic looks for in deps. */
static int add_needed(struct dl_phdr_info *info, size_t size, void *mounts)
{
	static const char *const needed[] = { "/libisal.", "/libjansson.", "/libncurses.",
					      "/libtinfo." };
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	for (size_t i = 0; name && i < sizeof(needed) / sizeof(*needed); i++)
		if (strncmp(name, needed[i], strlen(needed[i])) == 0)
			add_mount(mounts, info->dlpi_name, FOLDER "/deps");
	return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* urnic itself and what it needs are added by themselves, wherever they lie. */
static int is_own(const struct dirent *d)
{
	return d->d_name[0] != '.' && strcmp(d->d_name, "urnic") != 0 &&
	       strcmp(d->d_name, "deps") != 0;
}

static json_t *make_mounts(const char *libs)
{
	json_t *mounts = json_array();
	struct dirent **file;
	char path[PATH_MAX];
	int n = scandir(libs, &file, is_own, by_name);

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", libs, file[i]->d_name);
		add_mount(mounts, path, FOLDER);
		free(file[i]);
	}
	if (n >= 0)
		free(file);
	if (realpath("/proc/self/exe", path))
		add_mount(mounts, path, FOLDER);
	dl_iterate_phdr(add_needed, mounts);
	return mounts;
}

struct moved {
	json_t *env;
	const char *libs;
};

/* Adds a variable in which the libraries' folder is the container's. */
static void add_moved(const char *name, const char *value, void *arg)
{
	struct moved *m = arg;
	char text[4 * PATH_MAX] = "";
	const char *at;

	while ((at = strstr(value, m->libs))) {
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s" FOLDER,
			 (int)(at - value), value);
		value = at + strlen(m->libs);
	}
	snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", value);
	json_array_append_new(m->env, json_sprintf("%s=%s", name, text));
}

/* Returns the file's content, or NULL after saying why. */
static json_t *describe_device(const struct options *o)
{
	struct moved m;
	json_t *devices = json_array(), *j;

	if (add_netdevs(devices) || (o->fabric && add_adapters(devices, o->fabric))) {
		json_decref(devices);
		return NULL;
	}
	clearenv(); /* what is set for programs here does not hold in a container */
	if (environment_set("urnic cdi")) {
		json_decref(devices);
		return NULL;
	}
	m = (struct moved){ .env = json_array(), .libs = getenv("LD_LIBRARY_PATH") };
	environment_each(add_moved, &m);
	j = json_pack("{ss ss s{so so} so}", "cdiVersion", o->spec, "kind",
		      "urnic.dev/hca", "containerEdits", "env", m.env, "mounts",
		      make_mounts(m.libs), "devices", devices);
	return j;
}

static int not_written(const char *file)
{
	int err = errno;

	fprintf(stderr,
		"urnic cdi: %s cannot be written: %s; run it as root, or name a file in"
		" a folder that you may write: urnic cdi -o DIR/urnic.dev-hca.json\n",
		file, strerror(err));
	return FAILED;
}

/* A reader sees the old file or the whole new one. */
static int write_file(const json_t *j, const char *file)
{
	char temp[PATH_MAX], folder[PATH_MAX];
	int fd;

	snprintf(folder, sizeof(folder), "%s", file);
	(void)mkdir(dirname(folder), 0755); /* /etc/cdi; mkstemp() says what is wrong */
	if ((size_t)snprintf(temp, sizeof(temp), "%s.XXXXXX", file) >= sizeof(temp)) {
		errno = ENAMETOOLONG;
		return not_written(file);
	}
	fd = mkostemp(temp, O_CLOEXEC);
	if (fd < 0)
		return not_written(file);
	if (json_dumpfd(j, fd, JSON_INDENT(2)) || write(fd, "\n", 1) != 1 ||
	    fchmod(fd, 0644) || fsync(fd) || rename(temp, file)) {
		int err = errno;

		unlink(temp);
		close(fd);
		errno = err;
		return not_written(file);
	}
	close(fd);
	printf("%s: try: podman run --device urnic.dev/hca=all IMAGE ibv_devinfo\n",
	       file);
	return 0;
}

int cmd_cdi(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Write a file of the Container Device Interface, by which container"
		       " runtimes give urnic to a container: device urnic.dev/hca=all, and"
		       " one for each device and each adapter of the fabric.\vExit status:"
		       " 1 if there is no such fabric or the file cannot be written.",
	};
	struct options o = { .file = "/etc/cdi/urnic.dev-hca.json", .spec = "0.6.0" };
	json_t *j;
	int rc = 0;

	options_parse(&argp, argc, argv, 0, &o);
	if (!conf_get())
		return EXIT_USAGE;
	j = describe_device(&o);
	if (!j)
		return FAILED;
	if (strcmp(o.file, "-") != 0)
		rc = write_file(j, o.file);
	else if (json_dumpf(j, stdout, JSON_INDENT(2)) || puts("") < 0 || fflush(stdout))
		rc = not_written("standard output");
	json_decref(j);
	return rc;
}
