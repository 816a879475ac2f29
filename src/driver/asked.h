/* SPDX-License-Identifier: BSD-2-Clause */
/* asked.h - what a command such as `urnic dump' asks of this process while it runs.
 *
 * The command sends HOST_ASK over the connection that any two processes of a host may
 * have (host/host.h): a kind, a serial number, and what the kind takes. The process
 * answers with HOST_ANSWER: the serial number, an error, or 0 and what the kind gives. A
 * long answer lies in sealed memory, so this process writes into no memory of the
 * asker's and waits for none. Only this user's commands are answered.
 *
 * tools/ask.h has the other end.
 */
#ifndef DRIVER_ASKED_H
#define DRIVER_ASKED_H

#include <stdint.h>

struct host_said;
struct nic;

/* Handles HOST_ASK message s. The turn must be held. */
void asked(struct nic *nic, struct host_said *s, uint64_t now);

#endif
