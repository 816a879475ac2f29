/* SPDX-License-Identifier: BSD-2-Clause */
#include "link/fault_spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Each takes its text off *s and says whether it was right. */

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

/* A probability, 0 to 1, with up to six digits after the point: not strtod(),
 * which minds the program's locale. */
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

static bool key_is(const char *name, const char *item, size_t len)
{
	return strlen(name) == len && memcmp(name, item, len) == 0;
}

/* item: "[tx:|rx:]key=value"; len of it up to the comma or the end. */
static int parse_item(struct fault_spec *out, const char *item, size_t len, char *err,
		      size_t errlen)
{
	const char *key = item, *end = item + len, *eq, *at;
	bool tx = true, rx = true;

	if (len > 3 && (memcmp(item, "tx:", 3) == 0 || memcmp(item, "rx:", 3) == 0)) {
		tx = item[0] == 't';
		rx = !tx;
		key += 3;
	}
	eq = memchr(key, '=', (size_t)(end - key));
	if (!eq)
		return complain(err, errlen, "'%.*s' is not KEY=VALUE", (int)len, item);
	at = eq + 1;
	if (key_is("seed", key, (size_t)(eq - key))) {
		if (key == item && take_u64(&at, &out->seed) && at == end)
			return 0;
		return complain(err, errlen,
				"'%.*s': seed wants a number, for "
				"both directions",
				(int)len, item);
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *k = &keys[i];

		if (!key_is(k->name, key, (size_t)(eq - key)))
			continue;
		for (int dir = 0; dir < FAULT_DIRS; dir++) {
			if (!(dir == FAULT_TX ? tx : rx))
				continue;
			at = eq + 1;
			if (!k->take(&at, &out->rules[dir]) || at != end)
				return complain(err, errlen, "'%.*s': %s wants %s",
						(int)len, item, k->name, k->want);
		}
		return 0;
	}
	return complain(err, errlen, "'%.*s': no fault is called %.*s", (int)len, item,
			(int)(eq - key), key);
}

int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen)
{
	struct fault_spec s = { .seed = 1 };

	for (const char *at = spec; *at;) {
		size_t len = strcspn(at, ",");
		int rc = parse_item(&s, at, len, err, errlen);

		if (rc)
			return rc;
		at += len;
		if (*at == ',' && *++at == '\0')
			return complain(err, errlen, "'%s' ends with a comma", spec);
	}
	*out = s;
	return 0;
}
