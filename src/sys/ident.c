/* SPDX-License-Identifier: BSD-2-Clause */
/* ident.c - parses the identity of devices; see ident.h. */
#include "sys/ident.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/pair.h"

/* clang-format off */
static const struct preset {
	const char *name;
	struct ident id;
} presets[] = {
	/* 1x EDR: 25 Gb/s. */
	{ "urnic", { .vendor_id = IDENT_VENDOR, .vendor_part_id = IDENT_PART,
		     .hw_ver = IDENT_HW, .fw_ver = "1.0.0", .speed = 32,
		     .width = 1, .name = "roce_%s" } },
	/* ConnectX-5 at 4x EDR: known to programs that look vendors up. */
	{ "connectx", { .vendor_id = 0x02c9, .vendor_part_id = 4119,
			.fw_ver = "16.35.2000", .speed = 32, .width = 2,
			.name = "roce_%s" } },
};
/* clang-format on */

struct code {
	const char *text;
	uint8_t code;
};

static const struct code speeds[] = {
	/* Gb/s for each lane */
	{ "2.5", 1 }, { "5", 2 },   { "10", 8 },    { "14", 16 },
	{ "25", 32 }, { "50", 64 }, { "100", 128 }, { NULL, 0 },
};
static const struct code widths[] = {
	{ "1x", 1 }, { "2x", 16 }, { "4x", 2 }, { "8x", 4 }, { "12x", 8 }, { NULL, 0 },
};

static bool find_code(const struct code *c, const char *text, uint8_t *out)
{
	for (; c->text; c++) {
		if (strcmp(c->text, text) == 0) {
			*out = c->code;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char *text, uint32_t *out)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(text, &end, 0);
	if (errno || !*text || *end || *text == '-' || v > UINT32_MAX)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool string(const char *text, char *out, size_t size)
{
	size_t n = strlen(text);

	if (n == 0 || n >= size)
		return false;
	memcpy(out, text, n + 1);
	return true;
}

/* Exactly one %s or %d, and no character that a file name cannot have. */
static bool name_pattern(const char *text, char *out, size_t size)
{
	const char *p = strchr(text, '%');

	if (!p || (p[1] != 's' && p[1] != 'd') || strchr(p + 1, '%') ||
	    strchr(text, '/') || strlen(text) > 40)
		return false;
	return string(text, out, size);
}

/* Returns 1; 0: bad value; -1: unknown key. */
static int set_field(struct ident *id, const char *key, const char *value)
{
	if (strcmp(key, "vendor") == 0)
		return parse_number(value, &id->vendor_id);
	if (strcmp(key, "part") == 0)
		return parse_number(value, &id->vendor_part_id);
	if (strcmp(key, "hw") == 0)
		return parse_number(value, &id->hw_ver);
	if (strcmp(key, "fw") == 0)
		return string(value, id->fw_ver, sizeof(id->fw_ver));
	if (strcmp(key, "speed") == 0)
		return find_code(speeds, value, &id->speed);
	if (strcmp(key, "width") == 0)
		return find_code(widths, value, &id->width);
	if (strcmp(key, "name") == 0)
		return name_pattern(value, id->name, sizeof(id->name));
	return -1;
}

static bool preset(struct ident *id, const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
		if (strcmp(presets[i].name, name) == 0) {
			*id = presets[i].id;
			return true;
		}
	}
	return false;
}

int ident_parse(const char *spec, struct ident *out, char *err, size_t size)
{
	struct ident id = presets[0].id;
	char copy[256], *at = copy, *key, *value;
	int rc;

	if (!string(spec, copy, sizeof(copy))) {
		snprintf(err, size, "empty or too long");
		return -EINVAL;
	}
	for (bool first = true; at; first = false) {
		key = pair_next(&at, ',', &value);
		if (!value && ((first && preset(&id, key)) || !*key))
			continue;
		if (!value) {
			snprintf(err, size,
				 "'%s' is no preset (urnic, connectx)"
				 " and no key=value",
				 key);
			return -EINVAL;
		}
		rc = set_field(&id, key, value);
		if (rc < 0)
			snprintf(err, size,
				 "unknown key '%s' (vendor, part, hw,"
				 " fw, speed, width, name)",
				 key);
		else if (rc == 0)
			snprintf(err, size, "'%s' is no value for %s", value, key);
		if (rc <= 0)
			return -EINVAL;
	}
	*out = id;
	return 0;
}

void ident_name(const struct ident *id, const char *netdev, int index, char out[64])
{
	const char *p = strchr(id->name, '%');
	char number_text[16];

	snprintf(number_text, sizeof(number_text), "%d", index);
	snprintf(out, 64, "%.*s%s%s", (int)(p - id->name), id->name,
		 p[1] == 's' ? netdev : number_text, p + 2);
}
