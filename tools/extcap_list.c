/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap_list.c - the interfaces of urnic extcap: their names, and which there are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "extcap.h"
#include "fabric/port/plug.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "seen.h"

enum { PORTS_MAX = 512 };

static const char prefix[] = "urnic-", fabrics[] = "fabric:";

/* --- names ----------------------------------------------------------------------- */

static int take_fabric(char *text, struct extcap_interface *out)
{
	char *node = strchr(text, '/'), *port = strrchr(text, '/'), *end;
	unsigned long n;

	out->kind = EXTCAP_FABRIC;
	if (node) {
		if (node == port)
			return -EINVAL;
		*node++ = *port++ = '\0';
		n = strtoul(port, &end, 10);
		if (*port < '0' || *port > '9' || *end || !n || n > 254 || !*node)
			return -EINVAL;
		out->port = (uint32_t)n;
		strcpy(out->node, node);
	}
	strcpy(out->fabric, text);
	return *text ? 0 : -EINVAL;
}

int extcap_interface(const char *name, struct extcap_interface *out)
{
	char text[EXTCAP_NAME_MAX];
	const char *rest = name + strlen(prefix);
	int rc = -EINVAL;

	*out = (struct extcap_interface){ .kind = EXTCAP_ALL };
	if (strncmp(name, prefix, strlen(prefix)) == 0 && strlen(name) < sizeof(text)) {
		if (strcmp(rest, "all") == 0)
			return 0;
		if (strncmp(rest, fabrics, strlen(fabrics)) == 0) {
			strcpy(text, rest + strlen(fabrics));
			rc = take_fabric(text, out);
		} else {
			out->kind = EXTCAP_PROCESS;
			out->pid = ask_pid_of(rest);
			rc = out->pid ? 0 : -EINVAL;
		}
	}
	if (!rc)
		return 0;
	fprintf(stderr,
		EXTCAP_WHO ": there is no interface '%s': they are urnic-all, urnic-PID, "
			   "urnic-fabric:NAME and urnic-fabric:NAME/NODE/PORT\n",
		name);
	return 1;
}

/* --- lists ------------------------------------------------------------------------ */

/* A display name must not end its sentence. */
static void print_interface(const char *value, const char *display)
{
	char text[EXTCAP_NAME_MAX];

	snprintf(text, sizeof(text), "%s", display);
	for (char *c = text; *c; c++)
		if (*c < ' ' || *c > '~' || *c == '{' || *c == '}')
			*c = '?';
	printf("interface {value=%s}{display=%s}\n", value, text);
}

static void list_processes(void)
{
	struct ask *a = ask_open(EXTCAP_WHO);
	struct ask_process *list = NULL;
	size_t n = a ? ask_list(a, &list) : 0;

	for (size_t i = 0; i < n; i++) {
		char value[32], display[64], name[16];

		if (!list[i].ours || !list[i].pid)
			continue;
		ask_name(list[i].pid, name);
		snprintf(value, sizeof(value), "%s%d", prefix, (int)list[i].pid);
		snprintf(display, sizeof(display), "urnic: process %d (%s)",
			 (int)list[i].pid, name);
		print_interface(value, display);
	}
	free(list);
	ask_close(a);
}

/* Can a name be part of an interface's? */
static bool is_plain(const char *s)
{
	for (; *s; s++)
		if (*s <= ' ' || *s > '~' || *s == '{' || *s == '}')
			return false;
	return true;
}

static void list_port(const char *fabric, const char *node, long long port)
{
	char value[EXTCAP_NAME_MAX], display[EXTCAP_NAME_MAX];

	if (!is_plain(node) ||
	    snprintf(value, sizeof(value), "%s%s%s/%s/%lld", prefix, fabrics, fabric,
		     node, port) >= (int)sizeof(value))
		return;
	snprintf(display, sizeof(display), "urnic: fabric %.100s, %.100s, port %lld",
		 fabric, node, port);
	print_interface(value, display);
}

static void list_ports(const char *fabric, const json_t *status)
{
	const json_t *node, *port;
	size_t i, k, left = PORTS_MAX;

	json_array_foreach(json_object_get(status, "nodes"), i, node)
	{
		const char *id = json_string_value(json_object_get(node, "id"));

		json_array_foreach(json_object_get(node, "ports"), k, port)
		{
			json_int_t n = json_integer_value(json_object_get(port, "port"));

			if (id && n > 0 && left && left--)
				list_port(fabric, id, (long long)n);
		}
	}
	if (!left)
		fprintf(stderr,
			EXTCAP_WHO ": fabric %s has more ports than the %d that are "
				   "listed; others can be named all the same\n",
			fabric, PORTS_MAX);
}

/* Another user's fabric answers that user and root only. */
static void list_fabric(void *arg, const char *fabric)
{
	char value[EXTCAP_NAME_MAX], display[EXTCAP_NAME_MAX];
	pid_t pid;
	int rc;
	json_t *status =
		control_try(fabric, json_pack("{ss}", "ask", "status"), &pid, &rc);

	(void)arg;
	if (status && is_plain(fabric) &&
	    snprintf(value, sizeof(value), "%s%s%s", prefix, fabrics, fabric) <
		    (int)sizeof(value)) {
		snprintf(display, sizeof(display), "urnic: fabric %.200s, all links",
			 fabric);
		print_interface(value, display);
		list_ports(fabric, status);
	}
	json_decref(status);
}

int extcap_list(void)
{
	print_interface("urnic-all", "urnic: all processes");
	list_processes();
	plug_each_running(list_fabric, NULL);
	return 0;
}
