/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - sizes of arrays inside structures; verbs/device.c reports them to
 * programs. */
#ifndef VERBS_LIMITS_H
#define VERBS_LIMITS_H

enum {
	SGE_MAX = 32, /* SGEs in a work request */
	TM_TAGS = 1024,
	TM_OPS = 1024,
	TM_SGES = 4,
	TM_HEADERS = 64, /* bytes in a rendezvous: TMH, RVH and what the program adds */
	RSS_TABLE_LOG = 7,
	RSS_TABLE_MAX = 1 << RSS_TABLE_LOG, /* queues in a table */
	RSS_TABLES = 1 << 16,
	RSS_KEY = 40,
	RSS_FIELDS = 0xff, /* IBV_RX_HASH_...: IPv4, IPv6, TCP, UDP */
};

#endif
