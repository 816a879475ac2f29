/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.h - the parts that parts.def names. */
#ifndef CHECK_PARTS_H
#define CHECK_PARTS_H

#include "check/check.h"

#define PART(name) extern const struct check_part name##_part;
#include "check/parts.def"
#undef PART

#endif
