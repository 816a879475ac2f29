/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_sysfs.c - urnic fabric sysfs: writes the adapters of a running fabric as files
 * like those of /sys/class/infiniband, for programs that read them. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fabric.h"
#include "fabric_control.h"
#include "plug/plug.h"
#include "sys/conf.h"
#include "urnic.h"

enum { FAILED = 1 };

static const char who[] = "urnic fabric sysfs";

struct options {
	const char *name, *hca, *dir;
	long every; /* seconds; 0: once */
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ "hca", 'H', "NAME", 0,
	  "write only that adapter's files; default: URNIC_HCA, else all", 0 },
	{ "every", 'e', "SECONDS", 0,
	  "write the files anew every so many seconds, until interrupted", 0 },
	{ 0 },
};

static error_t parse(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;
	char *end;

	switch (opt) {
	case 'F':
		o->name = arg;
		return 0;
	case 'H':
		o->hca = arg;
		return 0;
	case 'e':
		o->every = strtol(arg, &end, 10);
		if (*end || o->every < 1 || o->every > 86400)
			argp_error(state, "expected a number of seconds, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (o->dir)
			argp_error(state, "one directory is enough: '%s'", arg);
		o->dir = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no directory is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The folder in which files are made, and the first error. */
struct tree {
	char path[PATH_MAX];
	size_t len;
	int rc;
};

/* Is name safe as a file's name?  The fabric, which chooses it, may be another user's. */
static bool is_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

/* Makes and enters a subfolder; returns the old length of the path, for leave(). */
static size_t enter(struct tree *t, const char *name)
{
	size_t was = t->len;
	int n;

	if (t->rc) /* keeps the path of the error, for the message */
		return was;
	n = snprintf(t->path + was, sizeof(t->path) - was, "/%s", name);
	if (n < 0 || (size_t)n >= sizeof(t->path) - was) {
		t->path[was] = '\0';
		t->rc = -ENAMETOOLONG;
		return was;
	}
	t->len += (size_t)n;
	if (mkdir(t->path, 0755) && errno != EEXIST)
		t->rc = -errno;
	return was;
}

static size_t enter_said(struct tree *t, const char *name)
{
	if (!t->rc && !is_name(name))
		t->rc = -EBADMSG;
	return enter(t, name);
}

static void leave(struct tree *t, size_t was)
{
	if (!t->rc) {
		t->len = was;
		t->path[was] = '\0';
	}
}

/* Writes a file and renames it into place, so a reader sees the old or the new one. */
static __attribute__((format(printf, 3, 4))) void file(struct tree *t, const char *name,
						       const char *fmt, ...)
{
	char path[PATH_MAX + 80], next[PATH_MAX + 80];
	va_list ap;
	FILE *f;

	if (!t->rc && !is_name(name))
		t->rc = -EBADMSG;
	if (t->rc)
		return;
	snprintf(path, sizeof(path), "%s/%s", t->path, name);
	snprintf(next, sizeof(next), "%s/.%s", t->path, name);
	f = fopen(next, "we");
	if (f) {
		va_start(ap, fmt);
		vfprintf(f, fmt, ap);
		va_end(ap);
		fputc('\n', f);
	}
	if (!f || fclose(f) || rename(next, path))
		t->rc = -errno;
}

static void put_guid(struct tree *t, const char *name, uint64_t g)
{
	file(t, name, "%04x:%04x:%04x:%04x", (unsigned)(g >> 48),
	     (unsigned)(g >> 32 & 0xffff), (unsigned)(g >> 16 & 0xffff),
	     (unsigned)(g & 0xffff));
}

static void put_gid(struct tree *t, const struct plug_port *p)
{
	char text[40];
	int n = 0;

	for (int i = 48; i >= 0; i -= 16)
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "%04x:", (unsigned)(p->prefix >> i & 0xffff));
	for (int i = 48; i >= 0; i -= 16)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%04x%s",
			      (unsigned)(p->guid >> i & 0xffff), i ? ":" : "");
	file(t, "0", "%s", text);
}

static void put_counters(struct tree *t, const char *fabric, const char *node,
			 unsigned port)
{
	json_t *j = control_ask(who, fabric,
				json_pack("{ss ss si}", "ask", "counters", "node", node,
					  "port", (int)port));
	json_t *first = json_array_get(json_object_get(j, "ports"), 0), *v;
	const char *name;

	if (!j)
		t->rc = t->rc ? t->rc : -EIO;
	json_object_foreach(json_object_get(first, "counters"), name, v)
		file(t, name, "%lld", (long long)json_integer_value(v));
	json_decref(j);
}

/* Writes the file `rate' as the kernel does: "100 Gb/sec (4X EDR)". */
static void put_rate(struct tree *t, const struct plug_port *p, const char *speed)
{
	int lanes = atoi(speed);
	const char *x = strchr(speed, 'x');

	if (x)
		file(t, "rate", "%u Gb/sec (%dX %s)", p->rate, lanes, x + 1);
	else
		file(t, "rate",
		     "2.5 Gb/sec (1X SDR)"); /* as the kernel, of a down link */
}

static const char *name_of(const char *const *names, unsigned n, unsigned i)
{
	return i < n ? names[i] : "<unknown>";
}

static void put_port(struct tree *t, const struct plug_port *p, const char *speed)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	static const char *const phys[] = { "<unknown>",
					    "Sleep",
					    "Polling",
					    "Disabled",
					    "PortConfigurationTraining",
					    "LinkUp",
					    "LinkErrorRecovery" };
	size_t was;

	file(t, "lid", "0x%x", p->lid);
	file(t, "lid_mask_count", "%u", p->lmc);
	file(t, "sm_lid", "0x%x", p->sm_lid);
	file(t, "sm_sl", "%u", p->sm_sl);
	file(t, "cap_mask", "0x%08x", p->cap_mask);
	file(t, "state", "%u: %s", p->state, name_of(states, 5, p->state));
	file(t, "phys_state", "%u: %s", p->phys_state, name_of(phys, 7, p->phys_state));
	file(t, "link_layer", "InfiniBand");
	put_rate(t, p, speed);
	was = enter(t, "gids");
	put_gid(t, p);
	leave(t, was);
	was = enter(t, "pkeys");
	for (unsigned i = 0; i < p->pkeys; i++) {
		char name[12];

		snprintf(name, sizeof(name), "%u", i);
		file(t, name, "0x%04x", p->pkey[i]);
	}
	leave(t, was);
}

