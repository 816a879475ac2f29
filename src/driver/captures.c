/* SPDX-License-Identifier: BSD-2-Clause */
/* captures.c - see captures.h. */
#include "driver/captures.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver/asker.h"
#include "driver/faults.h"
#include "driver/nic_own.h"
#include "net/fault.h"
#include "net/pcap.h"
#include "shm/peers.h"
#include "sys/fd.h"
#include "sys/log.h"

/* --- into a file ----------------------------------------------------------------- */

static int open_file(struct nic *nic, const char *path)
{
	struct captures *set = captures_new();
	int rc = set ? captures_file(set, path) : -ENOMEM;

	if (rc && set)
		captures_leave(set);
	if (rc)
		return rc;
	captures_join(set);
	nic->captures = set;
	return 0;
}

int captures_put_file(struct nic *nic, const char *path, struct link **link, bool ordered)
{
	int rc = nic->captures ? 0 : open_file(nic, path);

	if (!rc)
		rc = pcap_wrap(link, *link, nic->captures, ordered);
	if (rc)
		log_error("URNIC_PCAP: cannot write %s: %s", path,
			  rc == -EBUSY ? "another process captures into it "
					 "(%p in the name is the process's number)"
				       : strerror(-rc));
	return rc;
}

/* --- for those who ask ------------------------------------------------------------- */

/* Puts a pcap link under the fault link of a place, or under the outermost one. */
static int put_under(struct nic *nic, struct fault_place *p)
{
	struct link *below = p->fault ? fault_inner(p->fault) : *p->inner;

	if (p->capture)
		return 0;
	if (pcap_wrap(&p->capture, below, nic->captures, p->ordered))
		return -ENOMEM;
	if (p->fault)
		fault_capture(p->fault, p->capture);
	else
		*p->inner = p->capture;
	return 0;
}

static int put_missing(struct nic *nic)
{
	int rc = 0;

	if (!nic->faults || !nic->faults->n)
		return -ENOMEM;
	if (!nic->captures) {
		nic->captures = captures_new();
		if (!nic->captures)
			return -ENOMEM;
		captures_join(nic->captures);
	}
	for (unsigned i = 0; i < nic->faults->n && !rc; i++)
		rc = put_under(nic, &nic->faults->at[i]);
	return rc;
}

static uint64_t count_unseen(void *arg)
{
	struct nic *nic = arg;

	return peers_requests(peers_of(&nic->core));
}

/* The engine looks at the links' new deadlines. */
static void wake_links(struct nic *nic)
{
	for (unsigned i = 0; i < nic->faults->n; i++)
		link_sent(nic->faults->at[i].outer);
}

static int begin_capture(struct nic *nic, const struct asker *by, int *fd, uint64_t now)
{
	struct capture_reader reader = { .slot = by->slot,
					 .unseen = count_unseen,
					 .arg = nic };
	char of[64];
	int rc = *fd < 0 ? -EINVAL : put_missing(nic);

	if (rc)
		return rc;
	snprintf(of, sizeof(of), "process %d (%.32s)", (int)getpid(),
		 program_invocation_short_name);
	reader.of = of;
	*fd = fd_raise(*fd);
	rc = captures_read(nic->captures, *fd, &reader, now);
	if (rc)
		return rc;
	*fd = -1;
	wake_links(nic);
	log_info("packets are captured, as another process has asked");
	return 0;
}

static bool is_text(const uint8_t *text, size_t len, const char *word)
{
	return len == strlen(word) && memcmp(text, word, len) == 0;
}

int captures_ask(struct nic *nic, const struct asker *by, const uint8_t *text, size_t len,
		 int *fd, uint64_t now)
{
	static const char full[] = "as many captures as a process may have are under way";
	int rc;

	if (is_text(text, len, "begin")) {
		rc = begin_capture(nic, by, fd, now);
	} else if (is_text(text, len, "end")) {
		captures_gone(nic, by->slot, now);
		rc = 0;
	} else {
		return -EOPNOTSUPP;
	}
	if (rc == -EMFILE) {
		asker_tell(by, rc, full, sizeof(full) - 1);
		return 0;
	}
	if (!rc)
		asker_tell(by, 0, NULL, 0);
	return rc;
}

void captures_close(struct nic *nic)
{
	if (nic->captures)
		captures_leave(nic->captures);
	nic->captures = NULL;
}

void captures_gone(struct nic *nic, uint16_t slot, uint64_t now)
{
	if (nic->captures && captures_end(nic->captures, slot, now))
		log_info("packets are captured no more for the process that has asked");
}
