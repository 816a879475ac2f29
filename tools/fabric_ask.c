/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_ask.c - the commands' end of fabric_control.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/plug.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "sys/user.h"

const char *fabric_why(int rc)
{
	switch (-rc) {
	case EACCES:
		return "another user has that name";
	case EIO:
		return "it has ended";
	case EINVAL:
		return "a name is letters, digits, '.', '_' and '-'";
	case ENODEV:
		return "the fabric has no such node or port";
	default:
		return plug_why(rc);
	}
}

static json_t *talk(const char *fabric, const char *ask, pid_t *pid, int *rc)
{
	int fd = plug_control(fabric);
	char *text = NULL;
	size_t len = 0;
	json_t *j = NULL;
	uid_t uid;

	*pid = 0;
	if (fd >= 0)
		(void)user_of_peer(fd, &uid, pid);
	*rc = fd < 0 ? fd : plug_tell(fd, ask, &text, &len);
	if (fd >= 0)
		close(fd);
	if (!*rc) {
		j = json_loadb(text, len, 0, NULL);
		*rc = json_is_object(j) ? 0 : -EPROTO;
	}
	free(text);
	return j;
}

json_t *control_try(const char *fabric, json_t *ask, pid_t *pid, int *rc)
{
	char *text = json_dumps(ask, JSON_COMPACT);
	json_t *j;

	*pid = 0;
	*rc = -ENOMEM;
	j = text ? talk(fabric, text, pid, rc) : NULL;
	free(text);
	json_decref(ask);
	return j;
}

json_t *control_ask(const char *who, const char *fabric, json_t *ask)
{
	char running[256];
	const char *bad;
	pid_t pid;
	int rc;
	json_t *j = control_try(fabric, ask, &pid, &rc);

	bad = json_string_value(json_object_get(j, "error"));
	if (!rc && !bad)
		return j;
	if (rc) {
		plug_running(running, sizeof(running));
		fprintf(stderr, "%s: fabric %s: %s.  Fabrics that run here: %s\n", who,
			fabric, fabric_why(rc), running);
	} else {
		fprintf(stderr, "%s: %s\n", who, bad);
	}
	json_decref(j);
	return NULL;
}
