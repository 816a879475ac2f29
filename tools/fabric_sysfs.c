/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_sysfs.c - urnic fabric sysfs: writes the adapters of a running fabric as files
 * like those of /sys/class/infiniband, for programs that read them. */
#include <argp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/port/plug.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "options.h"
#include "sys/conf.h"
#include "sys/ident.h"
#include "sysfs_cmd.h"
#include "urnic.h"

enum { FAILED = 1 };

static const char who[] = "urnic fabric sysfs";

struct options {
	struct sysfs_job job;
	const char *name, *hca;
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ "hca", 'H', "NAME", 0,
	  "write only that adapter's files; default: URNIC_HCA, else all", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->job;
		return 0;
	case 'F':
		o->name = arg;
		return 0;
	case 'H':
		o->hca = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static bool is_meant(const json_t *node, const char *guid)
{
	const char *type = json_string_value(json_object_get(node, "type"));
	const char *its = json_string_value(json_object_get(node, "guid"));

	return type && its && strcmp(type, "adapter") == 0 &&
	       (!*guid || strcmp(its, guid) == 0);
}

static int put_all(struct sysfs *s, const struct options *o, const json_t *nodes)
{
	char guid[20] = "", why[160];
	struct identity id;
	struct ident ident;
	struct plug_ca ca;
	const json_t *n;
	size_t i;
	int rc = *o->hca ? plug_ca(o->name, o->hca, &ca) : 0;

	if (!rc)
		rc = ident_parse(conf_get()->identity, &ident, why, sizeof(why));
	if (rc)
		return rc;
	id = identity_of(&ident);
	if (*o->hca)
		snprintf(guid, sizeof(guid), "0x%016llx", (unsigned long long)ca.guid);
	json_array_foreach(nodes, i, n)
	{
		const char *its = json_string_value(json_object_get(n, "id"));

		rc = its && is_meant(n, guid)
			     ? sysfs_put_adapter(s, o->name, its, &id, (unsigned)i, NULL)
			     : 0;
		if (rc)
			return rc;
	}
	return 0;
}

static int render_tree(void *arg)
{
	const struct options *o = arg;
	json_t *j = control_ask(who, o->name, json_pack("{ss}", "ask", "status"));
	struct sysfs *s = malloc(sizeof(*s));
	int rc, end;

	if (!j || !s) {
		json_decref(j);
		free(s);
		return FAILED;
	}
	sysfs_begin(s, o->job.dir, false);
	rc = put_all(s, o, json_object_get(j, "nodes"));
	json_decref(j);
	if (rc)
		fprintf(stderr, "%s: fabric %s: %s\n", who, o->name, fabric_why(rc));
	if (rc && !s->t.rc)
		s->t.rc = rc;
	end = sysfs_end(s);
	if (end && !rc)
		sysfs_tell(who, o->job.dir, s->t.path, end);
	free(s);
	return end ? FAILED : 0;
}

int cmd_fabric_sysfs(int argc, char **argv)
{
	static const struct argp_child children[] = { { &sysfs_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.args_doc = "DIR",
		.doc = "Write into DIR/class/infiniband what Linux would show of a "
		       "fabric's adapters in /sys/class/infiniband.\vTell DIR to a "
		       "program that can be told where sysfs is; run any other in a "
		       "namespace: unshare -rm sh -c 'mount --rbind DIR /sys && exec "
		       "ibstatus'.",
	};
	struct options o = { 0 };
	const struct conf *conf;

	options_parse(&argp, argc, argv, 0, &o);
	o.name = fabric_named(o.name);
	conf = conf_get();
	if (!o.name || !conf)
		return EXIT_USAGE;
	if (!o.hca)
		o.hca = conf->hca;
	return sysfs_follow(&o.job, render_tree, &o);
}
