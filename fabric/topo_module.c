/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_module.c - the lines of ibsim's topology files (its sim_net.c) that ibnetdiscover
 * does not write: modules, names of ports, and included files.
 *
 * As in ibsim, full names are MODULE#NODE and MODULE@PORT. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topo_own.h"

static bool has(struct topo_text text, char c)
{
	return text.len && memchr(text.at, c, text.len);
}

/* Joins prefix, between and text; returns false if the result is too long. */
static bool compose(char to[TOPO_ID], const char *prefix, const char *between,
		    struct topo_text text)
{
	char base[TOPO_ID];

	if (text.len >= sizeof(base))
		return false;
	text_copy(base, sizeof(base), text);
	return snprintf(to, TOPO_ID, "%s%s%s", prefix, between, base) < TOPO_ID;
}

bool topo_node_name(const struct topo_read *r, struct topo_text base, char to[TOPO_ID])
{
	return !has(base, '#') && !has(base, '@') &&
	       compose(to, r->module, *r->module ? "#" : "", base);
}

bool topo_peer_name(const struct topo_read *r, struct topo_text base, char to[TOPO_ID])
{
	if (has(base, '@'))
		return compose(to, *base.at == '@' ? r->module : "", "", base);
	if (has(base, '#') || !*r->module)
		return compose(to, "", "", base);
	return compose(to, r->module, "#", base);
}

int topo_module_line(struct topo_read *r)
{
	struct topo_text name;

	if (!text_char(r, '='))
		return topo_fail(r, "=");
	if (text_quoted(r, &name))
		return topo_fail(r, "the module's name in quotes, or none, \"\"");
	if (has(name, '#') || has(name, '@') || !compose(r->module, "", "", name))
		return topo_fail(r, "a name of at most 63 characters, without # and @");
	return text_end(r) ? 0 : topo_fail(r, "the end of the line");
}

/* --- names of ports ---------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
	const struct topo_alias *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	if (!order && x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (!order)
		return (x->line > y->line) - (x->line < y->line);
	return order;
}

static int name_is(const void *name, const void *alias)
{
	return strcmp(name, ((const struct topo_alias *)alias)->name);
}

int topo_sort_aliases(struct topo_read *r)
{
	const struct topo_alias *a = r->alias;

	if (r->aliases)
		qsort(r->alias, r->aliases, sizeof(*r->alias), by_name);
	for (uint32_t i = 1; i < r->aliases; i++)
		if (strcmp(a[i].name, a[i - 1].name) == 0)
			return topo_fail_line(
				r, a[i].file, a[i].line,
				"expected a new name: %s:%u has a port \"%s\"",
				r->file_name[a[i - 1].file], a[i - 1].line, a[i].name);
	return 0;
}

const struct topo_alias *topo_find_alias(const struct topo_read *r, const char *name)
{
	if (!r->aliases)
		return NULL;
	return bsearch(name, r->alias, r->aliases, sizeof(*r->alias), name_is);
}

static int add_alias(struct topo_read *r, const struct topo_alias *a)
{
	if (r->aliases == r->alias_cap) {
		uint32_t cap = r->alias_cap ? r->alias_cap * 2 : 16;
		struct topo_alias *more = realloc(r->alias, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		r->alias = more;
		r->alias_cap = cap;
	}
	r->alias[r->aliases++] = *a;
	return 0;
}

int topo_alias_line(struct topo_read *r)
{
	struct topo_alias a = { .line = r->line,
				.file = r->file,
				.node = r->t.nodes - 1 };
	struct topo_node *n = &r->t.node[a.node];
	struct topo_text name;
	uint64_t port;
	int rc;

	if (!text_char(r, '['))
		return topo_fail(r, "[");
	if (text_number(r, 10, n->ports, &port) || !port)
		return topo_fail(r, "a port of this node, counted from 1");
	if (!text_char(r, ']'))
		return topo_fail(r, "]");
	if (text_quoted(r, &name) || !name.len)
		return topo_fail(r, "a name for this port, in quotes");
	if (has(name, '#') || has(name, '@') || !compose(a.name, r->module, "@", name))
		return topo_fail(r, "a name of at most 63 characters, without # and @");
	a.port = (uint8_t)port;
	rc = topo_port_options(r, &n->port[port]);
	return rc ? rc : add_alias(r, &a);
}

/* --- files in files ------------------------------------------------------------ */

static int read_lines(struct topo_read *r, const char *name, const char *text, size_t len)
{
	const struct topo_read was = *r;
	int rc;

	r->file_name[r->files] = r->name = name;
	r->file = r->files++;
	r->depth++;
	r->line = 0;
	rc = topo_lines(r, text, len);
	r->depth--;
	r->file = was.file;
	r->name = was.name;
	r->line = was.line;
	r->start = was.start;
	r->at = was.at;
	r->stop = was.stop;
	r->in_node = false;
	return rc;
}

/* Reads an included file as if its lines stood here: what it sets stays set after it. */
int topo_include_line(struct topo_read *r)
{
	char *name, *text = NULL;
	struct topo_text quoted;
	size_t len = 0;
	int rc;

	if (text_quoted(r, &quoted) || !quoted.len)
		return topo_fail(r, "the name of a file in quotes");
	if (!text_end(r))
		return topo_fail(r, "the end of the line");
	if (!r->open)
		return topo_fail_at_start(r, "a topology that includes no file");
	if (r->depth == TOPO_DEPTH || r->files == TOPO_FILES)
		return topo_fail_at_start(r, "fewer included files: at most 8 within each"
					     " other, and 255 in all");
	name = strndup(quoted.at, quoted.len);
	rc = name ? r->open(name, &text, &len) : -ENOMEM;
	if (!name)
		return rc;
	if (rc) {
		topo_fail_line(r, r->file, r->line, "%s: %s", name, strerror(-rc));
		free(name);
		return -EINVAL;
	}
	rc = read_lines(r, name, text, len);
	free(text);
	return rc;
}

/* Frees the names of included files; the first file's name is the caller's. */
void topo_end_files(struct topo_read *r)
{
	for (uint32_t i = 1; i < r->files; i++)
		free((void *)(uintptr_t)r->file_name[i]);
}
