/* kinora/embed.h: runs jobs and stages inside another program, which links libkinora_embed.
 *
 * DRAFT: functions and structs may change in any release; KINORA_EMBED_DRAFT changes with them, and
 * kinora_embed_open() refuses a program that was built with another number. To become 1.0 it needs a second user
 * besides the Python module, several hosts in one process, and progress of its calls.
 *
 * Link with -lkinora_embed of an installation's lib. The conventions are those of abi/base.h: statuses, borrowed
 * inputs, thread tags. No function throws. After a negative status kinora_embed_error() says what is wrong, where,
 * and what to do.
 *
 * After fork() a child must not use the host of its parent, nor its samples: threads and locks do not come along.
 *
 * libtorch is looked for when a job first needs tensors, as for the program (KINORA_TORCH first): set that variable
 * before kinora_embed_open() if the process has its own libtorch. */
#ifndef KINORA_EMBED_H
#define KINORA_EMBED_H
#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN

#define KINORA_EMBED_DRAFT 3u

typedef struct kinora_embed kinora_embed;             /* a host: its plugins, storages and log */
typedef struct kinora_embed_stage kinora_embed_stage; /* one stage, or a chain of them, that is open */

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

typedef struct kinora_embed_stage_options {
  uint32_t struct_size;
  int32_t n_threads;  /* as of kinora_run; 0: one for each processor */
  const char* stages; /* a JSON array: ["video.probe", {"use": "clip.transcode", "max_height": 240}] */
  const char* device; /* that of kinora_run: "cpu", "cuda", "cuda:1"; null: the CPU */
  const char* out;    /* that of kinora_run; null: the working directory */
  uint64_t seed;
} kinora_embed_stage_options;

/* [any-thread] "0.1.0". Lives as long as the process. */
const char* kinora_embed_version(void);

/* [any-thread] The last error of the calling thread, "" if it has none; valid until its next call. */
const char* kinora_embed_error(void);

/* [owner-thread] Finds the plugins: in plugin_folders, KINORA_PLUGIN_PATH, the user's folder and next to
 * libkinora. KINORA_ERROR_UNSUPPORTED for another draft; KINORA_ERROR_INVALID if the process has an open host. */
int32_t kinora_embed_open(const kinora_embed_options* options, kinora_embed** out);
/* [owner-thread] Release every sample first. Libraries of plugins stay loaded. */
void kinora_embed_close(kinora_embed*);

/* [owner-thread] Adds a plugin that is compiled into this program, behind those that were found. entry: as in
 * abi/plugin.h, called when one of its components is first used; manifest: the text of its plugin.toml, copied. Call
 * it before other threads use the host. Its stages run in this process, whatever their resources say; in a run file
 * they need an engine/local with isolate = "none", since a process of its own has not this code.
 * KINORA_ERROR_INVALID with every error of the manifest, as "...:LINE:COL: ...", or if another plugin has its name or
 * one of its components; KINORA_ERROR_UNSUPPORTED if it needs another ABI, Kinora or libtorch. */
int32_t kinora_embed_add_plugin(kinora_embed*, kinora_plugin_entry_fn entry, const char* manifest);

/* [owner-thread] Runs the jobs of a run file, as `kinora run` does: finished jobs are not repeated. Returns when all
 * are done. KINORA_ERROR_INVALID if the file has errors; the message has one line each, as FILE:LINE:COL, and nothing
 * ran. KINORA_ERROR_CANCELLED after kinora_embed_cancel(): call it again to continue. KINORA_ERROR_FAILED with the
 * last error of the log. Until it returns, the umask and the modes of floating-point arithmetic are put back after each
 * call into a plugin, to what they were when it began; handlers of signals are left alone. */
int32_t kinora_embed_run(kinora_embed*, const kinora_embed_run_options*);

/* [any-thread] Asks the run and every apply that is in progress to stop, and no open stage: those have
 * kinora_embed_stage_cancel(). Without one it does nothing. */
void kinora_embed_cancel(kinora_embed*);

/* [owner-thread] Writes a JSON array with an object for each component: "id", "kind", "name", "help", "plugin",
 * "version", and "options", an object of "type", "default" and "help" by name. */
int32_t kinora_embed_components(kinora_embed*, const kinora_sink* to);

/* [owner-thread] Writes a JSON object that is the same on two machines that run the same plugins with the same
 * version of Kinora (libtorch and FFmpeg, whose versions it does not have, may still differ): "version", "abi", and
 * "plugins", an object of "version", and the SHA-256 of its "library" and "manifest", by name, as in a plugins.lock;
 * "manifest" is absent without a plugin.toml, and one of kinora_embed_add_plugin() has "version" alone. It reads every
 * library. KINORA_ERROR_IO if one cannot be read. */
int32_t kinora_embed_fingerprint(kinora_embed*, const kinora_sink* to);

/* [any-thread] Samples and their tensors: see abi/sample.h. Lives as long as the process. */
const kinora_samples_api* kinora_embed_samples(void);

/* [owner-thread] The sample's tensor `name`, shared instead of copied, as the DLPack tensor of an owner of its
 * own: read-only, valid after the sample's is set again or removed, or the sample is released. Call its deleter once.
 * KINORA_ERROR_NOT_FOUND if absent. */
int32_t kinora_embed_share_tensor(const kinora_sample*, const char* name, kinora_dl_managed** out);

