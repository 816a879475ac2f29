/* SPDX-License-Identifier: BSD-2-Clause */
/* ident.h - the identity that a device shows (URNIC_IDENTITY). */
#ifndef SYS_IDENT_H
#define SYS_IDENT_H

#include <stddef.h>
#include <stdint.h>

/* A vendor ID is an IEEE OUI.  This one is not registered: bit 1 of its first octet makes
 * it locally administered.  It is "rni" in ASCII. */
enum { IDENT_VENDOR = 0x726e69, IDENT_PART = 1, IDENT_HW = 1 };

struct ident {
	uint32_t vendor_id, vendor_part_id, hw_ver;
	char fw_ver[64];
	uint8_t speed, width; /* as in ibv_port_attr */
	/* Device name: %s is the interface, %d the device's number */
	char name[48];
};

/* Parses spec: a preset ("urnic", "connectx"), key=value pairs, or a preset followed by
 * pairs that change it, separated by commas.  Returns 0, or -EINVAL with the reason in
 * err. */
int ident_parse(const char *spec, struct ident *out, char *err, size_t size);

/* Writes the device name for interface netdev, the index-th device: at most 63 bytes. */
void ident_name(const struct ident *id, const char *netdev, int index, char out[64]);

#endif
