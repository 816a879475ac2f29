/* SPDX-License-Identifier: BSD-2-Clause */
/* order_spec.c - see order_spec.h. */
#include "sys/order_spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sys/near.h"
#include "sys/pair.h"
#include "sys/take.h"

static bool take_time(const char **at, uint64_t *ns)
{
	static const struct take_unit units[] = { { "us", 1000 },
						  { "ms", 1000000 },
						  { "s", 1000000000 } };

	return take_amount(at, units, 3, ns) && *ns <= 1000000000;
}

static bool take_delay(const char **at, struct order_spec *spec)
{
	if (!take_time(at, &spec->delay_ns))
		return false;
	spec->delay = 1000000;
	return !take_more(at, ':') || take_ppm(at, &spec->delay);
}

static bool take_seed(const char **at, uint64_t *seed)
{
	return take_u64(at, seed) && *seed <= UINT32_MAX;
}

/* The keys, and what each takes. */
static const struct {
	const char *name, *form;
} keys[] = {
	{ "write", "write=P, where P is a probability from 0 to 1, e.g. 0.5" },
	{ "delay", "delay=TIME or delay=TIME:P, where TIME is 100us, 5ms or the like, 1s "
		   "at most, and P a probability from 0 to 1" },
	{ "swap", "swap=P, where P is a probability from 0 to 1, e.g. 0.5" },
	{ "one", "one, which has no value" },
	{ "seed", "seed=N, where N is a number from 0 to 4294967295" },
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

static const char *key_at(unsigned i)
{
	return i < KEYS ? keys[i].name : NULL;
}

static const char *form_of(const char *key)
{
	for (unsigned i = 0; i < KEYS; i++)
		if (!strcmp(key, keys[i].name))
			return keys[i].form;
	return "";
}

/* Has the key come before? *seen: the keys that have. */
static bool comes_again(const char *key, unsigned *seen)
{
	for (unsigned i = 0; key_at(i); i++) {
		const unsigned bit = 1u << i;

		if (strcmp(key, key_at(i)))
			continue;
		if (*seen & bit)
			return true;
		*seen |= bit;
	}
	return false;
}

/* Returns false if value is none of the key; *known: whether there is the key. */
static bool set(struct order_spec *spec, const char *key, const char *value, bool *known)
{
	const char *at = value ? value : "";
	bool good = false;

	*known = true;
	if (!strcmp(key, "one")) {
		spec->one = good = !value;
	} else if (!strcmp(key, "write")) {
		good = take_ppm(&at, &spec->write);
	} else if (!strcmp(key, "swap")) {
		good = take_ppm(&at, &spec->swap);
	} else if (!strcmp(key, "seed")) {
		good = take_seed(&at, &spec->seed);
	} else if (!strcmp(key, "delay")) {
		good = take_delay(&at, spec);
	} else {
		*known = false;
	}
	return good && !*at;
}

static int refuse_key(const char *key, const char *value, bool known, char *err,
		      size_t size)
{
	char near[NEAR_HINT];

	near_hint(near, key, key_at);
	if (known)
		snprintf(err, size, "'%s%s%s' is no item: it is %s", key,
			 value ? "=" : "", value ? value : "", form_of(key));
	else
		snprintf(err, size,
			 "unknown key '%s'; keys are write, delay, swap, one, seed%s",
			 key, near);
	return -EINVAL;
}

int order_parse(const char *text, struct order_spec *out, char *err, size_t size)
{
	struct order_spec spec = { .seed = 1 };
	char copy[128], *at = copy, *key, *value;
	unsigned seen = 0;
	bool known;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(err, size, "longer than %zu bytes", sizeof(copy) - 1);
		return -EINVAL;
	}
	strcpy(copy, text);
	while (*text && at) {
		key = pair_next(&at, ',', &value);
		if (!set(&spec, key, value, &known))
			return refuse_key(key, value, known, err, size);
		if (comes_again(key, &seen)) {
			snprintf(err, size, "'%s' is there twice", key);
			return -EINVAL;
		}
	}
	*out = spec;
	return 0;
}
