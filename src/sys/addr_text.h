/* SPDX-License-Identifier: BSD-2-Clause */
/* addr_text.h - an address as text for a log line: 192.0.2.7, fe80::1. */
#ifndef SYS_ADDR_TEXT_H
#define SYS_ADDR_TEXT_H

#include <arpa/inet.h>

#include "sys/addr.h"

static inline const char *addr_text(const uint8_t ip[16], char text[INET6_ADDRSTRLEN])
{
	if (addr_is_v4(ip))
		return inet_ntop(AF_INET, ip + 12, text, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, ip, text, INET6_ADDRSTRLEN);
}

#endif
