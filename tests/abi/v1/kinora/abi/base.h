/* kinora/abi/base.h: conventions and types of every interface of the ABI.                     since ABI 1.0
 *
 * Conventions, for all headers of this folder:
 *  1. C11. Only fixed-width integers, doubles and pointers cross the boundary: no bool, enum, union, bit-field or
 *     C++ type. Flags are uint32_t; a truth value is int32_t, 0 or 1.
 *  2. A struct begins with `uint32_t struct_size` (its sizeof in the writer's headers) and has no padding holes.
 *     Members are only appended. A reader tests KINORA_HAS(p, member) before it touches a member that came after 1.0;
 *     it never compares struct_size with its own sizeof, and never copies more than struct_size bytes. For a struct
 *     that a call fills in, the caller sets struct_size to the room there is, and the callee writes it by
 *     KINORA_FILL. kinora_str, kinora_bytes, kinora_sink, kinora_named, kinora_value and kinora_dl_* have no
 *     struct_size: they never grow. An array of structs is an array of pointers.
 *  3. Functions return a status: KINORA_OK, a positive signal, or a negative error after host->set_error().
 *     An error leaves every output untouched and everything passed in still owned by the caller.
 *  4. Inputs are borrowed for the call. Outputs are owned by the caller and released by the named release function.
 *  5. Strings are UTF-8. `const char*` ends in NUL; kinora_str has a length and need not end in NUL.
 *  6. Each function carries a thread tag:
 *       [any-thread]     callable at the same time from any threads
 *       [owner-thread]   one thread at a time; the caller serialises calls on one `self`
 *       [worker-thread]  as owner-thread, on an engine's worker; may block
 *       [autograd-thread] also from inside a backward pass, then on the thread that runs it
 *  7. No function may throw, longjmp or exit through this boundary.
 *  8. create() returns an instance, or null after host->set_error(). Its arguments are borrowed unless stated
 *     otherwise, except the host, which outlives everything. destroy(), close() and release() cannot fail, take an
 *     object made by the same table, once, and never null unless they say so; without a tag of their own they are
 *     [owner-thread]. Objects that an instance made (readers, streams, groups) are released before the instance.
 *  9. A function pointer is null only where its comment says what that means. `self` and `user` belong to the writer
 *     of the struct and are passed back unread.
 * 10. Sizes and offsets of memory are in bytes, of tensors in elements. Shapes read [outermost, ..., innermost],
 *     innermost fastest: B batch, C channels, T frames, H rows, W columns, L tokens, D width.
 * 11. What is not known is refused, never ignored. A reader that finds `reserved` not 0, a bit that it does not
 *     know, or a value outside the set that it knows returns KINORA_ERROR_UNSUPPORTED and names it. `needs` of a
 *     struct has one bit for each appended member that must not be ignored, named where the struct is, if it has any.
 *     An unknown status, negative or positive, is KINORA_ERROR_FAILED.
 * 12. An interface whose id ends in "/1-draft.N" is a draft: it may change in any release, then N changes too, and a
 *     component is loaded on the exact N only. Every other interface keeps the rules above for the whole of its major
 *     version. */
#ifndef KINORA_ABI_BASE_H
#define KINORA_ABI_BASE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if UINTPTR_MAX != 0xffffffffffffffff
#error "Kinora's ABI has 64-bit pointers: build this plugin for a 64-bit machine"
#endif

#ifdef __cplusplus
#define KINORA_EXTERN_C_BEGIN extern "C" {
#define KINORA_EXTERN_C_END }
#define KINORA_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define KINORA_EXTERN_C_BEGIN
#define KINORA_EXTERN_C_END
#define KINORA_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif
/* Code of the C++ headers over this ABI is compiled into every plugin and exported by none, whatever
 * -fvisibility says: a plugin must not be bound to the copy of another one. The host's own libraries define
 * KINORA_HOST and have version scripts instead. */
