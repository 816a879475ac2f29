/* SPDX-License-Identifier: BSD-2-Clause */
/* secret.c - random numbers in stock; see secret.h. */
#include "sys/secret.h"

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>

#include "sys/rand.h"

/* Before the kernel has randomness, and where seccomp denies getrandom(), the numbers are
 * at least unlike any other process's. */
static void refill(struct secret *s)
{
	uint8_t *at = (uint8_t *)s->word;
	size_t done = 0;

	s->left = SECRET_WORDS;
	while (done < sizeof(s->word)) {
		ssize_t n = getrandom(at + done, sizeof(s->word) - done, GRND_NONBLOCK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (done < sizeof(s->word)) {
		struct prng r = { rand_start() };

		for (unsigned i = 0; i < SECRET_WORDS; i++)
			s->word[i] = (uint32_t)rand_u64(&r);
	}
}

uint32_t secret_word(struct secret *s)
{
	if (!s->left)
		refill(s);
	return s->word[--s->left];
}

uint32_t secret_below(struct secret *s, uint32_t n)
{
	return (uint32_t)((uint64_t)secret_word(s) * n >> 32);
}

void secret_shuffle(struct secret *s, uint16_t *v, unsigned n)
{
	for (; n > 1; n--) {
		unsigned i = secret_below(s, n);
		uint16_t last = v[n - 1];

		v[n - 1] = v[i];
		v[i] = last;
	}
}
