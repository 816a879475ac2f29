/* SPDX-License-Identifier: BSD-2-Clause */
/* input.h - takes a fuzzer's input piece by piece; missing bytes are 0. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdint.h>

struct input {
	const uint8_t *at, *end;
};

/* Returns the next bytes, four at most, as a big-endian number. */
static inline unsigned take(struct input *in, unsigned bytes)
{
	unsigned v = 0;

	for (; bytes > 0; bytes--)
		v = v << 8 | (in->at < in->end ? *in->at++ : 0u);
	return v;
}

static inline uint8_t take_byte(struct input *in)
{
	return (uint8_t)take(in, 1);
}

#endif