/* Writes /sys/class/infiniband_mad, which says which umad belongs to which port. */
static void put_umad(struct tree *t, const char *ca, unsigned port, unsigned *umad)
{
	static const char *const kinds[] = { "umad", "issm" };

	for (int i = 0; i < 2; i++) {
		char name[20];
		size_t was;

		snprintf(name, sizeof(name), "%s%u", kinds[i], *umad);
		was = enter(t, name);
		file(t, "ibdev", "%s", ca);
		file(t, "port", "%u", port);
		leave(t, was);
	}
	++*umad;
}

struct job {
	const struct options *o;
	struct tree class, mad;
	unsigned umad;
};

static int put_adapter(struct job *job, const json_t *node)
{
	const char *id = json_string_value(json_object_get(node, "id")), *speed;
	const json_t *ports = json_object_get(node, "ports");
	struct tree *t = &job->class;
	struct plug_ca ca;
	struct plug_port port;
	size_t at, num_at, i, was, was_num;
	const json_t *p;
	int rc = plug_ca(job->o->name, id, &ca);

	if (rc)
		return rc;
	was = enter_said(t, ca.name);
	file(t, "node_type", "1: CA");
	file(t, "fw_ver", "%s", URNIC_VERSION);
	file(t, "hw_rev", "0");
	file(t, "hca_type", "urnic");
	file(t, "board_id", "urnic");
	file(t, "node_desc", "%s", ca.desc);
	put_guid(t, "node_guid", ca.guid);
	put_guid(t, "sys_image_guid", ca.sys_guid);
	at = enter(t, "ports");
	json_array_foreach(ports, i, p)
	{
		unsigned num = (unsigned)json_integer_value(json_object_get(p, "port"));
		char name[12];

		rc = plug_port(job->o->name, id, num, &port);
		if (rc)
			return rc;
		speed = json_string_value(json_object_get(p, "speed"));
		snprintf(name, sizeof(name), "%u", num);
		num_at = enter(t, name);
		put_port(t, &port, speed ? speed : "");
		was_num = enter(t, "counters");
		put_counters(t, job->o->name, id, num);
		leave(t, was_num);
		leave(t, num_at);
		put_umad(&job->mad, ca.name, num, &job->umad);
	}
	leave(t, at);
	leave(t, was);
	return 0;
}

