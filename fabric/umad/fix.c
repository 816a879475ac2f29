/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.c - the subnet for tests of umad; see fix.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/umad/fix.h"

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	struct ufix *x = ctx;

	x->sent++;
	if (!x->deaf && !rand_chance(&x->rand, x->loss))
		umad_input(x->u, node, port, pkt);
}

static void readable(void *ctx, void *owner)
{
	struct ufix *x = ctx;

	(void)owner;
	x->told++;
}

static const struct fabric_ops fabric_ops = { .deliver = deliver };
static const struct umad_ops umad_ops = { .readable = readable };

void ufix_start(struct ufix *x)
{
	memset(x, 0, sizeof(*x));
	fix_start(&x->x, fix_two);
	fabric_free(x->x.f);
	assert_int_equal(fabric_new(&x->x.f, &x->x.t, &fabric_ops, x), 0);
	x->f = x->x.f;
	fix_manage(&x->x);
	assert_int_equal(umad_new(&x->u, x->f, &umad_ops, x), 0);
	x->now = 1000000000;
	ufix_run(x, 0);
}

void ufix_end(struct ufix *x)
{
	umad_free(x->u);
	fix_end(&x->x);
}

void ufix_run(struct ufix *x, uint64_t ns)
{
	x->now += ns;
	umad_run(x->u, x->now);
	fabric_run(x->f, x->now);
}

struct ufix_msg ufix_msg(uint32_t agent, uint16_t lid, uint8_t class, uint8_t method,
			 uint16_t attr, uint64_t tid)
{
	bool smp = class == MAD_SM_LID || class == MAD_SM_DR;
	struct ufix_msg m = { .hdr = { .agent = agent,
				       .timeout_ms = 100,
				       .retries = 2,
				       .qpn = be32(smp ? QP_SMI : QP_GSI),
				       .qkey = be32(smp ? 0 : QKEY_GSI),
				       .lid = be16(lid) } };
	struct mad_hdr h = { .base_version = 1,
			     .class = class,
			     .class_version = class == MAD_SA ? 2 : 1,
			     .method = method,
			     .tid = be64(tid),
			     .attr = be16(attr) };

	memcpy(m.mad, &h, sizeof(h));
	return m;
}

int ufix_write(struct ufix *x, struct umad_file *file, const struct ufix_msg *m)
{
	int rc = umad_write(file, m, sizeof(*m), x->now);

	ufix_run(x, 0);
	return rc;
}

size_t ufix_read(struct umad_file *file, struct ufix_msg *m)
{
	size_t len;
	const void *msg = umad_peek(file, &len);

	memset(m, 0, sizeof(*m));
	if (!msg)
		return 0;
	assert_true(len <= sizeof(*m));
	memcpy(m, msg, len);
	umad_pop(file);
	return len;
}
