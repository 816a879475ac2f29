/* SPDX-License-Identifier: BSD-2-Clause */
/* captures.h - captures of the packets of a NIC: into a file from the start (URNIC_PCAP),
 * and for commands that ask while it runs (`urnic extcap').
 *
 * A link that is not captured from the start gets its pcap link with the first command:
 * under the fault link, if it has one (driver/faults.h knows the places). It stays, and
 * passes all calls on without a capture. Who asks gets what the links carry; QPs whose
 * peers are on this host go on by memory, and their requests are counted. All calls need
 * the turn.
 */
#ifndef DRIVER_CAPTURES_H
#define DRIVER_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asker;
struct link;
struct nic;

/* Captures *link into the file, or into that of the NIC's first link. Returns 0, or
 * -errno after logging why. */
int captures_put_file(struct nic *nic, const char *path, struct link **link,
		      bool ordered);

/* Answers ASK_CAPTURE. Text "begin": from now on the packets go to the stream socket *fd,
 * which is taken over. "end": they no longer do, and all that there was is in the socket
 * as far as it had room. Returns 0: it has answered, or -errno, which is the answer. */
int captures_ask(struct nic *nic, const struct asker *by, const uint8_t *text, size_t len,
		 int *fd, uint64_t now);

/* The links are closed. */
void captures_close(struct nic *nic);

/* The process of slot has ended. */
void captures_gone(struct nic *nic, uint16_t slot, uint64_t now);

#endif
