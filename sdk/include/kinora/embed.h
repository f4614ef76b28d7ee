/* kinora/embed.h: runs jobs and stages inside another program, which links libkinora.
 *
 * DRAFT: functions and structs may change in any release; KINORA_EMBED_DRAFT changes with them, and kinora_embed_open() refuses a
 * program that was built with another number. To become 1.0 it needs a second user besides the Python module, several hosts in one
 * process, and a progress call of its own.
 *
 * Link with -lkinora of an installation's lib. The conventions are those of abi/base.h: statuses, borrowed inputs, thread tags. No
 * function throws. After a negative status kinora_embed_error() says what is wrong, where, and what to do.
 *
 * libtorch is looked for when a job first needs tensors, as for the program (KINORA_TORCH first): set that variable before
 * kinora_embed_open() if the process has its own libtorch. */
#ifndef KINORA_EMBED_H
#define KINORA_EMBED_H
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_EMBED_DRAFT 1u

typedef struct kinora_embed kinora_embed; /* a host: its plugins, storages and log */

typedef struct kinora_embed_options {
  uint32_t struct_size;
  uint32_t draft;                    /* KINORA_EMBED_DRAFT */
  const char* const* plugin_folders; /* searched first; null if there are none */
  uint64_t n_plugin_folders;
  const char* log_level; /* trace, debug, info, warn, error, off; null: that of the run file, else info */
  /* [any-thread] One line of the log, of that level and above; level: KINORA_LOG_*. It must not call functions
   * of this header, except kinora_embed_cancel(). Null: lines go to stderr. Progress of long jobs is written
   * to stderr in both cases. */
  void (*log)(void* user, int32_t level, kinora_str line);
  void* user;
} kinora_embed_options;

typedef struct kinora_embed_run_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char* file; /* path of a run file; with `text`: the file that messages and relative paths refer to */
  const char* text; /* contents of a run file; null: `file` is read */
  const char* out;  /* output folder; null: as the file says */
  const char* only; /* this job and the jobs that it reads; null: all */
  const char* const* sets; /* "JOB.OPTION=VALUE", as --set; null if there are none */
  uint64_t n_sets;
} kinora_embed_run_options;

/* [any-thread] "0.1.0". Lives as long as the process. */
const char* kinora_embed_version(void);

/* [any-thread] The last error of the calling thread, "" if it has none; valid until its next call. */
const char* kinora_embed_error(void);

/* [owner-thread] Finds the plugins: in plugin_folders, KINORA_PLUGIN_PATH, the user's folder and next to
 * libkinora. KINORA_ERROR_UNSUPPORTED for another draft; KINORA_ERROR_INVALID if the process has an open host. */
int32_t kinora_embed_open(const kinora_embed_options* options, kinora_embed** out);
/* [owner-thread] Release every sample first. Libraries of plugins stay loaded. */
void kinora_embed_close(kinora_embed*);

/* [owner-thread] Runs the jobs of a run file, as `kinora run` does: finished jobs are not repeated. Returns when all are
 * done. KINORA_ERROR_INVALID if the file has errors; the message has one line each, as FILE:LINE:COL, and nothing
 * ran. KINORA_ERROR_CANCELLED after kinora_embed_cancel(): call it again to continue. KINORA_ERROR_FAILED with
 * the last error of the log. */
int32_t kinora_embed_run(kinora_embed*, const kinora_embed_run_options*);

/* [any-thread] Asks the run or apply that is in progress to stop. Without one it does nothing. */
void kinora_embed_cancel(kinora_embed*);

/* [owner-thread] Writes a JSON array with an object for each component: "id", "kind", "name", "help", "plugin", "version",
 * and "options", an object of "type", "default" and "help" by name. */
int32_t kinora_embed_components(kinora_embed*, const kinora_sink* to);

/* [any-thread] Samples and their tensors: see abi/sample.h. Lives as long as the process. */
const kinora_samples_api* kinora_embed_samples(void);

/* [owner-thread] The sample's tensor `name`, shared instead of copied, as the DLPack tensor of an owner of its
 * own: read-only, valid after the sample is released. Call its deleter once. KINORA_ERROR_NOT_FOUND if absent. */
int32_t kinora_embed_share_tensor(const kinora_sample*, const char* name, kinora_dl_managed** out);

/* [owner-thread] Sends n samples through stages, one after the other, in this thread; what a stage emits is the next
 * one's input. `stages` is a JSON array: ["video.probe", {"use": "clip.transcode", "height": 240}]. `to`
 * receives what leaves the last stage and what a stage drops or fails, within this call; a failed sample has its
 * key alone. Its emit, drop and fail must exist; hold, stored and made_of are not used. A status that emit returns ends the
 * call and is its result. Stages that read untrusted media run in processes of their own where the program
 * `kinora` is installed with libkinora. KINORA_ERROR_INVALID if a stage or an option is unknown. */
int32_t kinora_embed_apply(kinora_embed*, const char* stages, kinora_sample* const* samples, uint64_t n,
                           const kinora_emit* to);

KINORA_EXTERN_C_END
#endif
