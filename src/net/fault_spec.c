/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_spec.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/addr.h"
#include "sys/near.h"
#include "sys/pair.h"
#include "sys/take.h"

/* The take_ functions parse the text at *s, advance *s and return false if it is
 * malformed (sys/take.h). */

static bool take_time(const char **s, uint64_t *ns)
{
	static const struct take_unit units[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};
	const uint64_t most = 1000 * units[3].worth;

	return take_amount(s, units, 4, ns) && *ns <= most;
}

static bool take_size(const char **s, uint64_t *bytes)
{
	if (!take_u64(s, bytes) || *bytes > UINT32_MAX)
		return false;
	if (take_more(s, 'k'))
		*bytes <<= 10;
	else if (take_more(s, 'm'))
		*bytes <<= 20;
	return *bytes > 0;
}

static bool take_bits(const char **s, uint64_t *rate)
{
	static const struct take_unit units[] = {
		{ "bit", 1 },
		{ "kbit", 1000 },
		{ "mbit", 1000000 },
		{ "gbit", 1000000000 },
	};
	const uint64_t most = 1000 * units[3].worth;

	return take_amount(s, units, 4, rate) && *rate >= 1000 && *rate <= most;
}

/* --- the keys: each of fault_key.def has a parser of its name -------------------------
 */

static bool take_delay(const char **s, struct fault_rules *r)
{
	if (!take_time(s, &r->delay_ns))
		return false;
	r->delay = 1000000;
	r->jitter_ns = 0;
	if (take_more(s, '~') &&
	    (!take_time(s, &r->jitter_ns) || r->jitter_ns > r->delay_ns))
		return false;
	return !take_more(s, ':') || take_ppm(s, &r->delay);
}

static bool take_nth(const char **s, struct fault_rules *r)
{
	uint64_t n;

	if (!take_u64(s, &n) || n == 0)
		return false;
	for (int i = 0; i < FAULT_NTH_MAX; i++) {
		if (r->nth[i] == 0) {
			r->nth[i] = n;
			return true;
		}
	}
	return false;
}

static bool take_drop(const char **s, struct fault_rules *r)
{
	return take_ppm(s, &r->drop);
}

static bool take_dup(const char **s, struct fault_rules *r)
{
	return take_ppm(s, &r->dup);
}

static bool take_reorder(const char **s, struct fault_rules *r)
{
	return take_ppm(s, &r->reorder);
}

static bool take_corrupt(const char **s, struct fault_rules *r)
{
	return take_ppm(s, &r->corrupt);
}

static bool take_ecn(const char **s, struct fault_rules *r)
{
	return take_ppm(s, &r->ecn);
}

static bool take_burst(const char **s, struct fault_rules *r)
{
	r->burst.lost_bad = 1000000;
	r->burst.lost_good = 0;
	if (!take_ppm(s, &r->burst.to_bad) || !take_more(s, ':') ||
	    !take_ppm(s, &r->burst.to_good))
		return false;
	if (!take_more(s, ':'))
		return true;
	return take_ppm(s, &r->burst.lost_bad) &&
	       (!take_more(s, ':') || take_ppm(s, &r->burst.lost_good));
}

static bool take_rate(const char **s, struct fault_rules *r)
{
	r->queue = 256 << 10;
	return take_bits(s, &r->rate) && (!take_more(s, ':') || take_size(s, &r->queue));
}

static bool take_qp(const char **s, struct fault_group *g)
{
	char *end;
	unsigned long n;

	if (**s < '0' || **s > '9')
		return false;
	n = strtoul(*s, &end, (*s)[0] == '0' && (*s)[1] == 'x' ? 16 : 10);
	*s = end;
	g->qp = (uint32_t)n;
	g->has_qp = true;
	return n > 0 && n <= 0xffffff;
}

/* Takes the rest of the text. */
static bool take_peer(const char **s, struct fault_group *g)
{
	struct in_addr v4;
	uint64_t lid;

	g->has_lid = g->has_ip = false;
	if (strncmp(*s, "lid:", 4) == 0) {
		*s += 4;
		g->has_lid = take_u64(s, &lid) && lid > 0 && lid <= UINT16_MAX;
		g->lid = g->has_lid ? (uint16_t)lid : 0;
		return g->has_lid;
	}
	g->has_ip = true;
	if (inet_pton(AF_INET, *s, &v4) == 1)
		addr_map_v4(g->ip, &v4);
	else if (inet_pton(AF_INET6, *s, g->ip) != 1)
		return false;
	*s += strlen(*s);
	return true;
}

