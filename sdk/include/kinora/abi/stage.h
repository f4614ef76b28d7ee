/* kinora.stage/1: one step of a pipeline over samples.                                        since ABI 1.0
 *
 * A stage gets a sample, and emits none, one or many. What it neither emits nor drops, and for which process() returns
 * KINORA_OK, has been consumed, unless it said hold(). Every input ends in one counted outcome: emitted on, dropped by a rule
 * with its score, or failed with its reason (fail(), or the error that process() returned); the engine does the counting. An
 * error, or a death, after the input was emitted or dropped is logged and counted beside that, and is no second end.
 * Instances: an engine makes as many as it has workers for the stage, in any process; they share nothing. */
#ifndef KINORA_ABI_STAGE_H
#define KINORA_ABI_STAGE_H
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
#include "kinora/abi/sample.h"
#include "kinora/abi/host.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_STAGE "kinora.stage/1"

/* What one worker of a stage occupies while it runs. */
typedef struct kinora_resources {
  uint32_t struct_size;
  /* 1: needs its input in the order of the source, and one instance (a shard writer), which keeps state from sample to sample:
   * if its process dies, the run ends. 2: the same order, but nothing is kept except what was said with hold() (a model's
   * batches): if its process dies, what it kept back is tried again in new ones. */
  uint32_t ordered;
  double cores;    /* threads that it keeps busy; a fraction is allowed, of gpus too */
  double gpus;
  uint64_t memory; /* bytes beyond the samples themselves */
  /* Appended to 1.0; 0 where struct_size ends before them. */
  uint32_t isolated; /* 1: it reads media that nobody vouches for, so an engine may run it in a process of its own, where a
                        crash or a hang costs one sample */
  uint32_t nvdec;    /* hardware decoders and encoders that it keeps busy */
  uint32_t nvenc;
  uint32_t reserved;
} kinora_resources;

typedef struct kinora_emit {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* [worker-thread] Hands a sample on; takes over one reference, whatever it returns. Blocks while the next stage is
   * full. KINORA_CANCELLED: return it. */
  int32_t (*emit)(void* self, kinora_sample*);
  /* [worker-thread] The input, or a sample made of it, ends here: filtered by `rule` ("clip.too-short") because of
   * `score`. Takes over one reference. Of an empty rule it is the stage's name in the run. */
  int32_t (*drop)(void* self, kinora_sample*, const char* rule, double score);
  /* [worker-thread] Inside process(): the stage keeps the input back (a batch that is not full, a shard that is not
   * closed). Its end comes later from the same instance, in finish() at the latest: emit() or drop() of a sample with
   * its key, or stored(). An engine may count what is kept back as samples, as long as that leaves room for others, and else
   * as resources.memory; with ordered = 1 always as that. In a process that dies it is lost to the stage, and an engine tries
   * each again alone: process(), then finish(), of an instance that sees nothing else. What is made of a sample that is kept
   * back, in finish() or beside a later input, is told before it; whose it is, its fact "film" says (the key of that sample or of
   * the input that it was made of), or its key, which begins with that sample's; else it is of all that are kept back. Null: it
   * counts as consumed at once. */
  int32_t (*hold)(void* self);
  /* [worker-thread] The input `key`, kept back earlier, is now safe where the stage put it: consumed. Until then a run
   * that breaks off gives it again. */
  int32_t (*stored)(void* self, kinora_str key);
  /* [worker-thread] The input, or a sample made of it, ends here: failed, with `reason` in one line. Takes over one reference.
   * Unlike an error of process() it ends nothing else: what is whole in a damaged film goes on. */
  int32_t (*fail)(void* self, kinora_sample*, const char* reason);
} kinora_emit;

typedef struct kinora_stage {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] A new instance; null and set_error on failure. */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [any-thread] Constant for an instance. out->struct_size says how much room there is, and then how much was written. */
  int32_t (*resources)(void* self, kinora_resources* out);
  /* [worker-thread] in: borrowed; emit a retained reference or a clone. A sample with the input's key is the input, going on;
   * any other is a new one, made of it. Its key must come once in a run, by convention INPUTKEY-NNNN (four digits from 0000
   * on): a second sample of one key fails, and one of its film's key. After a sample was emitted, the stage does not touch
   * it. An error ends this sample only (KINORA_IO is tried again, unless something was emitted), and so does KINORA_CANCELLED
   * where nobody asked the run to stop; where others are kept back, only the current input fails and they stay so. A process
   * that has died begins its input anew in another, and must emit the same keys in the same order (abi/workers.h). An ordered
   * stage keeps state from sample to sample: there KINORA_IO and KINORA_NO_MEMORY end the run too. */
  int32_t (*process)(void* self, kinora_sample* in, const kinora_emit*, const kinora_run*);
  /* [worker-thread] No more input: emit or store what was kept back. Null: nothing is. An error costs the samples that are
   * still kept back, which fail with its message, and the run goes on. It, or a death in it, ends the run where none is left
   * that could tell of it, and with ordered = 1. KINORA_CANCELLED is an error too, unless the run was asked to stop. */
  int32_t (*finish)(void* self, const kinora_emit*, const kinora_run*);
} kinora_stage;

KINORA_SLOT(kinora_resources, struct_size, 0);
KINORA_SLOT(kinora_resources, ordered, 4);
KINORA_SLOT(kinora_resources, cores, 8);
KINORA_SLOT(kinora_resources, gpus, 16);
KINORA_SLOT(kinora_resources, memory, 24);
KINORA_SLOT(kinora_resources, isolated, 32);
KINORA_SLOT(kinora_resources, nvdec, 36);
KINORA_SLOT(kinora_resources, nvenc, 40);
KINORA_SLOT(kinora_resources, reserved, 44);
KINORA_SIZE(kinora_resources, 48);
KINORA_SLOT(kinora_emit, struct_size, 0);
KINORA_SLOT(kinora_emit, reserved, 4);
KINORA_SLOT(kinora_emit, self, 8);
KINORA_SLOT(kinora_emit, emit, 16);
KINORA_SLOT(kinora_emit, drop, 24);
KINORA_SLOT(kinora_emit, hold, 32);
KINORA_SLOT(kinora_emit, stored, 40);
KINORA_SLOT(kinora_emit, fail, 48);
KINORA_SIZE(kinora_emit, 56);
KINORA_SLOT(kinora_stage, struct_size, 0);
KINORA_SLOT(kinora_stage, reserved, 4);
KINORA_SLOT(kinora_stage, create, 8);
KINORA_SLOT(kinora_stage, destroy, 16);
KINORA_SLOT(kinora_stage, resources, 24);
KINORA_SLOT(kinora_stage, process, 32);
KINORA_SLOT(kinora_stage, finish, 40);
KINORA_SIZE(kinora_stage, 48);
KINORA_EXTERN_C_END
#endif
