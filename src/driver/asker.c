/* SPDX-License-Identifier: BSD-2-Clause */
/* asker.c - see asker.h. */
#include "driver/asker.h"

#include <errno.h>

static int say_answer(const struct asker *by, int error, const void *bytes, size_t len)
{
	struct host_answer head = { .serial = by->serial, .error = error };
	const struct iovec part[2] = {
		{ &head, sizeof(head) },
		{ (void *)(uintptr_t)bytes, len },
	};

	return host_say(by->host, by->slot, HOST_ANSWER, part, 2, NULL, 0);
}

void asker_tell(const struct asker *by, int error, const void *bytes, size_t len)
{
	int rc = len > HOST_ANSWER_MAX ? -EMSGSIZE : say_answer(by, error, bytes, len);

	if (!rc || rc == -EAGAIN || rc == -ESRCH)
		return;
	/* There is no memory for the bytes, or no descriptor. */
	(void)say_answer(by, error ? error : rc, NULL, 0);
}
