/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.h - numbers that are the same on every port (IBTA vol. 1, 3.5.10, 10.2.5, 10.9.1).
 */
#ifndef WIRE_GSI_H
#define WIRE_GSI_H

enum {
	QP_SMI = 0, /* subnet management */
	QP_GSI = 1, /* general services: connection management and others */
	QP_MULTICAST = 0xffffff,
};

#define QKEY_GSI 0x80010000u /* of all QP1s */

enum { PKEY_DEFAULT = 0xffff }; /* the default partition, as a full member */

#endif
