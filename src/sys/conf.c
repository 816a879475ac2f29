/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.c - reads the configuration; all of it is driven by the table in conf.def.  See
 * conf.h. */
#include "sys/conf.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/checks.h"
#include "sys/ident.h"
#include "sys/like.h"
#include "sys/log.h"
#include "sys/near.h"
#include "sys/order_spec.h"
#include "sys/pair.h"

enum type {
	TEXT,
	LOG,
	IDENT,
	BOOL,
	PORT,
	LOCAL,
	LINK,
	SHARE,
	FORMAT,
	CHECK_LIST,
	LIKE,
	ORDER
};

static const char *const type_name[] = {
	[TEXT] = "text",       [LOG] = "level[:file]", [IDENT] = "identity",
	[BOOL] = "yes or no",  [PORT] = "number",      [LOCAL] = "choice",
	[LINK] = "choice",     [SHARE] = "choice",     [FORMAT] = "choice",
	[CHECK_LIST] = "list", [LIKE] = "devices",     [ORDER] = "list",
};

/* The words of each choice, each at its number in the choice's enum. */
static const char *const local_words[] = {
	[CONF_LOCAL_OFF] = "off",   [CONF_LOCAL_PIPE] = "pipe", [CONF_LOCAL_VM] = "vm",
	[CONF_LOCAL_AUTO] = "auto", [CONF_LOCAL_MAP] = "map",	NULL,
};

static const char *const link_words[] = {
	[CONF_LINK_UDP] = "udp",
	[CONF_LINK_RAW] = "raw",
	NULL,
};

static const char *const share_words[] = {
	[CONF_SHARE_USER] = "user",
	[CONF_SHARE_HOST] = "host",
	[CONF_SHARE_AUTO] = "auto",
	NULL,
};

static const char *const format_words[] = {
	[CONF_FORMAT_TEXT] = "text",
	[CONF_FORMAT_JSON] = "json",
	NULL,
};

static const char *const *const choices[] = {
	[LOCAL] = local_words,
	[LINK] = link_words,
	[SHARE] = share_words,
	[FORMAT] = format_words,
};

_Static_assert(sizeof(enum conf_local) == sizeof(unsigned) &&
		       sizeof(enum conf_link) == sizeof(unsigned) &&
		       sizeof(enum conf_share) == sizeof(unsigned) &&
		       sizeof(enum conf_format) == sizeof(unsigned),
	       "a choice is kept as an unsigned int");