/* [owner-thread] Takes a sample apart, to carry it to another process or machine of the same byte order. First
 * head->write() receives the head, at most 48 KiB and the names: the key, and what is small. Then piece(head->self,
 * ...) receives each large field and tensor, in an order that counts. Nothing large is copied: `data` is valid until
 * `keeper` is released (kinora_embed_samples()), which is the receiver's to do, on any thread, once for each call,
 * and whatever happens to `sample`. */
int32_t kinora_embed_pack(const kinora_sample* sample, const kinora_sink* head,
                          void (*piece)(void* self, kinora_bytes data, kinora_sample* keeper));
/* [any-thread] The sample of a head and its n pieces, in their order. The head is copied. The pieces are not: their
 * memory must not change until release(user) is called, once, on any thread, when no sample uses any of them; null: it
 * lasts as long as the process. On an error release is not called. Neither head nor pieces are trusted:
 * KINORA_ERROR_DATA for a head that is malformed, or is not of exactly these pieces and their sizes;
 * KINORA_ERROR_INVALID, with the remedy, for names and tensors that a sample may not have, and for a tensor whose
 * piece does not begin at a multiple of its elements' size. */
int32_t kinora_embed_unpack(kinora_bytes head, const kinora_bytes* pieces, uint64_t n,
                            void (*release)(void* user), void* user, kinora_sample** out);

/* [owner-thread] Writes the fields of a sample to FOLDER/KEY.FIELD as a curate job does: all but url, shots.json and
 * ended.json, each file whole or not at all, and none if one cannot be written. The folder is made. Only their
 * bytes are flushed: flush the folder to which you move them. `to` receives a JSON object of their sizes in bytes by
 * their names below the folder. KINORA_ERROR_INVALID for a key that is not UTF-8, or has a '.' in its last part;
 * KINORA_ERROR_IO. */
int32_t kinora_embed_store(const char* folder, const kinora_sample* sample, const kinora_sink* to);

/* [any-thread] Opens stages for calls of the caller's choosing; any number of them at once, each used by one thread at
 * a time. Close all before the host. Stages that read untrusted media, and those of a third party's plugin, run in
 * processes of their own where the program `kinora` is installed with libkinora. KINORA_ERROR_NOT_FOUND for an unknown
 * stage, KINORA_ERROR_INVALID for an unknown option. */
int32_t kinora_embed_stage_open(kinora_embed*, const kinora_embed_stage_options*, kinora_embed_stage** out);
/* [owner-thread] Also without kinora_embed_stage_finish(): what the stages hold is then released, and no one hears
 * of it. */
void kinora_embed_stage_close(kinora_embed_stage*);

/* [owner-thread] Fills *out in (KINORA_FILL) with the resources() of the stage; batch is 0 where it runs in a process
 * of its own. KINORA_ERROR_INVALID for a chain. */
int32_t kinora_embed_stage_resources(kinora_embed_stage*, kinora_resources* out);
/* [owner-thread] n inputs, borrowed. `to` is used within this call alone; its emit must exist; without
 * a drop, dropped samples are released.
 * One stage: the caller is the engine of abi/stage.h. The stage calls `to` itself, with hold, stored and made_of (see
 * there for one that is null), and the result is its status, which is about this input. n is at most the larger of 1
 * and `batch` of its resources; several are one process_batch(). start() comes before the first input.
 * A chain: what a stage emits is the next one's input, one sample after the other, n of any size. `to` receives what
 * leaves the last stage and what a stage drops or fails; hold, stored and made_of are not used. An error of a stage on
 * a sample is fail() of a sample with its key alone; KINORA_ERROR_REFUSED and what `to` returns are results.
 * KINORA_ERROR_CANCELLED after kinora_embed_stage_cancel(), KINORA_ERROR_INVALID during another call. */
int32_t kinora_embed_stage_process(kinora_embed_stage*, kinora_sample* const* in, uint64_t n,
                                   const kinora_emit* to);
/* [owner-thread] No more input: ends what the stages hold. Only kinora_embed_stage_close() may follow. In a chain, a
 * sample that is then still held fails. */
int32_t kinora_embed_stage_finish(kinora_embed_stage*, const kinora_emit* to);
/* [any-thread] Asks the call of this stage that is in progress to stop. Without one it does nothing. A process of its
 * own that has not stopped after two seconds is killed, and what it held is lost. */
void kinora_embed_stage_cancel(kinora_embed_stage*);
/* [any-thread] A number that grows with the signs of life of the stages: a call begins or ends, a stage calls
 * progress(), or cancelled() in a process of its own, which is seen within 10 ms. What a stage gives to `to` does not
 * count. */
uint64_t kinora_embed_stage_beats(const kinora_embed_stage*);
/* [owner-thread] 1 if the last call returned KINORA_ERROR_DATA because the stage's process died, as its message
 * says: the next call uses a new one, which holds nothing. Else 0, as for a chain, which fails that sample. */
int32_t kinora_embed_stage_ended(const kinora_embed_stage*);

/* [any-thread] Opens `stages`, as of kinora_embed_stage_options, as a chain, also if it is one stage; processes n
 * samples and finishes, within this call. The stages of the last four lists stay open for a call with the same text in
 * the same working directory, unless one is a third party's in a process of its own, keeps state (ordered = 1), has a
 * finish() or still held a sample. The emit, drop and fail of `to` must exist. */
int32_t kinora_embed_apply(kinora_embed*, const char* stages, kinora_sample* const* samples, uint64_t n,
                           const kinora_emit* to);

KINORA_EXTERN_C_END
#endif
