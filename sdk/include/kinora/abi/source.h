/* kinora.source/1-draft.1: gives the samples of a data set one after the other (shards, a table). draft
 *
 * The order of the samples is a function of the data, the options and the part alone: every instance gives the
 * same. Shuffling, blending and decoding are not the source's work.
 *
 * Parts. An instance gives part `shard` of `shards`. The parts 0 to shards - 1 have no sample in common, and
 * together they have every sample.
 *
 * Damage. next() returns KINORA_ERROR_DATA for a sample or a file that cannot be read, with a message that
 * names the place. The source has passed over it: the next call continues behind it. So a damaged file costs
 * its samples and nothing else. Any other error leaves the position where it was, and next() may be called
 * again. Calls that wait for the data end with KINORA_ERROR_CANCELLED soon after the run was asked to stop.
 *
 * Training reads a source that has at() and knows its count(): its order is shuffled and resumes anywhere.
 *
 * Draft: it becomes 1.0 when sources of other people have been trained from. */
#ifndef KINORA_ABI_SOURCE_H
#define KINORA_ABI_SOURCE_H
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
#include "kinora/abi/sample.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_SOURCE "kinora.source/1-draft.1"

#define KINORA_SOURCE_MOST_STATE 65536 /* bytes of a state */

typedef struct kinora_source {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] A new instance; null and set_error on failure. It reads nothing. */
  void* (*create)(const kinora_host*, const kinora_options*);
  /* [owner-thread] When no other call runs: the host has waited for every at(). */
  void (*destroy)(void* self);
  /* [owner-thread] Before any other call: finds the data. path: what the user wrote, a path or a URI.
   * shard < shards, else KINORA_ERROR_INVALID. Succeeds once: after an error the instance is as create() made it,
   * and open() may be called again. */
  int32_t (*open)(void* self, kinora_str path, uint64_t shard, uint64_t shards, const kinora_run*);
  /* [owner-thread] The next sample, with one reference that becomes the caller's; KINORA_SIGNAL_END, and *out
   * as it was, after the last, and again until restore(). Errors: "Damage" above. */
  int32_t (*next)(void* self, const kinora_run*, kinora_sample** out);
  /* [owner-thread] Writes the position: at most KINORA_SOURCE_MOST_STATE bytes, which mean something to this
   * source only. */
  int32_t (*state)(void* self, const kinora_sink* out);
  /* [owner-thread] Continues exactly after the sample that next() gave, or passed over, before state() wrote
   * these bytes, in this process or in another one. KINORA_ERROR_INVALID, and the position stays, if they are
   * of other data or of another part, or not what state() writes. */
  int32_t (*restore)(void* self, kinora_bytes state);
  /* [owner-thread] The number of samples of this part, damaged ones included, if it is known without reading
   * them; else KINORA_ERROR_UNSUPPORTED. Null: never known. */
  int32_t (*count)(void* self, uint64_t* out);
  /* [any-thread] After open(), also while other calls run: sample i of this part, i < count(), counted in the
   * order of next(); with one reference that becomes the caller's. The position stays. KINORA_ERROR_DATA for a
   * damaged sample. Null: the samples are given only one after the other. */
  int32_t (*at)(void* self, uint64_t i, const kinora_run*, kinora_sample** out);
} kinora_source;

KINORA_SLOT(kinora_source, struct_size, 0);
KINORA_SLOT(kinora_source, reserved, 4);
KINORA_SLOT(kinora_source, create, 8);
KINORA_SLOT(kinora_source, destroy, 16);
KINORA_SLOT(kinora_source, open, 24);
KINORA_SLOT(kinora_source, next, 32);
KINORA_SLOT(kinora_source, state, 40);
KINORA_SLOT(kinora_source, restore, 48);
KINORA_SLOT(kinora_source, count, 56);
KINORA_SLOT(kinora_source, at, 64);
KINORA_SIZE(kinora_source, 72);
KINORA_EXTERN_C_END
#endif
