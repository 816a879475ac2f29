/* SPDX-License-Identifier: BSD-2-Clause */
/* The events that endpoints get: a refusal with private data, and the end of a
 * connection. */
#include <netinet/in.h>

#include "fabric.h"

enum { ASKS = 20 };

static const struct wants plain;
static const char please[] = "please", no[] = "no, thank you";

void test_refused(const char *ip, const char *port, bool serves)
{
	char got[64];
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	for (int i = 0; i < ASKS; i++) {
		size_t len = sizeof(please);

		if (serves) {
			struct fi_info *info = side_request(&s, got, &len);

			MUST(!memcmp(got, please, sizeof(please)));
			OK(fi_reject(s.pep, info->handle, no, sizeof(no)));
			fi_freeinfo(info);
			continue;
		}
		OK(fi_connect(side_endpoint(&s, s.info), s.info->dest_addr, please,
			      sizeof(please)));
		len = sizeof(got);
		side_refused(&s, FI_ECONNREFUSED, got, &len);
		MUST(len >= sizeof(no) && !memcmp(got, no, sizeof(no)));
		OK(fi_close(&s.ep[--s.n]->fid));
	}
	side_connect(&s, &plain);
	if (serves)
		side_event(&s, FI_SHUTDOWN, &s.ep[0]->fid);
	else
		OK(fi_shutdown(s.ep[0], 0));
	side_close(&s);
}

/* There is a server, but at another port. */
void test_nobody(const char *ip, const char *port, bool serves)
{
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	if (!serves) {
		struct sockaddr_in *to = s.info->dest_addr;
		uint16_t right = to->sin_port;

		to->sin_port = htons(9);
		for (int i = 0; i < ASKS; i++) {
			OK(fi_connect(side_endpoint(&s, s.info), s.info->dest_addr, NULL,
				      0));
			side_refused(&s, FI_ECONNREFUSED, NULL, NULL);
			OK(fi_close(&s.ep[--s.n]->fid));
		}
		to->sin_port = right;
	}
	side_connect(&s, &plain);
	if (serves)
		side_event(&s, FI_SHUTDOWN, &s.ep[0]->fid);
	else
		OK(fi_shutdown(s.ep[0], 0));
	side_close(&s);
}

/* Either side ends the connection; the other side is told, and requests that were posted
 * come back. */
void test_shutdown(const char *ip, const char *port, bool serves)
{
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	for (unsigned i = 0; i < ENDS_MAX; i++) {
		side_connect(&s, &plain);
		if (!serves)
			say(&s, 0, 100);
		hear(&s, 100);
		if (serves)
			say(&s, 0, 100);
		if ((i % 2 == 0) != serves)
			side_event(&s, FI_SHUTDOWN, &s.ep[0]->fid);
		OK(fi_shutdown(s.ep[0], 0));
		for (unsigned j = 1; j < RECVS; j++)
			cq_canceled(s.rx);
		OK(fi_close(&s.ep[--s.n]->fid));
	}
	side_close(&s);
}

/* A side ends the connection by closing its endpoint. */
void test_closed(const char *ip, const char *port, bool serves)
{
	struct side s;

	side_open(&s, serves, ip, port, &plain);
	for (int i = 0; i < ENDS_MAX; i++) {
		side_connect(&s, &plain);
		if (!serves)
			say(&s, 0, 100);
		hear(&s, 100);
		if (serves)
			say(&s, 0, 100);
		if ((i % 2 == 0) != serves)
			side_event(&s, FI_SHUTDOWN, &s.ep[0]->fid);
		OK(fi_close(&s.ep[--s.n]->fid));
	}
	side_close(&s);
}
