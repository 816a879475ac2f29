/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_local.c - finds by which way processes of this host will reach each other, and
 * why. docs/dev/peers.md describes the ways. */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"
#include "sys/conf.h"
#include "sys/fd.h"
#include "sys/vacant.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static const char by_udp[] = "messages between processes of this host go by UDP:"
			     " several times the latency, a fraction of the bandwidth";
static const char by_pipe[] =
	"WRITE and READ within this host go through shared"
	" memory: two copies instead of one, and the other process has to take part";

/* --- what is configured -------------------------------------------------- */

static const char *const way_name[] = {
	[CONF_LOCAL_OFF] = "off",   [CONF_LOCAL_PIPE] = "pipe", [CONF_LOCAL_VM] = "vm",
	[CONF_LOCAL_AUTO] = "auto", [CONF_LOCAL_MAP] = "map",
};

static struct conf configured(void)
{
	struct conf conf = { .local = CONF_LOCAL_AUTO };
	struct conf_origin origin;
	char err[CONF_ERR];

	if (conf_read(&conf, &origin, err))
		conf = (struct conf){ .local = CONF_LOCAL_AUTO };
	return conf;
}

/* --- what the kernel does ------------------------------------------------ */

/* Makes sealed memory as for pipes and export tables, with these seals in addition.
 * Returns 0 or an errno. */
static int sealed_memory(int seals)
{
	int fd = fd_memory("urnic-doctor", 4096), rc;

	if (fd < 0)
		return -fd;
	seals |= F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	rc = fcntl(fd, F_ADD_SEALS, seals) ? errno : 0;
	close(fd);
	return rc;
}

struct trial {
	int error;	  /* 0: it works */
	const char *call; /* the call that failed */
};

/* Copies a word from process pid and back to it.  pid runs this program, so the word has
 * the same address there. */
static struct trial copy_word(pid_t pid)
{
	static uint64_t there;
	uint64_t here = 0;
	struct iovec mine = { &here, sizeof(here) }, its = { &there, sizeof(there) };

	errno = EFAULT;
	if (process_vm_readv(pid, &mine, 1, &its, 1, 0) != sizeof(here))
		return (struct trial){ errno, "process_vm_readv" };
	if (process_vm_writev(pid, &mine, 1, &its, 1, 0) != sizeof(here))
		return (struct trial){ errno, "process_vm_writev" };
	return (struct trial){ 0 };
}

/* Reports over fd that this process runs, and waits until the other end is closed. */
static void be_there(int fd, bool consent)
{
	char c = 0;

	if (consent)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	if (write(fd, &c, 1) == 1)
		(void)!read(fd, &c, 1);
	_exit(0);
}

/* Can a process reach another one that it did not start?  (Yama always allows it to reach
 * those that it started.) */
static struct trial copy_between_siblings(bool consent)
{
	struct trial *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct trial got = { EAGAIN, "fork" };
	pid_t target = -1, other = -1;
	int pair[2];
	char c;

	if (t == MAP_FAILED)
		return got;
	*t = got;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		goto unmap;
	target = fork();
	if (target == 0) {
		close(pair[1]);
		be_there(pair[0], consent);
	}
	close(pair[0]);
	if (target > 0 && read(pair[1], &c, 1) == 1)
		other = fork();
	if (other == 0) {
		*t = copy_word(target);
		_exit(0);
	}
	if (other > 0)
		waitpid(other, NULL, 0);
	close(pair[1]);
	if (target > 0)
		waitpid(target, NULL, 0);
	got = *t;
unmap:
	munmap(t, sizeof(*t));
	return got;
}

/* What keeps two processes of this user from reaching each other's memory. */
struct barrier {
	enum { NOTHING, CONSENT, YAMA, SECCOMP, NO_SUCH_CALL, ANOTHER } what;
	struct trial failed;
	long scope; /* Yama's ptrace_scope; -1: no Yama */
};

static struct barrier barrier(void)
{
	struct barrier b = { .scope = probe_number("/proc/sys/kernel/yama/"
						   "ptrace_scope") };

	/* A process may always reach itself, unless the call is filtered. */
	b.failed = copy_word(getpid());
	if (b.failed.error) {
		b.what = b.failed.error == ENOSYS ? NO_SUCH_CALL : SECCOMP;
		return b;
	}
	b.failed = copy_between_siblings(false);
	if (!b.failed.error)
		b.what = NOTHING;
	else if (copy_between_siblings(true).error == 0)
		b.what = CONSENT;
	else
		b.what = b.scope > 0 ? YAMA : ANOTHER;
	return b;
}

static bool passes(const struct barrier *b, enum conf_local way)
{
	return b->what == NOTHING || (b->what == CONSENT && way == CONF_LOCAL_VM);
}

/* --- findings ------------------------------------------------------------ */

/* Reports that messages go by UDP, if they do; returns true if so, and f is complete. */
static bool finds_udp(struct finding *f, const struct conf *conf)
{
	int rc = sealed_memory(0);

	if (conf->local == CONF_LOCAL_OFF)
		finding(f, OK, "", "", "UDP: local (URNIC_LOCAL) is off");
	else if (*conf->pcap)
		finding(f, LIMITED, by_udp, "for speed: no capture (pcap, URNIC_PCAP)",
			"UDP, since packets are to be captured");
	else if (*conf->fault)
		finding(f, LIMITED, by_udp, "for speed: no faults (fault, URNIC_FAULT)",
			"UDP, since faults are to be injected");
	else if (rc)
		finding(f, LIMITED, by_udp, "see memfd",
			"UDP: no sealed shared"
			" memory: %s",
			strerror(rc));
	else
		return false;
	return true;
}

