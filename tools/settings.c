/* SPDX-License-Identifier: BSD-2-Clause */
/* settings.c - reads and checks the configuration; see settings.h. */
#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/suppress.h"
#include "driver/upset.h"
#include "fabric/port/plug.h"
#include "net/fault_spec.h"

/* Checks that file can be written or made, and leaves nothing behind.  Returns 0 or
 * -errno. A FIFO is not opened, since that could wait for a reader. */
static int can_write(const char *file)
{
	struct stat st;
	bool there = stat(file, &st) == 0;
	int fd;

	if (there && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return access(file, W_OK) ? -errno : 0;
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	close(fd);
	if (!there)
		unlink(file);
	return 0;
}

static const char *advice(int rc)
{
	switch (-rc) {
	case EISDIR:
		return "; name a file in it, such as urnic.%p";
	case ENOENT:
		return "; make its directory first";
	case EACCES:
	case EPERM:
	case EROFS:
		return "; name a file that you may write, such as /tmp/urnic.%p";
	default:
		return "";
	}
}

const char *settings_option(const char *key)
{
	static char name[32];

	snprintf(name, sizeof(name), "%s", key);
	for (char *p = name; (p = strchr(p, '_'));)
		*p = '-';
	return name;
}

/* Writes an error that names the key as the user set it: by variable, option or file. */
static int refuse_value(const struct conf_origin *o, const char *key, int rc,
			const char *value, const char *why, char err[CONF_ERR])
{
	for (unsigned i = 0; conf_key(i); i++) {
		if (strcmp(conf_key(i)->key, key) != 0)
			continue;
		if (o->from[i] == CONF_FILE)
			snprintf(err, CONF_ERR, "%s: %s: ", o->path, key);
		else
			snprintf(err, CONF_ERR, "%s (--%s): ", conf_key(i)->env,
				 settings_option(key));
	}
	snprintf(err + strlen(err), CONF_ERR - strlen(err), "%s%s%s", value, why,
		 advice(rc));
	return rc;
}

static int check_file(const struct conf_origin *o, const char *key, const char *file,
		      char err[CONF_ERR])
{
	char why[80];
	int rc = *file ? can_write(file) : 0;

	if (rc == 0)
		return 0;
	snprintf(why, sizeof(why), ": %s", strerror(-rc));
	return refuse_value(o, key, rc, file, why, err);
}

int settings_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR])
{
	int rc = conf_read(conf, origin, err);
	struct upset_spec verbs;
	struct fault_spec spec;
	char why[CONF_ERR], wire[sizeof(conf->fault)];
	const char *file;

	if (rc)
		return rc;
	rc = upset_parse(&verbs, wire, conf->fault, why, sizeof(why));
	if (!rc)
		rc = (*conf->hca ? fault_parse_ordered : fault_parse)(&spec, wire, why,
								      sizeof(why));
	if (rc)
		return refuse_value(origin, "fault", rc, "", why, err);
	if (plug_check_name(conf->fabric))
		return refuse_value(
			origin, "fabric", -EINVAL, conf->fabric,
			": a name is"
			" letters, digits, '.', '_' and '-', 40 at most, after"
			" UID: or not",
			err);
	rc = check_file(origin, "pcap", conf->pcap, err);
	file = strchr(conf->log, ':');
	if (rc == 0 && file)
		rc = check_file(origin, "log", file + 1, err);
	if (rc == 0 && suppress_read(conf->check_suppress, why))
		return refuse_value(origin, "check_suppress", -EINVAL, "", why, err);
	return rc;
}