static const struct row {
	struct conf_key k;
	enum type type;
	size_t offset, size;
} rows[] = {
#define CONF(key, env, type, dflt, text)                                                 \
	{ { #key, #env, NULL, dflt, text },                                              \
	  type,                                                                          \
	  offsetof(struct conf, key),                                                    \
	  sizeof(((struct conf *)0)->key) },
#include "sys/conf.def"
#undef CONF
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

_Static_assert(ROWS <= sizeof(((struct conf_origin *)0)->from) / sizeof(int),
	       "conf_origin has an entry for each key");

static __attribute__((format(printf, 2, 3))) int fail(char err[CONF_ERR], const char *fmt,
						      ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, CONF_ERR, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

const struct conf_key *conf_key(unsigned i)
{
	static struct conf_key out[ROWS];

	if (i >= ROWS)
		return NULL;
	out[i] = rows[i].k;
	out[i].type = type_name[rows[i].type];
	return &out[i];
}

static int set_text(const struct row *r, void *at, const char *value, char *err)
{
	size_t n = strlen(value);

	if (n >= r->size)
		return fail(err, "longer than %zu bytes", r->size - 1);
	memcpy(at, value, n + 1);
	return 0;
}

static int set_log(const struct row *r, void *at, const char *value, char *err)
{
	static const char *const levels[] = { "error", "warn", "info", "debug" };
	size_t n = strcspn(value, ":");

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		if (strlen(levels[i]) == n && !strncmp(levels[i], value, n) &&
		    strcmp(value + n, ":") != 0)
			return set_text(r, at, value, err);
	}
	return fail(err,
		    "'%s' is not error, warn, info or debug, with :FILE or"
		    " without",
		    value);
}

static int set_ident(const struct row *r, void *at, const char *value, char *err)
{
	struct ident id;
	int rc = ident_parse(value, &id, err, CONF_ERR);

	return rc ? rc : set_text(r, at, value, err);
}

static const char *check_at(unsigned i)
{
	return i < CHECKS ? check_rows[i].name : NULL;
}

static int set_checks(const struct row *r, void *at, const char *value, char *err)
{
	char wrong[CHECK_WORD], near[NEAR_HINT];
	uint64_t set;
	int n;

	if (!checks_parse(value, &set, wrong))
		return set_text(r, at, value, err);
	near_hint(near, wrong, check_at);
	n = snprintf(err, CONF_ERR, "there is no check '%s'%s; there are", wrong, near);
	for (unsigned i = 0; i < CHECKS && n < CONF_ERR; i++)
		n += snprintf(err + n, CONF_ERR - (size_t)n, "%s %s", i ? "," : "",
			      check_rows[i].name);
	return -EINVAL;
}

static int set_like(const struct row *r, void *at, const char *value, char *err)
{
	struct like like;
	int rc = like_parse(value, &like, err, CONF_ERR);

	return rc ? rc : set_text(r, at, value, err);
}

static int set_order(const struct row *r, void *at, const char *value, char *err)
{
	struct order_spec spec;
	int rc = order_parse(value, &spec, err, CONF_ERR);

	return rc ? rc : set_text(r, at, value, err);
}

static int set_choice(const char *const *word, void *at, const char *value, char *err)
{
	char all[80] = "";
	size_t len = 0;

	for (unsigned i = 0; word[i]; i++) {
		const char *then = !word[i + 1] ? "" : word[i + 2] ? ", " : " or ";

		if (strcmp(word[i], value) == 0) {
			*(unsigned *)at = i;
			return 0;
		}
		if (len < sizeof(all))
			len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s",
						word[i], then);
	}
	return fail(err, "'%s' is not %s", value, all);
}

static int set_bool(void *at, const char *value, char *err)
{
	static const char *const yes[] = { "yes", "on", "true", "1" };
	static const char *const no[] = { "no", "off", "false", "0" };

	for (int i = 0; i < 4; i++) {
		if (!strcmp(value, yes[i]) || !strcmp(value, no[i])) {
			*(bool *)at = !strcmp(value, yes[i]);
			return 0;
		}
	}
	return fail(err, "'%s' is not yes or no", value);
}

static int set_port(void *at, const char *value, char *err)
{
	char *end;
	unsigned long v = strtoul(value, &end, 10);

	if (!*value || *end || v == 0 || v > UINT16_MAX)
		return fail(err, "'%s' is not a number from 1 to 65535", value);
	*(uint16_t *)at = (uint16_t)v;
	return 0;
}

static int set_value(struct conf *c, const struct row *r, const char *value,
		     char err[CONF_ERR])
{
	void *at = (char *)c + r->offset;

	switch (r->type) {
	case TEXT:
		return set_text(r, at, value, err);
	case LOG:
		return set_log(r, at, value, err);
	case IDENT:
		return set_ident(r, at, value, err);
	case CHECK_LIST:
		return set_checks(r, at, value, err);
	case LIKE:
		return set_like(r, at, value, err);
	case ORDER:
		return set_order(r, at, value, err);
	case BOOL:
		return set_bool(at, value, err);
	case PORT:
		return set_port(at, value, err);
	case LOCAL:
	case LINK:
	case SHARE:
	case FORMAT:
		return set_choice(choices[r->type], at, value, err);
	}
	return fail(err, "no such type");
}

static const struct row *find_row(const char *key)
{
	for (unsigned i = 0; i < ROWS; i++) {
		if (strcmp(rows[i].k.key, key) == 0)
			return &rows[i];
	}
	return NULL;
}

static const char *key_at(unsigned i)
{
	return i < ROWS ? rows[i].k.key : NULL;
}

static int unknown_key(const char *key, char err[CONF_ERR])
{
	char near[NEAR_HINT];
	int n;

	near_hint(near, key, key_at);
	n = snprintf(err, CONF_ERR, "unknown key '%.64s'%s; keys are", key, near);
	for (unsigned i = 0; i < ROWS && n < CONF_ERR; i++)
		n += snprintf(err + n, CONF_ERR - (size_t)n, "%s %s", i ? "," : "",
			      rows[i].k.key);
	return -EINVAL;
}

int conf_check(const char *key, const char *value, char err[CONF_ERR])
{
	const struct row *r = find_row(key);
	struct conf scratch;

	return r ? set_value(&scratch, r, value, err) : unknown_key(key, err);
}

/* A ; after a blank begins a comment, too. */
static void drop_comment(char *value)
{
	for (char *p = value; (p = strchr(p, ';')); p++) {
		if (p > value && p[-1] != ' ' && p[-1] != '\t')
			continue;
		while (p > value && (p[-1] == ' ' || p[-1] == '\t'))
			p--;
		*p = '\0';
		return;
	}
}

static int file_pair(struct conf *c, struct conf_origin *o, const char *key, char *value,
		     char err[CONF_ERR])
{
	const struct row *r = find_row(key);
	char why[CONF_ERR];

	if (*key == ';' || *key == '#' || (!*key && !value))
		return 0;
	if (*key == '[' && !value)
		return strcmp(key, "[urnic]") == 0
			       ? 0
			       : fail(err, "unknown section %.64s; only [urnic] is known",
				      key);
	if (!value)
		return fail(err, "not key = value");
	if (!r)
		return unknown_key(key, err);
	drop_comment(value);
	if (set_value(c, r, value, why) != 0)
		return fail(err, "%s: %.400s", key, why);
	o->from[r - rows] = CONF_FILE;
	return 0;
}

/* URNIC_CONF, or else the user's own file if there is one.  A set-user-id program reads
 * no environment variables, since its user may not choose the files that it writes to (a
 * log, a capture). */
static void file_path(struct conf_origin *o)
{
	const char *p = secure_getenv("URNIC_CONF"), *home;

	o->path[0] = '\0';
	if (p) {
		snprintf(o->path, sizeof(o->path), "%s", p);
		return;
	}
	p = secure_getenv("XDG_CONFIG_HOME");
	home = secure_getenv("HOME");
	if (p && p[0] == '/')
		snprintf(o->path, sizeof(o->path), "%s/urnic/urnic.conf", p);
	else if (home && home[0] == '/')
		snprintf(o->path, sizeof(o->path), "%s/.config/urnic/urnic.conf", home);
	if (o->path[0] && access(o->path, F_OK) != 0)
		o->path[0] = '\0';
}

static int read_lines(struct conf *c, struct conf_origin *o, FILE *f, char err[CONF_ERR])
{
	char *line = NULL, why[CONF_ERR];
	size_t room = 0;
	int rc = 0;

	for (int n = 1; !rc && getline(&line, &room, f) >= 0; n++) {
		char *at = line, *value, *key = pair_next(&at, '\n', &value);

		rc = file_pair(c, o, key, value, why);
		if (rc)
			fail(err, "%s:%d: %.300s", o->path, n, why);
	}
	if (!rc && ferror(f))
		rc = fail(err, "%s: %s", o->path, strerror(errno));
	free(line);
	return rc;
}

static int read_file(struct conf *c, struct conf_origin *o, char err[CONF_ERR])
{
	FILE *f;
	int rc;

	file_path(o);
	if (!o->path[0])
		return 0;
	f = fopen(o->path, "re");
	if (!f)
		return fail(err, "%s: %s", o->path, strerror(errno));
	rc = read_lines(c, o, f, err);
	fclose(f);
	return rc;
}

/* Variables of this project's own scripts and tests. */
/* clang-format off */
static const char *const not_keys[] = {
	"URNIC_CONF=", "URNIC_BUILD=", "URNIC_SOURCE_ROOT=",
	"URNIC_REQUIRE_ALL=", "URNIC_CHECK_FULL=", "URNIC_IN_USERNS=",
	"URNIC_TEST",
};
/* clang-format on */

static bool known_variable(const char *var)
{
	for (unsigned i = 0; i < ROWS; i++) {
		size_t n = strlen(rows[i].k.env);

		if (strncmp(var, rows[i].k.env, n) == 0 && var[n] == '=')
			return true;
	}
	for (size_t i = 0; i < sizeof(not_keys) / sizeof(not_keys[0]); i++) {
		if (strncmp(var, not_keys[i], strlen(not_keys[i])) == 0)
			return true;
	}
	return false;
}

static const char *env_at(unsigned i)
{
	return i < ROWS ? rows[i].k.env : NULL;
}

/* A misspelt variable is an error: otherwise it would have no effect and nobody would be
 * told. */
static int check_names(char err[CONF_ERR])
{
	extern char **environ;
	char name[64], near[NEAR_HINT];

	for (char **e = environ; e && *e; e++) {
		if (strncmp(*e, "URNIC_", 6) != 0 || known_variable(*e))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		near_hint(near, name, env_at);
		return fail(err, "%s: unknown variable%s; see urnic(7)", name, near);
	}
	return 0;
}

static int read_env(struct conf *c, struct conf_origin *o, char err[CONF_ERR])
{
	char why[CONF_ERR];

	for (unsigned i = 0; i < ROWS; i++) {
		const char *v = secure_getenv(rows[i].k.env);

		if (!v)
			continue;
		if (set_value(c, &rows[i], v, why) != 0)
			return fail(err, "%s: %.400s", rows[i].k.env, why);
		o->from[i] = CONF_ENV;
	}
	return check_names(err);
}

int conf_read(struct conf *conf, struct conf_origin *origin, char err[CONF_ERR])
{
	struct conf c;
	int rc;

	memset(&c, 0, sizeof(c));
	memset(origin, 0, sizeof(*origin));
	for (unsigned i = 0; i < ROWS; i++) {
		rc = set_value(&c, &rows[i], rows[i].k.dflt, err);
		if (rc)
			return rc;
	}
	rc = read_file(&c, origin, err);
	if (rc == 0)
		rc = read_env(&c, origin, err);
	if (rc == 0)
		*conf = c;
	return rc;
}

static struct conf the_conf;
static bool good;

static void read_once(void)
{
	struct conf_origin origin;
	char err[CONF_ERR];
	int rc;

	if (conf_read(&the_conf, &origin, err) != 0) {
		log_error("%s", err);
		return;
	}
	log_use_json(the_conf.log_format == CONF_FORMAT_JSON);
	rc = log_setup(the_conf.log);
	if (rc)
		log_error("URNIC_LOG: %s: %s", the_conf.log, strerror(-rc));
	good = rc == 0;
}

const struct conf *conf_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_once);
	return good ? &the_conf : NULL;
}

const char *conf_value(const struct conf *conf, unsigned i, char buf[CONF_VALUE])
{
	const struct row *r = &rows[i];
	const void *at = (const char *)conf + r->offset;

	switch (r->type) {
	case TEXT:
	case LOG:
	case IDENT:
	case CHECK_LIST:
	case LIKE:
	case ORDER:
		snprintf(buf, CONF_VALUE, "%s", (const char *)at);
		break;
	case BOOL:
		snprintf(buf, CONF_VALUE, "%s", *(const bool *)at ? "yes" : "no");
		break;
	case PORT:
		snprintf(buf, CONF_VALUE, "%u", *(const uint16_t *)at);
		break;
	case LOCAL:
	case LINK:
	case SHARE:
	case FORMAT:
		snprintf(buf, CONF_VALUE, "%s", choices[r->type][*(const unsigned *)at]);
		break;
	}
	return buf;
}
