/* SPDX-License-Identifier: BSD-2-Clause */
/* like.h - the limits and features of devices of other makes (URNIC_LIKE; like.def).
 * docs/dev/like.md says where each value comes from. */
#ifndef SYS_LIKE_H
#define SYS_LIKE_H

#include <stddef.h>
#include <stdint.h>

enum like_device {
#define DEVICE(name, ...) LIKE_DEVICE_##name,
#include "sys/like.def"
	LIKE_DEVICES
};

enum like_limit {
#define LIMIT(name, ...) LIKE_##name,
#include "sys/like.def"
	LIKE_LIMITS
};

enum like_feature {
#define FEATURE(name, ...) LIKE_##name,
#include "sys/like.def"
	LIKE_FEATURES
};

enum like_also {
#define ALSO(name, ...) LIKE_##name,
#include "sys/like.def"
	LIKE_ALSOS
};

enum like_depth {
#define DEPTH(name, ...) LIKE_DEPTH_##name,
#include "sys/like.def"
	LIKE_DEPTHS
};

enum like_vendor {
#define VENDOR(status, ...) LIKE_VENDOR_##status,
#include "sys/like.def"
	LIKE_VENDORS
};

/* One device, or several together: of each limit the lowest, what one of them lacks, and
 * what all have beyond urnic's. */
struct like {
	unsigned devices; /* 1 << enum like_device; 0: URNIC_LIKE is not set */
	struct {
		uint64_t most; /* UINT64_MAX: none has a limit below urnic's */
		enum like_device of;
	} limit[LIKE_LIMITS];
	unsigned lacks; /* 1 << enum like_feature */
	enum like_device lacking[LIKE_FEATURES];
	unsigned also; /* 1 << enum like_also */
};

/* Parses names separated by commas, or "strict": all devices.  "" is valid, too.  Returns
 * 0, or -EINVAL with the reason, which lists the names, in err. */
int like_parse(const char *text, struct like *out, char *err, size_t size);

/* The name and what it is; NULL after the last. */
const char *like_device_name(unsigned device);
const char *like_device_text(unsigned device);
const char *like_limit_name(enum like_limit limit);
const char *like_feature_text(enum like_feature feature);
/* The device's own value; UINT64_MAX: none. */
uint64_t like_limit_of(enum like_device device, enum like_limit limit);
/* What the device makes of a queue for which n entries are asked: n or more. */
uint64_t like_depth_of(enum like_device device, enum like_depth depth, uint32_t n);
/* The device's own value; UINT64_MAX: it is not public. */
uint64_t like_vendor_of(enum like_device device, enum like_vendor vendor);
/* The status that it comes with, without IBV_WC_. */
const char *like_vendor_status(enum like_vendor vendor);

#endif
