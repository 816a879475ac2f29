/* SPDX-License-Identifier: BSD-2-Clause */
/* explain_table.c - the table of `urnic explain', made from the .def files. */
#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "cm/cm.h"
#include "explain.h"
#include "ib/ib.h"
#include "rdmacm/channel.h"
#include "wire/cm_mad.h"

/* clang-format off */
const char *const explain_kind_name[KINDS] = {
	"vendor", "status", "event", "nak", "counter", "cm_event", "cm_status",
	"cm_counter", "errno", "check", "log",
};

const char *const explain_kind_text[KINDS] = {
	"ibv_wc.vendor_err", "ibv_wc.status", "asynchronous event",
	"AETH syndrome", "counter", "event of rdma_cm", "rdma_cm_event.status",
	"counter of connection management", "errno of a verbs call",
	"check of urnic run --check",
	"line of the log",
};

const struct entry explain_entries[] = {
#define VERR(code, name, what, todo) { VENDOR, code, #name, what, todo, NULL },
#include "verbs/verr.def"
#undef VERR
#define EXPLAIN(kind, name, what, todo) { kind, name, #name, what, todo, NULL },
#include "explain.def"
#undef EXPLAIN
#define COUNT(value, name, what) { COUNTER, value, #name, what, "", NULL },
#include "verbs/counter.def"
#undef COUNT
	{ NAK, 0x60, "NAK_PSN_SEQUENCE", "the responder missed a packet",
	  "nothing: urnic sends it again; if there are many, look for loss", NULL },
	{ NAK, 0x61, "NAK_INVALID_REQUEST", "the responder refuses the request"
	  " as invalid", "see IBV_WC_REM_INV_REQ_ERR", NULL },
	{ NAK, 0x62, "NAK_REMOTE_ACCESS", "rkey, range or access do not allow"
	  " it", "see IBV_WC_REM_ACCESS_ERR", NULL },
	{ NAK, 0x63, "NAK_REMOTE_OPERATIONAL", "the responder could not carry"
	  " it out", "see IBV_WC_REM_OP_ERR", NULL },
	{ NAK, 0x64, "NAK_INVALID_RD_REQUEST", "an RD request is invalid (RD,"
	  " which urnic does not have)", "", NULL },
#define EXPLAIN(kind, name, what, todo) { kind, name, #name, what, todo, NULL },
#include "explain_cm.def"
#include "explain_errno.def"
#undef EXPLAIN
#define CHECK(id, name, on, what, todo, example) { CHECK, 0, name, what, todo, example },
#include "sys/checks.def"
#undef CHECK
#define LINE(part, what, todo) { LOG, 0, part, what, todo, NULL },
#include "explain_log.def"
#undef LINE
};
/* clang-format on */
enum { ENTRIES = sizeof(explain_entries) / sizeof(explain_entries[0]) };
static_assert((int)ENTRIES <= (int)EXPLAIN_MOST,
	      "what was shown is remembered for that many");
const int explain_entry_count = ENTRIES;

const char *explain_spoken(const struct entry *e)
{
	switch (e->kind) {
	case STATUS:
		return ibv_wc_status_str((enum ibv_wc_status)e->code);
	case EVENT:
		return ibv_event_type_str((enum ibv_event_type)e->code);
	case CM_STATUS:
	case ERRNO:
		return e->code < 0 ? strerror(-e->code) : "";
	case CM_EVENT: /* rdma_event_str() returns the name itself */
	case VENDOR:
	case NAK:
	case COUNTER:
	case CM_COUNTER:
	case CHECK:
	case LOG:
	case KINDS:
		break;
	}
	return "";
}

bool explain_has_code(const struct entry *e)
{
	return e->kind != COUNTER && e->kind != CM_COUNTER && e->kind != CHECK &&
	       e->kind != LOG;
}
