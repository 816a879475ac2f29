/* SPDX-License-Identifier: BSD-2-Clause */
/* world_fix.h - for tests of what processes ask a running NIC: a NIC around one end of a
 * loop, and a process that asks. */
#ifndef DRIVER_WORLD_FIX_H
#define DRIVER_WORLD_FIX_H

#include "driver/asker_fix.h"
#include "driver/captures.h"
#include "driver/faults.h"
#include "driver/nic_own.h"
#include "net/link_testing.h"
#include "net/loop.h"
#include "net/roce.h"
#include "shm/peers.h"
#include "verbs/core.h"

enum { PORT = 4791 };

static struct world {
	struct nic nic;
	struct link *outer, *far;
	struct host *host;
	struct asker by;
	pid_t reader;
} w;

/* A NIC with one link of run_max 4; whoever asks expects this error. */
static void open_world(int error)
{
	const struct loop_conf conf = { .run_max = 4, .mtu = 9000 };
	static const struct peers_ops ops = { 0 };
	struct link *near;

	memset(&w, 0, sizeof(w));
	w.reader = start_reader((struct expected){ 5, error }, &w.by.slot);
	w.host = w.by.host = host_with(w.by.slot);
	w.by.serial = 5;
	assert_int_equal(core_init(&w.nic.core, host_slot(w.host)), 0);
	assert_int_equal(peers_open(&w.nic.core, w.host, LOCAL_PIPE, NULL, &ops, NULL),
			 0);
	assert_int_equal(loop_pair(&near, &w.far, &conf), 0);
	assert_int_equal(roce_wrap(&w.outer, near, PORT), 0);
	faults_know(&w.nic, w.outer, roce_inner(w.outer), false, "", false);
}

static void close_world(void)
{
	assert_int_equal(users_wait(w.reader), 0);
	w.outer->ops->close(w.outer);
	w.far->ops->close(w.far);
	faults_close(&w.nic);
	captures_close(&w.nic);
	peers_close(&w.nic.core);
	core_fini(&w.nic.core);
	host_close(w.host);
}

#endif