#if defined(__GNUC__) && !defined(KINORA_HOST)
#define KINORA_SDK_BEGIN _Pragma("GCC visibility push(hidden)")
#define KINORA_SDK_END _Pragma("GCC visibility pop")
#else
#define KINORA_SDK_BEGIN
#define KINORA_SDK_END
#endif
/* The offset of a slot is part of the contract: a slot that moves fails to compile here. */
#define KINORA_SLOT(type, member, offset)                  \
  KINORA_STATIC_ASSERT(offsetof(type, member) == (offset), \
                       #type "." #member " moved: slots are only appended")
#define KINORA_SIZE(type, size)                \
  KINORA_STATIC_ASSERT(sizeof(type) == (size), \
                       #type " has another size: padding, or a slot that is not pinned here")

/* Whether *p, whose writer may be older, has this member. For a struct that begins with struct_size. */
#define KINORA_HAS(p, member) \
  ((size_t)((const char*)(&(p)->member + 1) - (const char*)(p)) <= (p)->struct_size)
/* Copies *from into *out as far as both reach; either may be of an older or a newer minor. out->struct_size
 * is the room in *out before, and what was written after. A struct whose writer left struct_size 0 has its size
 * in these headers. */
#define KINORA_FILL(out, from) kinora_fill((out), (from), (uint32_t)sizeof *(from))

static inline void kinora_fill(void* out, const void* from, uint32_t size_of_from) {
  uint32_t room, size;
  memcpy(&room, out, sizeof room);
  memcpy(&size, from, sizeof size);
  if (room == size_of_from && size == size_of_from) { /* the usual case: a copy of a constant size */
    memcpy(out, from, size_of_from);
    return;
  }
  if (size == 0) size = size_of_from;
  if (size > room) size = room;
  memcpy(out, from, size);
  if (size >= sizeof size) memcpy(out, &size, sizeof size);
}

/* The version of these headers. A plugin works with every host of the same major version whose minor version
 * is not older than the one it needs: define KINORA_ABI_TARGET_MINOR as the *oldest* minor that has all the
 * slots you use (default 0). */
#define KINORA_ABI_MAJOR 1u
#define KINORA_ABI_MINOR 0u
#ifndef KINORA_ABI_TARGET_MINOR
#define KINORA_ABI_TARGET_MINOR 0u
#endif

/* Signals: not errors. */
#define KINORA_OK 0
#define KINORA_SIGNAL_STOP \
  1 /* calls of a context only: this rank's part of the model ends here; release everything and return it */
#define KINORA_SIGNAL_END 2 /* no more items */
/* Errors. */
#define KINORA_ERROR_FAILED (-1)      /* anything without a better code */
#define KINORA_ERROR_INVALID (-2)     /* an argument or option is wrong; the caller can correct it */
#define KINORA_ERROR_NOT_FOUND (-3)   /* a file, field, interface or component does not exist */
#define KINORA_ERROR_UNSUPPORTED (-4) /* valid, but not by this implementation */
#define KINORA_ERROR_IO (-5)          /* reading or writing failed; trying again may help */
#define KINORA_ERROR_NO_MEMORY (-6)   /* memory or disk is full */
#define KINORA_ERROR_DATA (-7)      /* the input's bytes are damaged or hostile; trying again does not help */
#define KINORA_ERROR_CANCELLED (-8) /* the run was asked to stop */
#define KINORA_ERROR_TIMEOUT (-9)   /* a peer did not answer in time */
#define KINORA_ERROR_REFUSED \
  (-10) /* a stage: it cannot process any sample (a refused credential, a missing model); ends the run */

typedef struct kinora_str {
  const char* data; /* UTF-8, not NUL-terminated; may be null when size is 0 */
  uint64_t size;
} kinora_str;

typedef struct kinora_bytes {
  const void* data; /* of any alignment; may be null when size is 0 */
  uint64_t size;
} kinora_bytes;

/* Receives text or bytes, so that ownership of memory never crosses the boundary. write() may be called any
 * number of times. It cannot fail: a receiver reports its own errors to its caller. [owner-thread], only
 * within the call that received the sink. */
typedef struct kinora_sink {
  void* self;
  void (*write)(void* self, const void* data, uint64_t size);
} kinora_sink;

KINORA_SLOT(kinora_str, data, 0);
KINORA_SLOT(kinora_str, size, 8);
KINORA_SIZE(kinora_str, 16);
KINORA_SLOT(kinora_bytes, data, 0);
KINORA_SLOT(kinora_bytes, size, 8);
KINORA_SIZE(kinora_bytes, 16);
KINORA_SLOT(kinora_sink, self, 0);
KINORA_SLOT(kinora_sink, write, 8);
KINORA_SIZE(kinora_sink, 16);
#endif
