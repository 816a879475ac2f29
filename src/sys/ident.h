/* SPDX-License-Identifier: BSD-2-Clause */
/* ident.h - what a device says that it is (URNIC_IDENTITY). */
#ifndef SYS_IDENT_H
#define SYS_IDENT_H

#include <stddef.h>
#include <stdint.h>

/* A vendor ID is an IEEE OUI.  Bought by nobody: bit 1 of the first octet says
 * that it is locally administered; "rni" in ASCII. */
enum { IDENT_VENDOR = 0x726e69, IDENT_PART = 1, IDENT_HW = 1 };

struct ident {
	uint32_t vendor_id, vendor_part_id, hw_ver;
	char fw_ver[64];
	uint8_t speed, width; /* as in ibv_port_attr */
	char name[48];	      /* device name: %s is the interface, %d
			       * the device's number */
};

/* spec: a preset ("urnic", "connectx"), key=value pairs, or a preset and then
 * pairs that change it, separated by commas.  0, or -EINVAL with why in err. */
int ident_parse(const char *spec, struct ident *out, char *err, size_t size);

/* The device name for interface netdev, the index-th device.  At most 63
 * bytes are written. */
void ident_name(const struct ident *id, const char *netdev, int index, char out[64]);

#endif
