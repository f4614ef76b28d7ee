/* kinora.engine/1-draft.2: runs a pipeline of stages over samples (local threads, a cluster).  draft
 *
 * The engine pulls samples from the source, moves them from stage to stage, and reports the outcome of each.
 * It makes the stages itself: in this process through `stage`, in other processes from component id and
 * options. Samples cross processes as their key, byte fields and CPU tensors (abi/workers.h). It holds at
 * most `memory` bytes of samples. The rules that a stage relies on are in abi/stage.h.
 *
 * Draft: it becomes 1.0 when an engine over several machines has been built on it. */
#ifndef KINORA_ABI_ENGINE_H
#define KINORA_ABI_ENGINE_H
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_ENGINE "kinora.engine/1-draft.2"

/* Outcomes of a sample. */
#define KINORA_OUTCOME_KEPT 0u     /* it left the last stage, or a stage consumed it */
#define KINORA_OUTCOME_FILTERED 1u /* a stage dropped it: reason = rule, score */
#define KINORA_OUTCOME_FAILED 2u   /* a stage returned an error for it or called fail(): reason = message */

typedef struct kinora_stage_spec {
  uint32_t struct_size;
  uint32_t n_from;
  const char* name;          /* in the run: reported with outcomes */
  const char* id;            /* component */
  const char* options_json;  /* canonical JSON */
  const uint32_t* from;      /* stages whose output it takes; n_from = 0: the source. A stage's output goes to
                                every later stage that      names it; if none does, it leaves the pipeline */
  const kinora_stage* stage; /* for instances in this process */
  const kinora_options* options;
  int64_t workers; /* 0: the engine decides */
} kinora_stage_spec;

typedef struct kinora_outcome {
  uint32_t struct_size;
  uint32_t end;          /* KINORA_OUTCOME_* */
  kinora_sample* sample; /* borrowed; a consumed sample may have only its key and small fields */
  const char* stage;     /* name of the stage where it ended; null: it left the pipeline */
  const char* reason;    /* null if kept */
  double score;          /* KINORA_OUTCOME_FILTERED: in the rule's own unit; else 0 */
  int32_t status;        /* KINORA_OUTCOME_FAILED: the error code (KINORA_ERROR_FAILED ...); else KINORA_OK */
  int32_t consumed;      /* 1: kept because a stage consumed it */
  int32_t made; /* 0: an input of the source; 1: a stage made it of one input; 2: a stage made it of a sample
                   that a stage had made, or of several samples */
  int32_t reserved;
  /* Keys, valid during done(). */
  const kinora_str* inputs; /* the inputs of the source that the sample was made of; of an input, itself. None
                               if finish() made it while nothing was held */
  const kinora_str* parents; /* the samples that it was made of directly (emit and made_of in abi/stage.h);
                                none for an input */
  uint32_t n_inputs;
  uint32_t n_parents;
  /* Of a sample that left the pipeline, and that the engine has stored: a folder below kinora_pipeline.store with its
   * fields, as kinora_embed_store() writes them, and a JSON object of their sizes in bytes by their names below it. Its
   * files are the owner's to move; `sample` has its key, texts (*json, *txt) and small fields. Null: it has all. */
  const char* folder;
  const char* files;
} kinora_outcome;

