/* kinora/abi/host.h: the host's functions for a plugin.                                       since ABI 1.0
 *
 * The struct holds the few calls that every plugin needs. Everything else is an interface, which a plugin
 * requests by id and version and receives as a table of functions (or null): kinora.options/1,
 * kinora.samples/1, kinora.io/1, kinora.tensors/1. The host outlives every plugin; its tables are constant.
 */
#ifndef KINORA_ABI_HOST_H
#define KINORA_ABI_HOST_H
#include "kinora/abi/base.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_LOG_TRACE 0
#define KINORA_LOG_DEBUG 1
#define KINORA_LOG_INFO 2
#define KINORA_LOG_WARN 3
#define KINORA_LOG_ERROR 4

typedef struct kinora_host {
  uint32_t struct_size;
  uint32_t abi_major; /* the host's */
  uint32_t abi_minor;
  uint32_t reserved;
  /* [any-thread] Keeps (code, message) for the calling thread until its next error. The message names the
   * thing and the remedy in one line; it is copied. The thread that returns the status is the one that sets the
   * message: a plugin whose own thread failed hands the message to it. */
  void (*set_error)(const struct kinora_host*, int32_t code, const char* message);
  /* [any-thread] The calling thread's last message; valid until its next error. Empty if there was none. Its
   * code is the status that the failed call returned. Who calls a component (an engine) clears the message
   * before the call by set_error(host, KINORA_OK, ""): else a status without a message is given the text of
   * an older error, which the component handled. */
  kinora_str (*last_error)(const struct kinora_host*);
  /* [any-thread] The table of functions of interface `id` ("kinora.samples/1"), or null if the host does not
   * have this major version, or a draft's exact number; last_error then says why. minor: the oldest minor of
   * the ABI (KINORA_ABI_TARGET_MINOR) that has all the slots that the caller uses; a host offers every
   * interface at its own minor and returns null if that is older. kinora.tensors/1 loads libtorch on first
   * use. */
  const void* (*get_interface)(const struct kinora_host*, const char* id, uint32_t minor);
  /* [any-thread] level: KINORA_LOG_*. One line, copied. */
  void (*log)(const struct kinora_host*, int32_t level, const char* message);
} kinora_host;

KINORA_SLOT(kinora_host, struct_size, 0);
KINORA_SLOT(kinora_host, abi_major, 4);
KINORA_SLOT(kinora_host, abi_minor, 8);
KINORA_SLOT(kinora_host, reserved, 12);
KINORA_SLOT(kinora_host, set_error, 16);
KINORA_SLOT(kinora_host, last_error, 24);
KINORA_SLOT(kinora_host, get_interface, 32);
KINORA_SLOT(kinora_host, log, 40);
KINORA_SIZE(kinora_host, 48);
KINORA_EXTERN_C_END
#endif
