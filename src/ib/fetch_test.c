/* SPDX-License-Identifier: BSD-2-Clause */
/* fetch.c - matches fetched bytes to their response. */
#include "ib/relay_fix.h"

#include "ib/relay.h"

static int bytes(struct lab *x, const struct resource *t, struct relay_bytes *out)
{
	struct core *core = &x->s->node[1].core;
	enum refusal why;
	int rc;

	turn_take(&core->turn);
	lock_take(&x->to->lock);
	rc = relay_bytes(ib_qp(x->to), t, out, &why);
	lock_give(&x->to->lock);
	turn_give(&core->turn);
	return rc;
}

static void renew(struct lab *x)
{
	struct core *core = &x->s->node[1].core;

	turn_take(&core->turn);
	lock_take(&x->to->lock);
	relay_free(ib_qp(x->to));
	lock_give(&x->to->lock);
	turn_give(&core->turn);
}

static struct resource a_read(const struct lab *x, uint32_t len)
{
	return (struct resource){
		.va = x->mr->mkey.base,
		.rkey = x->mr->mkey.key,
		.len = len,
		.npkts = (len + 1023) / 1024,
		.srqn = x->srq->num,
	};
}

static void a_part_is_that_of_a_read_of_its_length(void **state)
{
	struct lab *x = lab_open(NULL);
	struct resource t = a_read(x, 2500), longer = a_read(x, 9000);
	struct relay_bytes b;

	(void)state;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_int_equal(b.n, 3);
	t.sent = 2;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_int_equal(b.n, 1);
	assert_memory_equal(b.at, x->mem + 2048, 452);
	assert_int_equal(bytes(x, &longer, &b), -EAGAIN);
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &longer, &b), 0);
	assert_int_equal(b.n, 9);
	assert_memory_equal(b.at, x->mem, 9000);
	lab_close(x);
}

/* A late part for an earlier relay is not taken for this relay's. */
static void parts_of_two_relays_have_different_numbers(void **state)
{
	struct lab *x = lab_open(NULL);
	struct resource t = a_read(x, 1000);
	struct relay_bytes b;

	(void)state;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	assert_true(deliver(x)); /* XRC_FETCH; XRC_DATA is still on its way */
	renew(x);
	x->stopped = true;
	x->mem[0] ^= 1;
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	deliver(x);
	assert_int_equal(bytes(x, &t, &b), -EAGAIN);
	x->stopped = false;
	while (deliver(x))
		;
	assert_int_equal(bytes(x, &t, &b), 0);
	assert_memory_equal(b.at, x->mem, 1000);
	lab_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_part_is_that_of_a_read_of_its_length),
		cmocka_unit_test(parts_of_two_relays_have_different_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