static bool take_opcode(const char **s, struct fault_group *g)
{
	static const struct {
		const char *name;
		enum fault_op op;
	} names[] = {
		{ "send", FAULT_SEND },	    { "write", FAULT_WRITE },
		{ "read", FAULT_READ },	    { "response", FAULT_RESPONSE },
		{ "atomic", FAULT_ATOMIC }, { "flush", FAULT_FLUSH },
		{ "ack", FAULT_ACK },	    { "nak", FAULT_NAK },
		{ "rnr", FAULT_RNR },	    { "cnp", FAULT_CNP },
		{ "mad", FAULT_MAD },
	};

	g->ops = 0;
	do {
		size_t n = strcspn(*s, "+");
		unsigned op = 0;

		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strlen(names[i].name) == n &&
			    strncmp(names[i].name, *s, n) == 0)
				op = names[i].op;
		if (!op)
			return false;
		g->ops |= (uint16_t)op;
		*s += n;
	} while (take_more(s, '+'));
	return true;
}

static bool take_at(const char **s, struct fault_group *g)
{
	return take_time(s, &g->at);
}

static bool take_for(const char **s, struct fault_group *g)
{
	return take_time(s, &g->len) && g->len > 0;
}

static bool take_every(const char **s, struct fault_group *g)
{
	return take_time(s, &g->every) && g->every > 0;
}

static bool take_seed(const char **s, struct fault_spec *out)
{
	return take_u64(s, &out->seed);
}

static bool take_event(const char **s, struct fault_spec *out)
{
	if (out->events == FAULT_EVENTS_MAX ||
	    fault_event_parse(&out->event[out->events], *s, ':'))
		return false;
	out->events++;
	*s += strlen(*s);
	return true;
}

/* parse_item() reads the file. */
static bool take_events(const char **s, struct fault_spec *out)
{
	(void)s, (void)out;
	return false;
}

/* Which member has the parser of a key. */
enum concerns { SIDED, WHOLE, ONE, ALL };
#define SIDED_MEMBER sided
#define WHOLE_MEMBER whole
#define ONE_MEMBER   all
#define ALL_MEMBER   all

