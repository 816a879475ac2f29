/* SPDX-License-Identifier: BSD-2-Clause */
/* rand.h - a small seeded generator (splitmix64) for faults and tests: the same seed
 * gives the same run.  Not for secrets. */
#ifndef SYS_RAND_H
#define SYS_RAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>
#include <unistd.h>

#include "sys/clock.h"

struct prng {
	uint64_t state;
};

static inline void rand_seed(struct prng *r, uint64_t seed)
{
	r->state = seed;
}

static inline uint64_t rand_u64(struct prng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* A start value that differs each time and cannot be guessed.  Before the kernel has
 * randomness it is at least unlike any other process's. */
static inline uint64_t rand_start(void)
{
	struct prng r = { 0 };

	if (getrandom(&r.state, sizeof(r.state), GRND_NONBLOCK) != sizeof(r.state))
		r.state = (uint64_t)getpid() << 32 ^ clock_ns();
	return rand_u64(&r);
}

/* 0 .. n - 1; n is not 0. */
static inline uint64_t rand_below(struct prng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rand_u64(r) * n) >> 64);
}

/* True ppm times in a million. */
static inline bool rand_chance(struct prng *r, uint32_t ppm)
{
	return rand_below(r, 1000000) < ppm;
}

#endif
