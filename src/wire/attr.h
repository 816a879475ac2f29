/* SPDX-License-Identifier: BSD-2-Clause */
/* attr.h - the attributes of subnet and performance management as structs, and their
 * conversion to and from the bytes of a MAD.
 *
 * attr.def has the position of each field; both the struct and its table are made from
 * it.  Integers are in host byte order. */
#ifndef WIRE_ATTR_H
#define WIRE_ATTR_H

#include <stddef.h>
#include <stdint.h>

#include "wire/attr.def"

#define ATTR_MEMBER(type, member, bit, bits) uint##type##_t member;

struct node_info {
	NODE_INFO(ATTR_MEMBER)
};
struct switch_info {
	SWITCH_INFO(ATTR_MEMBER)
};
struct port_info {
	PORT_INFO(ATTR_MEMBER)
};
struct notice {
	NOTICE(ATTR_MEMBER)
};
struct mlnx_ext_port_info {
	MLNX_EXT_PORT_INFO(ATTR_MEMBER)
};
struct class_port_info {
	CLASS_PORT_INFO(ATTR_MEMBER)
};
struct port_counters {
	PORT_COUNTERS(ATTR_MEMBER)
};
struct port_counters_ext {
	PORT_COUNTERS_EXT(ATTR_MEMBER)
};

struct port_samples {
	PORT_SAMPLES(ATTR_MEMBER)
};

struct attr_field {
	uint16_t offset, size, bit, bits;
};

struct attr {
	const char *name;
	const struct attr_field *field;
	uint16_t fields, bytes; /* bytes: length in the MAD, which attr_put() clears */
};

extern const struct attr attr_node_info, attr_switch_info, attr_port_info, attr_notice,
	attr_mlnx_ext_port_info, attr_class_port_info, attr_port_counters,
	attr_port_counters_ext, attr_port_samples;

/* from, to: the struct of the attribute; data: its first byte in the MAD.  A value that
 * is too long for its field loses its high bits. */
void attr_put(const struct attr *a, uint8_t *data, const void *from);
void attr_get(const struct attr *a, const uint8_t *data, void *to);

#endif
