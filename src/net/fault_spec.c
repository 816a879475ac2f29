/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/pair.h"

/* The take_ functions parse the text at *s, advance *s and return false if it is
 * malformed. */

static bool take_u64(const char **s, uint64_t *out)
{
	uint64_t n = 0;

	if (**s < '0' || **s > '9')
		return false;
	for (; **s >= '0' && **s <= '9'; (*s)++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(**s - '0'), &n))
			return false;
	*out = n;
	return true;
}

/* Parses a probability, 0 to 1 with up to six decimals, into millionths. strtod() would
 * depend on the program's locale. */
static bool take_ppm(const char **s, uint32_t *out)
{
	uint64_t whole, ppm;
	uint32_t unit = 100000;

	if (!take_u64(s, &whole) || whole > 1)
		return false;
	ppm = whole * 1000000;
	if (**s == '.') {
		for ((*s)++; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
			ppm += (uint64_t)(**s - '0') * unit;
	}
	*out = (uint32_t)ppm;
	return ppm <= 1000000;
}

static bool take_time(const char **s, uint64_t *ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} unit[] = {
		{ "ns", 1 },
		{ "us", 1000 },
		{ "ms", 1000000 },
		{ "s", 1000000000 },
	};

	if (!take_u64(s, ns))
		return false;
	for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++) {
		size_t n = strlen(unit[i].name);

		if (strncmp(*s, unit[i].name, n) == 0) {
			*s += n;
			return !__builtin_mul_overflow(*ns, unit[i].ns, ns) &&
			       *ns <= 1000 * unit[3].ns;
		}
	}
	return false;
}

static bool take_delay(const char **s, struct fault_rules *r)
{
	if (!take_time(s, &r->delay_ns))
		return false;
	r->delay = 1000000;
	if (**s != ':')
		return true;
	(*s)++;
	return take_ppm(s, &r->delay);
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

/* clang-format off */
static const struct key {
	const char *name;
	bool (*take)(const char **s, struct fault_rules *r);
	const char *want;
} keys[] = {
	{ "drop",    take_drop,    "a probability, 0 to 1" },
	{ "dup",     take_dup,     "a probability, 0 to 1" },
	{ "reorder", take_reorder, "a probability, 0 to 1" },
	{ "corrupt", take_corrupt, "a probability, 0 to 1" },
	{ "delay",   take_delay,   "TIME or TIME:PROBABILITY; TIME is a number "
				   "and ns, us, ms or s, 1000s at most" },
	{ "nth",     take_nth,     "a count from 1, 16 of them at most" },
};
/* clang-format on */

__attribute__((format(printf, 3, 4))) static int complain(char *err, size_t errlen,
							  const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

/* "tx:" or "rx:" before the key limits the fault to that direction. */
static const char *take_direction(const char *key, bool *tx, bool *rx)
{
	*tx = strncmp(key, "rx:", 3) != 0;
	*rx = strncmp(key, "tx:", 3) != 0;
	return *tx && *rx ? key : key + 3;
}

static int parse_item(struct fault_spec *out, const char *item, const char *value,
		      char *err, size_t errlen)
{
	const char *key, *at = value;
	bool tx, rx;

	if (!value)
		return complain(err, errlen, "'%s' is not KEY=VALUE", item);
	key = take_direction(item, &tx, &rx);
	if (strcmp(key, "seed") == 0) {
		if (key == item && take_u64(&at, &out->seed) && !*at)
			return 0;
		return complain(err, errlen,
				"'%s=%s': seed wants a number, for both directions", item,
				value);
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *k = &keys[i];

		if (strcmp(k->name, key) != 0)
			continue;
		for (int dir = 0; dir < FAULT_DIRS; dir++) {
			if (!(dir == FAULT_TX ? tx : rx))
				continue;
			at = value;
			if (!k->take(&at, &out->rules[dir]) || *at)
				return complain(err, errlen, "'%s=%s': %s wants %s", item,
						value, k->name, k->want);
		}
		return 0;
	}
	return complain(err, errlen,
			"'%s=%s': no fault is called %s; there are drop, dup, reorder, "
			"corrupt, delay, nth, and seed",
			item, value, key);
}

int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen)
{
	struct fault_spec s = { .seed = 1 };
	char *copy = strdup(spec), *at = *spec ? copy : NULL;
	int rc = copy ? 0 : -ENOMEM;

	if (rc)
		complain(err, errlen, "no memory");
	while (!rc && at) {
		char *value, *item = pair_next(&at, ',', &value);

		rc = !at && !*item && !value
			     ? complain(err, errlen, "'%s' ends with a comma", spec)
			     : parse_item(&s, item, value, err, errlen);
	}
	free(copy);
	if (!rc)
		*out = s;
	return rc;
}

static const char *breaks_order(const struct fault_rules *r)
{
	return r->dup				? "dup"
	       : r->reorder			? "reorder"
	       : r->delay && r->delay < 1000000 ? "delay with a probability"
						: NULL;
}

int fault_parse_ordered(struct fault_spec *out, const char *spec, char *err,
			size_t errlen)
{
	struct fault_spec s;
	int rc = fault_parse(&s, spec, err, errlen);

	for (int dir = 0; !rc && dir < FAULT_DIRS; dir++) {
		const char *what = breaks_order(&s.rules[dir]);

		if (what)
			rc = complain(err, errlen,
				      "'%s': there is no %s at an adapter of a fabric, "
				      "whose links keep order and double nothing; there "
				      "are drop, corrupt, nth, delay=TIME, and seed",
				      spec, what);
	}
	if (!rc)
		*out = s;
	return rc;
}