typedef struct kinora_pipeline {
  uint32_t struct_size;
  uint32_t n_stages;
  const kinora_stage_spec* const* stages; /* [n_stages], in topological order */
  uint64_t memory;                        /* bytes of samples between and in stages; 0: no bound */
  void* self;
  /* [owner-thread] The next input: one reference, owned. KINORA_SIGNAL_END: no more inputs. */
  int32_t (*next)(void* self, kinora_sample** out);
  /* [any-thread, one call at a time] The outcome of an input or of a sample that a stage made, once each. The
   * outcome of a sample comes after the outcomes of everything made of it, so a recorded outcome never has to
   * be redone. An error ends the run with it. */
  int32_t (*done)(void* self, const kinora_outcome*);
  /* [any-thread] Live figures, about once a second and at the end; may be null. json: {"seconds","inputs","bound",
   * "memory":{"used","peak","bound"},
   * "stages":[{"name","in","out","dropped","failed","rate","busy","workers","limit","queue"}..]}.
   * bound: what limits the run (a stage, "memory" or "source"); rate: samples taken per second, busy: workers at
   * work, both since the last report; workers: their number now, limit: their largest number. Members may be missing,
   * or added. */
  void (*report)(void* self, const char* json);
  /* A folder, which need not exist, where an engine may store what leaves the pipeline, each sample in a folder of its
   * own; after the run the rest there is the owner's to remove. Null: the owner takes all samples whole. */
  const char* store;
} kinora_pipeline;

typedef struct kinora_engine {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Returns when every input has its outcome, or after the first error of next() or done(), an
   * error of a stage that ends the run, or KINORA_ERROR_CANCELLED. All workers have stopped by then. */
  int32_t (*run)(void* self, const kinora_pipeline*, const kinora_run*);
} kinora_engine;

KINORA_SLOT(kinora_stage_spec, struct_size, 0);
KINORA_SLOT(kinora_stage_spec, n_from, 4);
KINORA_SLOT(kinora_stage_spec, name, 8);
KINORA_SLOT(kinora_stage_spec, id, 16);
KINORA_SLOT(kinora_stage_spec, options_json, 24);
KINORA_SLOT(kinora_stage_spec, from, 32);
KINORA_SLOT(kinora_stage_spec, stage, 40);
KINORA_SLOT(kinora_stage_spec, options, 48);
KINORA_SLOT(kinora_stage_spec, workers, 56);
KINORA_SIZE(kinora_stage_spec, 64);
KINORA_SLOT(kinora_outcome, struct_size, 0);
KINORA_SLOT(kinora_outcome, end, 4);
KINORA_SLOT(kinora_outcome, sample, 8);
KINORA_SLOT(kinora_outcome, stage, 16);
KINORA_SLOT(kinora_outcome, reason, 24);
KINORA_SLOT(kinora_outcome, score, 32);
KINORA_SLOT(kinora_outcome, status, 40);
KINORA_SLOT(kinora_outcome, consumed, 44);
KINORA_SLOT(kinora_outcome, made, 48);
KINORA_SLOT(kinora_outcome, reserved, 52);
KINORA_SLOT(kinora_outcome, inputs, 56);
KINORA_SLOT(kinora_outcome, parents, 64);
KINORA_SLOT(kinora_outcome, n_inputs, 72);
KINORA_SLOT(kinora_outcome, n_parents, 76);
KINORA_SLOT(kinora_outcome, folder, 80);
KINORA_SLOT(kinora_outcome, files, 88);
KINORA_SIZE(kinora_outcome, 96);
KINORA_SLOT(kinora_pipeline, struct_size, 0);
KINORA_SLOT(kinora_pipeline, n_stages, 4);
KINORA_SLOT(kinora_pipeline, stages, 8);
KINORA_SLOT(kinora_pipeline, memory, 16);
KINORA_SLOT(kinora_pipeline, self, 24);
KINORA_SLOT(kinora_pipeline, next, 32);
KINORA_SLOT(kinora_pipeline, done, 40);
KINORA_SLOT(kinora_pipeline, report, 48);
KINORA_SLOT(kinora_pipeline, store, 56);
KINORA_SIZE(kinora_pipeline, 64);
KINORA_SLOT(kinora_engine, struct_size, 0);
KINORA_SLOT(kinora_engine, reserved, 4);
KINORA_SLOT(kinora_engine, create, 8);
KINORA_SLOT(kinora_engine, destroy, 16);
KINORA_SLOT(kinora_engine, run, 24);
KINORA_SIZE(kinora_engine, 32);
KINORA_EXTERN_C_END
#endif