static const struct row {
	struct fault_key key;
	const char *want;
	enum concerns of;
	union {
		bool (*sided)(const char **s, struct fault_rules *r);
		bool (*whole)(const char **s, struct fault_group *g);
		bool (*all)(const char **s, struct fault_spec *out);
	} take;
} rows[] = {
#define KEY(name, of, value, want, text)                                                 \
	{ { #name, value, text }, want, of, { .of##_MEMBER = take_##name } },
#include "net/fault_key.def"
#undef KEY
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

const struct fault_key *fault_key(unsigned i)
{
	return i < ROWS ? &rows[i].key : NULL;
}

static const char *key_name(unsigned i)
{
	return i < ROWS ? rows[i].key.name : NULL;
}

/* --- items, groups, the whole ---------------------------------------------------------
 */

__attribute__((format(printf, 3, 4))) static int complain(char *err, size_t errlen,
							  const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static int complain_of_key(char *err, size_t errlen, const char *item, const char *value,
			   const char *key)
{
	char all[256] = "", near[NEAR_HINT];
	size_t n = 0;

	for (unsigned i = 0; i < ROWS && n < sizeof(all); i++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "",
				      rows[i].key.name);
	near_hint(near, key, key_name);
	return complain(err, errlen, "'%s=%.60s': no fault is called %s%s; there are %s",
			item, value, key, near, all);
}

/* "tx:" or "rx:" before the key limits the fault to that direction. */
static const char *take_direction(const char *key, bool *tx, bool *rx)
{
	*tx = strncmp(key, "rx:", 3) != 0;
	*rx = strncmp(key, "tx:", 3) != 0;
	return *tx && *rx ? key : key + 3;
}

static bool take_sided(const struct row *r, struct fault_group *g, bool tx, bool rx,
		       const char *value)
{
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		const char *at = value;

		if (!(dir == FAULT_TX ? tx : rx))
			continue;
		if (!r->take.sided(&at, &g->rules[dir]) || *at)
			return false;
	}
	return true;
}

static bool take_value(const struct row *r, struct fault_spec *out, bool tx, bool rx,
		       const char *value)
{
	struct fault_group *g = &out->group[out->groups - 1];
	const char *at = value;

	switch (r->of) {
	case SIDED:
		return take_sided(r, g, tx, rx, value);
	case WHOLE:
		return r->take.whole(&at, g) && !*at;
	case ONE:
	case ALL:
		return r->take.all(&at, out) && !*at;
	}
	return false;
}

static const struct row *find_row(const char *key)
{
	for (unsigned i = 0; i < ROWS; i++)
		if (strcmp(rows[i].key.name, key) == 0)
			return &rows[i];
	return NULL;
}

/* The events from number `from` on are of these directions. */
static void set_sides(struct fault_spec *s, unsigned from, bool tx, bool rx)
{
	for (unsigned i = from; i < s->events; i++) {
		s->event[i].not_tx = !tx;
		s->event[i].not_rx = !rx;
	}
}

static int parse_item(struct fault_spec *out, const char *item, const char *value,
		      bool files, char *err, size_t errlen)
{
	const unsigned events = out->events;
	const struct row *r;
	const char *key;
	bool tx, rx, right;

	if (!value)
		return complain(err, errlen, "'%s' is not KEY=VALUE", item);
	key = take_direction(item, &tx, &rx);
	r = find_row(key);
	if (!r)
		return complain_of_key(err, errlen, item, value, key);
	if ((r->of == WHOLE || r->of == ALL) && key != item)
		return complain(err, errlen, "'%s=%.60s': %s is for both directions",
				item, value, key);
	if (files && strcmp(key, "events") == 0) {
		if (fault_events_read(value, out->event, &out->events, FAULT_EVENTS_MAX,
				      err, errlen))
			return -EINVAL;
		right = true;
	} else {
		right = take_value(r, out, tx, rx, value);
	}
	set_sides(out, events, tx, rx);
	return right ? 0
		     : complain(err, errlen, "'%s=%.60s': %s wants %s", item, value, key,
				r->want);
}

/* Of an item that is right. */
static enum concerns concern_of(const char *item)
{
	bool tx, rx;
	const struct row *r = find_row(take_direction(item, &tx, &rx));

	return r ? r->of : ALL;
}

static int check_group(const struct fault_group *g, char *err, size_t errlen)
{
	if (g->every && !g->len)
		return complain(err, errlen, "every= wants for=: how long each time?");
	if (g->every && g->every <= g->len)
		return complain(err, errlen, "every= wants a longer time than for=");
	return 0;
}

/* at: the group's items; whole: the text that it ends. */
static int parse_group(struct fault_spec *s, char *at, const char *whole, bool files,
		       char *err, size_t errlen)
{
	bool aims = false, hits = false;
	int rc = *at || !strchr(whole, ';')
			 ? 0
			 : complain(err, errlen, "'%.200s': a group (;) is empty", whole);

	while (!rc && at) {
		char *value, *item = pair_next(&at, ',', &value);

		rc = !at && !*item && !value
			     ? complain(err, errlen, "'%.200s' ends with a comma", whole)
			     : parse_item(s, item, value, files, err, errlen);
		aims |= !rc && concern_of(item) == WHOLE;
		hits |= !rc && (concern_of(item) == SIDED || concern_of(item) == ONE);
	}
	if (!rc)
		rc = check_group(&s->group[s->groups - 1], err, errlen);
	if (!rc && aims && !hits)
		rc = complain(err, errlen,
			      "'%.200s' has no fault of packets, only what it is for",
			      whole);
	return rc;
}

static int parse_groups(struct fault_spec *s, char *at, const char *whole, bool files,
			char *err, size_t errlen)
{
	char *group;
	int rc = 0;

	while (!rc && (group = strsep(&at, ";"))) {
		if (s->groups == FAULT_GROUPS_MAX)
			return complain(err, errlen, "more than %d groups (;)",
					FAULT_GROUPS_MAX);
		s->groups++;
		rc = parse_group(s, group, whole, files, err, errlen);
	}
	return rc;
}

static int parse(struct fault_spec *out, const char *text, bool files, char *err,
		 size_t errlen)
{
	struct fault_spec *s = calloc(1, sizeof(*s));
	char *copy = strdup(text);
	int rc = 0;

	if (!s || !copy)
		rc = complain(err, errlen, "no memory");
	else
		s->seed = 1;
	if (!rc && strlen(text) > FAULT_TEXT_MAX)
		rc = complain(err, errlen, "the text is too long");
	if (!rc && *text)
		rc = parse_groups(s, copy, text, files, err, errlen);
	if (!rc) {
		s->groups += s->groups == 0;
		*out = *s;
	}
	free(copy);
	free(s);
	return rc;
}

int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen)
{
	return parse(out, spec, true, err, errlen);
}

int fault_parse_closed(struct fault_spec *out, const char *spec, char *err, size_t errlen)
{
	return parse(out, spec, false, err, errlen);
}

static const char *breaks_order(const struct fault_rules *r)
{
	return r->dup				? "dup"
	       : r->reorder			? "reorder"
	       : r->delay && r->delay < 1000000 ? "delay with a probability"
						: NULL;
}

int fault_check_ordered(const struct fault_spec *s, const char *text, char *err,
			size_t errlen)
{
	const char *what = NULL;

	for (unsigned g = 0; g < s->groups && !what; g++)
		for (int dir = 0; dir < FAULT_DIRS && !what; dir++)
			what = breaks_order(&s->group[g].rules[dir]);
	for (unsigned i = 0; i < s->events && !what; i++)
		what = s->event[i].what == FAULT_DUP	   ? "dup"
		       : s->event[i].what == FAULT_REORDER ? "reorder"
							   : NULL;
	return what ? complain(err, errlen,
			       "'%.200s': there is no %s at an adapter of a fabric, "
			       "whose links keep order and double nothing; there are "
			       "drop, burst, corrupt, ecn, nth, delay=TIME, rate, and "
			       "seed",
			       text, what)
		    : 0;
}

int fault_parse_ordered(struct fault_spec *out, const char *spec, char *err,
			size_t errlen)
{
	struct fault_spec s;
	int rc = fault_parse(&s, spec, err, errlen);

	if (!rc)
		rc = fault_check_ordered(&s, spec, err, errlen);
	if (!rc)
		*out = s;
	return rc;
}

static bool is_active(const struct fault_rules *r)
{
	return r->drop || r->dup || r->reorder || r->delay || r->corrupt || r->ecn ||
	       r->nth[0] || r->burst.to_bad || r->burst.lost_good || r->rate;
}

bool fault_is_any(const struct fault_spec *s)
{
	for (unsigned g = 0; g < s->groups; g++)
		for (int dir = 0; dir < FAULT_DIRS; dir++)
			if (is_active(&s->group[g].rules[dir]))
				return true;
	return s->events > 0;
}

/* --- for other processes --------------------------------------------------------------
 */

struct text {
	char *at;
	size_t left;
};

static bool append_text(struct text *t, const char *from, size_t n)
{
	if (n >= t->left)
		return false;
	memcpy(t->at, from, n);
	t->at += n;
	*t->at = '\0';
	t->left -= n;
	return true;
}

/* side: "tx:", "rx:" or "", as it stood before events=. */
static int append_file(struct text *t, const char *side, const char *path, char *err,
		       size_t errlen)
{
	struct fault_event v[FAULT_EVENTS_MAX];
	unsigned n = 0;
	char event[128], item[160];
	int rc = fault_events_read(path, v, &n, FAULT_EVENTS_MAX, err, errlen);

	if (rc)
		return -EINVAL;
	for (unsigned i = 0; i < n; i++) {
		(void)fault_event_write(event, sizeof(event), &v[i], ':');
		snprintf(item, sizeof(item), "%s%sevent=%s", i ? "," : "", side, event);
		if (!append_text(t, item, strlen(item)))
			return -E2BIG;
	}
	return n ? 0 : complain(err, errlen, "%s: there is no event in it", path);
}

static int append_path(struct text *t, const char *side, const char *path, char *err,
		       size_t errlen)
{
	char real[PATH_MAX];

	if (!realpath(path, real))
		return complain(err, errlen, "%s: %s", path, strerror(errno));
	return append_text(t, side, strlen(side)) && append_text(t, "events=", 7) &&
			       append_text(t, real, strlen(real))
		       ? 0
		       : -E2BIG;
}

/* If the item, of n bytes, is events=FILE, returns the name's place in it, else 0. */
static size_t file_at(const char *item, size_t n, char side[4])
{
	size_t at = strncmp(item, "tx:", 3) == 0 || strncmp(item, "rx:", 3) == 0 ? 3 : 0;

	snprintf(side, 4, "%.*s", (int)at, item);
	at += strncmp(item + at, "events=", 7) == 0 ? 7 : n;
	return at < n ? at : 0;
}

int fault_rewrite(char *to, size_t size, const char *spec, enum fault_files how,
		  char *err, size_t errlen)
{
	struct text t = { to, size };
	char path[PATH_MAX], side[4];
	int rc = 0;

	*to = '\0';
	snprintf(err, errlen, "the text is too long");
	while (!rc && *spec) {
		size_t n = strcspn(spec, ",;"), sep = spec[n] != '\0';
		size_t at = file_at(spec, n, side);

		if (!at) {
			rc = append_text(&t, spec, n + sep) ? 0 : -E2BIG;
		} else {
			snprintf(path, sizeof(path), "%.*s", (int)(n - at), spec + at);
			rc = (how == FAULT_FILES_IN
				      ? append_file
				      : append_path)(&t, side, path, err, errlen);
			if (!rc && !append_text(&t, spec + n, sep))
				rc = -E2BIG;
		}
		spec += n + sep;
	}
	return rc;
}
