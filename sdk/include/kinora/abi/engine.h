/* kinora.engine/1: runs a pipeline of stages over samples (local threads, a Ray cluster).      since ABI 1.0
 *
 * The engine pulls samples from the source, moves them from stage to stage, and reports every end. It makes the stages
 * itself, by `stage` in this process or, in others, from component id and options there; samples cross processes as their
 * key and byte fields. It holds at most `memory` bytes of samples. */
#ifndef KINORA_ABI_ENGINE_H
#define KINORA_ABI_ENGINE_H
#include "kinora/abi/stage.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_ENGINE "kinora.engine/1"

/* Ends of a sample. */
#define KINORA_KEPT 0u     /* it left the last stage, or a stage consumed it */
#define KINORA_FILTERED 1u /* a stage dropped it: reason = rule, score */
#define KINORA_FAILED_AT 2u /* a stage failed at it, or said so: reason = message */

typedef struct kinora_stage_spec {
  uint32_t struct_size;
  uint32_t n_from;
  const char* name;         /* in the run: reported with outcomes */
  const char* id;           /* component */
  const char* options_json; /* canonical JSON */
  const uint32_t* from;     /* stages whose output it takes; n_from = 0: the source. Every earlier stage's output goes to all
                               stages that name it; what no stage names is an end of the pipeline */
  const kinora_stage* stage; /* for instances in this process */
  const kinora_options* options;
  int64_t workers; /* 0: the engine decides */
} kinora_stage_spec;

typedef struct kinora_outcome {
  uint32_t struct_size;
  uint32_t end; /* KINORA_KEPT ... */
  kinora_sample* sample; /* borrowed; of one that was consumed perhaps only its key and small fields */
  const char* stage;     /* name of the stage where it ended; null: it left the pipeline */
  const char* reason;    /* null if kept */
  double score;   /* of a drop, in the rule's own unit; else 0 */
  int32_t status; /* of a failure: KINORA_FAILED ...; else KINORA_OK */
  int32_t consumed; /* 1: kept by being consumed inside a stage */
  int32_t made;     /* 0: an input of the source; 1: a stage made it of one; 2: a stage made it of what a stage had made, or
                       of several. Keys do not tell: a stage may choose any. Who goes on after a break takes up what is 1
                       one by one, and what is 2 with all of its input */
  int32_t reserved;
} kinora_outcome;

typedef struct kinora_pipeline {
  uint32_t struct_size;
  uint32_t n_stages;
  const kinora_stage_spec* stages; /* in topological order */
  uint64_t memory; /* bytes of samples between and in stages; 0: no bound */
  void* self;
  /* [owner-thread] The next input: one reference, owned. KINORA_END: there is none. */
  int32_t (*next)(void* self, kinora_sample** out);
  /* [any-thread, one call at a time] The end of an input or of a sample that a stage made, once each. It is told after
   * the ends of all that was made of it, so what was told never has to be repeated. An error ends the run with it. */
  int32_t (*done)(void* self, const kinora_outcome*);
  /* [any-thread] Live figures, about once a second and at the end; may be null. json: {"seconds","inputs","bound",
   * "memory":{"used","peak","bound"},"stages":[{"name","in","out","dropped","failed","rate","busy","workers","limit","queue"}..]}:
   * what bounds the run (a stage, "memory" or "source"); rate: samples taken a second, busy: workers at work, both since the
   * last report; workers: that there are now, limit: that there may be. Members may be missing, and others be there. */
  void (*report)(void* self, const char* json);
} kinora_pipeline;

typedef struct kinora_engine {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [owner-thread] Returns when every input has ended, or after the first error of next(), done() or finish(), or
   * KINORA_CANCELLED; all workers have stopped by then. */
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
KINORA_SIZE(kinora_outcome, 56);
KINORA_SLOT(kinora_pipeline, struct_size, 0);
KINORA_SLOT(kinora_pipeline, n_stages, 4);
KINORA_SLOT(kinora_pipeline, stages, 8);
KINORA_SLOT(kinora_pipeline, memory, 16);
KINORA_SLOT(kinora_pipeline, self, 24);
KINORA_SLOT(kinora_pipeline, next, 32);
KINORA_SLOT(kinora_pipeline, done, 40);
KINORA_SLOT(kinora_pipeline, report, 48);
KINORA_SIZE(kinora_pipeline, 56);
KINORA_SLOT(kinora_engine, struct_size, 0);
KINORA_SLOT(kinora_engine, reserved, 4);
KINORA_SLOT(kinora_engine, create, 8);
KINORA_SLOT(kinora_engine, destroy, 16);
KINORA_SLOT(kinora_engine, run, 24);
KINORA_SIZE(kinora_engine, 32);
KINORA_EXTERN_C_END
#endif