/* Is there membarrier(), which threads need that use mapped memory of other processes? */
static bool has_membarrier(void)
{
	long has = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);

	return has > 0 && has & MEMBARRIER_CMD_GLOBAL_EXPEDITED;
}

/* May the stores of other threads be held back while private memory becomes a file's? */
static bool holds_stores(void)
{
	struct vacant v;
	int rc = vacant_open_forks(&v);

	if (!rc)
		vacant_close(&v);
	return !rc;
}

/* The end of a finding: which memory is used by loads and stores instead. */
static const char *maps_private(const struct conf *conf)
{
	const enum conf_local way = conf->local;

	if ((way == CONF_LOCAL_MAP || way == CONF_LOCAL_AUTO) && conf->map_threads)
		return holds_stores()
			       ? "; or by loads and stores where the region's memory is"
				 " shared, or is private memory of a program that was"
				 " started by `urnic run', with threads, too (userfaultfd;"
				 " URNIC_MAP_THREADS is yes)"
			       : "; or by loads and stores where the region's memory is"
				 " shared, or is private memory of a program that has one"
				 " thread and was started by `urnic run' (URNIC_MAP_THREADS"
				 " is yes, but userfaultfd with events needs"
				 " CAP_SYS_PTRACE and Linux 5.19)";
	if (way == CONF_LOCAL_MAP)
		return "; or by loads and stores where the region's memory is shared, or"
		       " is private memory of a program that has one thread";
	if (way == CONF_LOCAL_AUTO)
		return "; or by loads and stores where the region's memory is shared, or"
		       " is private memory of a program that has one thread and was"
		       " started by `urnic run'";
	return "; or by loads and stores where the region's memory is shared";
}

void probe_same_host(struct finding *f)
{
	struct conf conf = configured();
	const char *way = way_name[conf.local];
	struct barrier b;
	int rc;

	if (finds_udp(f, &conf))
		return;
	if (conf.local == CONF_LOCAL_PIPE) {
		finding(f, OK, "", "",
			"everything through shared memory: local"
			" (URNIC_LOCAL) is pipe");
		return;
	}
	rc = sealed_memory(F_SEAL_FUTURE_WRITE);
	b = barrier();
	if (rc)
		finding(f, LIMITED, by_pipe, "see memfd",
			"everything through shared"
			" memory: F_SEAL_FUTURE_WRITE: %s (local is %s)",
			strerror(rc), way);
	else if (!passes(&b, conf.local))
		finding(f, LIMITED, by_pipe, "see process_vm_readv",
			"everything"
			" through shared memory: %s: %s (local is %s)",
			b.failed.call, strerror(b.failed.error), way);
	else
		finding(f, OK, "", "",
			"SEND through shared memory, WRITE and READ by"
			" process_vm_writev and process_vm_readv%s (local is %s)",
			has_membarrier() ? maps_private(&conf) : "", way);
}

void probe_memfd(struct finding *f)
{
	int rc = sealed_memory(0), exports = sealed_memory(F_SEAL_FUTURE_WRITE);

	if (rc)
		finding(f, MISSING, by_udp,
			rc == EFBIG
				? "raise ulimit -f"
				: "let seccomp allow memfd_create and fcntl(F_ADD_SEALS)",
			"no sealed shared memory: %s", strerror(rc));
	else if (exports)
		finding(f, LIMITED, by_pipe, "use Linux 5.1 or newer",
			"no F_SEAL_FUTURE_WRITE: %s", strerror(exports));
	else
		finding(f, OK, "", "", "sealed shared memory");
}

static const char *way_through(const struct barrier *b)
{
	switch (b->what) {
	case CONSENT:
		return "URNIC_LOCAL=vm for both programs (any process of the user may"
		       " trace them then), or sysctl kernel.yama.ptrace_scope=0";
	case YAMA:
		if (b->scope >= 3)
			return "reboot: ptrace_scope 3 cannot be taken back";
		return "sysctl kernel.yama.ptrace_scope=0, or 1 and URNIC_LOCAL=vm";
	case SECCOMP:
		return "let seccomp allow process_vm_readv and process_vm_writev (in"
		       " Docker: --cap-add SYS_PTRACE)";
	case NO_SUCH_CALL:
		return "a kernel with CONFIG_CROSS_MEMORY_ATTACH; or seccomp hides the"
		       " call (in Docker: --cap-add SYS_PTRACE)";
	case ANOTHER:
		return "look for a security module, and for user namespaces that"
		       " differ";
	case NOTHING:
		break;
	}
	return "";
}

void probe_process_vm(struct finding *f)
{
	struct barrier b = barrier();
	const char *todo = way_through(&b);
	const char *call = b.failed.call, *error = strerror(b.failed.error);
	char yama[48] = "";

	if (b.scope >= 0)
		snprintf(yama, sizeof(yama), " (ptrace_scope is %ld)", b.scope);
	switch (b.what) {
	case NOTHING:
		finding(f, OK, "", "",
			"processes of this user reach each other's"
			" memory%s",
			yama);
		return;
	case CONSENT:
		if (passes(&b, configured().local))
			finding(f, OK, "", "", "opened by URNIC_LOCAL=vm%s", yama);
		else
			finding(f, LIMITED, by_pipe, todo,
				"%s: %s, unless the other"
				" process allows it%s",
				call, error, yama);
		return;
	case YAMA:
	case ANOTHER:
		finding(f, LIMITED, by_pipe, todo, "%s: %s%s", call, error, yama);
		return;
	case SECCOMP:
	case NO_SUCH_CALL:
		finding(f, LIMITED, by_pipe, todo, "%s, also upon itself: %s%s", call,
			error, yama);
		return;
	}
}
