/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/rsocket.h"
int rsock_dgram_new(struct rsock *rs) { (void)rs; return -EPROTONOSUPPORT; }
void rsock_dgram_free(struct rsock *rs) { (void)rs; }
int rsock_dgram_bind(struct rsock *rs, const struct sockaddr *a, socklen_t len){(void)rs,(void)a,(void)len;return -1;}
int rsock_dgram_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len){(void)rs,(void)a,(void)len;return -1;}
int rsock_dgram_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len){(void)rs,(void)a,(void)len,(void)peer;return -1;}
ssize_t rsock_dgram_send(struct rsock *rs, const struct iovec *iov, int n, int flags,
			 const struct sockaddr *to, socklen_t tolen){(void)rs,(void)iov,(void)n,(void)flags,(void)to,(void)tolen;return -1;}
ssize_t rsock_dgram_receive(struct rsock *rs, const struct iovec *iov, int n,
			    int *flags, struct sockaddr *from, socklen_t *fromlen){(void)rs,(void)iov,(void)n,(void)flags,(void)from,(void)fromlen;return -1;}
short rsock_dgram_events(struct rsock *rs) { (void)rs; return 0; }
void rsock_dgram_arm(struct rsock *rs) { (void)rs; }