static bool is_meant(const json_t *node, const char *guid)
{
	const char *type = json_string_value(json_object_get(node, "type"));
	const char *its = json_string_value(json_object_get(node, "guid"));

	return type && its && strcmp(type, "adapter") == 0 &&
	       (!*guid || strcmp(its, guid) == 0);
}

static int put_all(struct job *job, const json_t *nodes)
{
	char guid[20] = "";
	struct plug_ca ca;
	const json_t *n;
	size_t i;
	int rc = *job->o->hca ? plug_ca(job->o->name, job->o->hca, &ca) : 0;

	if (rc)
		return rc;
	if (*job->o->hca)
		snprintf(guid, sizeof(guid), "0x%016llx", (unsigned long long)ca.guid);
	json_array_foreach(nodes, i, n)
	{
		rc = is_meant(n, guid) ? put_adapter(job, n) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static void begin(struct tree *t, const char *dir, const char *name)
{
	*t = (struct tree){ .path = "" };
	if (*dir == '/')
		enter(t, dir + 1);
	else
		t->len = (size_t)snprintf(t->path, sizeof(t->path), ".");
	if (*dir != '/')
		enter(t, dir);
	enter(t, "class");
	enter(t, name);
}

static int tell(const struct tree *t)
{
	if (!t->rc)
		return 0;
	fprintf(stderr, "%s: %s: %s\n", who, t->path, strerror(-t->rc));
	return FAILED;
}

static int render(const struct options *o)
{
	json_t *j = control_ask(who, o->name, json_pack("{ss}", "ask", "status"));
	struct job job = { .o = o };
	int rc;

	if (!j)
		return FAILED;
	begin(&job.class, o->dir, "infiniband");
	begin(&job.mad, o->dir, "infiniband_mad");
	file(&job.mad, "abi_version", "5");
	rc = put_all(&job, json_object_get(j, "nodes"));
	json_decref(j);
	if (rc)
		fprintf(stderr, "%s: fabric %s: %s\n", who, o->name, fabric_why(rc));
	return rc ? FAILED : tell(&job.class) || tell(&job.mad) ? FAILED : 0;
}

int cmd_fabric_sysfs(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "DIR",
		.doc = "Write into DIR/class/infiniband what Linux would show of a "
		       "fabric's adapters in /sys/class/infiniband.\vTell DIR to a "
		       "program that can be told where sysfs is; run any other in a "
		       "namespace: unshare -rm sh -c 'mount --rbind DIR /sys && exec "
		       "ibstatus'.",
	};
	struct options o = { 0 };
	sigset_t stop;
	struct timespec pause;
	const struct conf *conf;
	int rc;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	o.name = fabric_named(o.name);
	conf = conf_get();
	if (!o.name || !conf)
		return EXIT_USAGE;
	if (!o.hca)
		o.hca = conf->hca;
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	if (o.every)
		sigprocmask(SIG_BLOCK, &stop, NULL);
	pause = (struct timespec){ .tv_sec = o.every };
	do {
		rc = render(&o);
	} while (o.every && !rc && sigtimedwait(&stop, NULL, &pause) < 0);
	return rc;
}
