/* SPDX-License-Identifier: BSD-2-Clause */
/* like.c - see like.h. */
#include "sys/like.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sys/near.h"

static const struct {
	const char *name, *text;
} devices[] = {
#define DEVICE(name, text) { #name, text },
#include "sys/like.def"
};

static const struct {
	const char *name;
	uint64_t of[LIKE_DEVICES];
} limits[] = {
#define LIMIT(name, ...) { #name, { __VA_ARGS__ } },
#include "sys/like.def"
};

static const struct {
	const char *text;
	bool of[LIKE_DEVICES];
} features[] = {
#define FEATURE(name, text, ...) { text, { __VA_ARGS__ } },
#include "sys/like.def"
};

static const bool also[][LIKE_DEVICES] = {
#define ALSO(name, ...) { __VA_ARGS__ },
#include "sys/like.def"
};

static const enum {
	EXACT,
	POW2,
	POW2_1
} depths[][LIKE_DEVICES] = {
#define DEPTH(name, ...) { __VA_ARGS__ },
#include "sys/like.def"
};

static const struct {
	const char *status;
	uint64_t of[LIKE_DEVICES];
} vendors[] = {
#define VENDOR(status, ...) { #status, { __VA_ARGS__ } },
#include "sys/like.def"
};

const char *like_device_name(unsigned device)
{
	return device < LIKE_DEVICES ? devices[device].name : NULL;
}

const char *like_device_text(unsigned device)
{
	return device < LIKE_DEVICES ? devices[device].text : NULL;
}

const char *like_limit_name(enum like_limit limit)
{
	return limits[limit].name;
}

const char *like_feature_text(enum like_feature feature)
{
	return features[feature].text;
}

uint64_t like_limit_of(enum like_device device, enum like_limit limit)
{
	return limits[limit].of[device];
}

uint64_t like_depth_of(enum like_device device, enum like_depth depth, uint32_t n)
{
	const uint64_t less = depths[depth][device] == POW2_1;
	uint64_t size = 1;

	if (!n || depths[depth][device] == EXACT)
		return n;
	while (size < n + less)
		size *= 2;
	return size - less;
}

uint64_t like_vendor_of(enum like_device device, enum like_vendor vendor)
{
	return vendors[vendor].of[device];
}

const char *like_vendor_status(enum like_vendor vendor)
{
	return vendors[vendor].status;
}

static void narrow(struct like *like, enum like_device d)
{
	for (int i = 0; i < LIKE_ALSOS; i++)
		if (!also[i][d])
			like->also &= ~(1u << i);
		else if (!like->devices)
			like->also |= 1u << i;
	like->devices |= 1u << d;
	for (int i = 0; i < LIKE_LIMITS; i++)
		if (limits[i].of[d] < like->limit[i].most) {
			like->limit[i].most = limits[i].of[d];
			like->limit[i].of = d;
		}
	for (int i = 0; i < LIKE_FEATURES; i++)
		if (!features[i].of[d] && !(like->lacks & 1u << i)) {
			like->lacks |= 1u << i;
			like->lacking[i] = d;
		}
}

static const char *word_at(unsigned i)
{
	return i == LIKE_DEVICES ? "strict" : like_device_name(i);
}

static int unknown(const char *name, size_t len, char *err, size_t size)
{
	char word[32], all[LIKE_DEVICES * 16], near[NEAR_HINT];
	size_t n = 0;

	for (unsigned d = 0; d < LIKE_DEVICES && n < sizeof(all); d++)
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s %s",
				      d + 1 < LIKE_DEVICES ? "," : " or",
				      devices[d].name);
	snprintf(word, sizeof(word), "%.*s", (int)len, name);
	near_hint(near, word, word_at);
	snprintf(err, size, "'%s' is not strict%s%s", word, all, near);
	return -EINVAL;
}

static bool is_word(const char *name, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(name, word, len);
}

static bool add_name(struct like *like, const char *name, size_t len)
{
	const bool all = is_word(name, len, "strict");
	bool found = false;

	for (unsigned d = 0; d < LIKE_DEVICES; d++)
		if (all || is_word(name, len, devices[d].name)) {
			narrow(like, (enum like_device)d);
			found = true;
		}
	return found;
}

int like_parse(const char *text, struct like *out, char *err, size_t size)
{
	struct like like = { 0 };

	for (int i = 0; i < LIKE_LIMITS; i++)
		like.limit[i].most = UINT64_MAX;
	while (*text) {
		const size_t len = strcspn(text, ",");

		if (!add_name(&like, text, len))
			return unknown(text, len, err, size);
		text += len;
		if (*text && !*++text)
			return unknown(text, 0, err, size);
	}
	*out = like;
	return 0;
}
