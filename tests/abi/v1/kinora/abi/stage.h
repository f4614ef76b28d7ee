/* kinora.stage/1: one step of a pipeline over samples.                                        since ABI 1.0
 *
 * The engine calls process() for each input sample and finish() after the last. For one input a stage emits any
 * number of samples, or none. The engine makes as many instances as the stage has workers, in any process; instances
 * share nothing.
 *
 * Outcomes. The engine counts exactly one outcome for each input, and for each new sample that a stage makes of it:
 *   kept      it left the last stage, or a stage consumed it: process() or process_batch() returned KINORA_OK and the
 *             input was not emitted, dropped, failed or held. An input from which a stage only made new samples
 *             counts as kept as well, but nothing is stored for it. A held input (see hold) is consumed by stored()
 *   filtered  drop(), with a rule and a score
 *   failed    fail(), or process() returned an error, or it was still held when finish() returned
 * emit() passes a sample to the next stages, which decide its outcome. If process() returns an error, or its process
 * dies, after the input was emitted or dropped, the engine logs and counts that error, and the outcome stays as it
 * is.
 *
 * Keys. A sample with the input's key is the input itself (usually `in`, retained), and is emitted once. A sample
 * with any other key is new. New keys must be unique in a run, and the same whenever the input is processed again; by
 * convention they are INPUTKEY-NNNN (four digits from 0000). A second sample of one key fails, and so does a new
 * sample with the key of the pipeline input that it comes from; emit() still returns KINORA_OK.
 *
 * Parents. A new sample counts as made of the current input and of every input that the instance holds at that time;
 * made_of() names fewer. The outcomes of its parents are reported after its own, so that an interrupted run repeats
 * what it had not finished. A stage therefore emits what it makes of an input before it ends that input, unless it is
 * the current one. A sample that finish() emits while nothing is held has no parents; a job with such a sample reruns
 * from scratch instead of resuming.
 *
 * Batches. A stage that works on several inputs at once (a network) sets resources.batch and process_batch(). The
 * engine then waits until so many inputs are there, but gives fewer where no more can come: at the end, or when
 * memory is short; for a single one it calls process(). Which inputs share a batch differs from run to run, so no key
 * and no value may depend on it. All inputs of the call are current inputs: a sample with the key of one is that
 * input, and a new sample is made of all of them unless made_of() names fewer. Call made_of() before each new sample
 * of a batch: otherwise the sample is tied to every input of the batch, also of other source videos; it then has no
 * "film", and an interrupted run repeats all of these videos. Inputs that process_batch() has neither emitted,
 * dropped nor failed when it returns KINORA_OK are consumed. If it returns an error (other than KINORA_ERROR_REFUSED
 * and, in a run that was asked to stop, KINORA_ERROR_CANCELLED), inputs that it emitted, dropped or failed keep that
 * outcome, and the others come again one at a time to process(), so that only the one that causes it fails; new
 * samples that were emitted, dropped or failed before count once. A stage in a process of its own gets one input at a
 * time.
 *
 * Errors of process() fail the current input only; held inputs stay held. But:
 *   KINORA_ERROR_IO         is tried again first, as often as the engine's option `retries` says, unless this call
 *                           emitted, dropped or held something (what a failed batch emitted does not count)
 *   KINORA_ERROR_IO, KINORA_ERROR_NO_MEMORY  end the run if resources.ordered is not 0, since the stage keeps state
 *                           from sample to sample
 *   KINORA_ERROR_CANCELLED  ends the run if it was asked to stop (kinora_run.cancelled); otherwise it is an error
 *                           like any other
 *   KINORA_ERROR_REFUSED    says that the stage cannot process any sample (a refused credential): the run ends with
 *                           its message, and no sample fails
 *
 * Death of a process (abi/workers.h). A new instance receives the current input again, and must emit the same keys in
 * the same order; what was emitted before the death is not passed on twice. If inputs were held, the engine tries
 * each of them, and the current one, again alone: process(), then finish(), in an instance that receives nothing
 * else. A stage that joins inputs emits other keys there than before its death, and inputs fail. With ordered = 1 the
 * run ends instead, and nothing fails. */
#ifndef KINORA_ABI_STAGE_H
#define KINORA_ABI_STAGE_H
#include "kinora/abi/host.h"
#include "kinora/abi/options.h"
#include "kinora/abi/run.h"
#include "kinora/abi/sample.h"
KINORA_EXTERN_C_BEGIN
#define KINORA_INTERFACE_STAGE "kinora.stage/1"

/* The resources that one worker of a stage occupies while it runs. */
typedef struct kinora_resources {
  uint32_t struct_size;
  /* 0: any order, any number of instances.
   * 1: input in the order of the source, one instance that keeps state from sample to sample (a shard writer). If its
   *    process dies, the run ends.
   * 2: input in the order of the source, one instance that keeps nothing between samples except held inputs. If its
   *    process dies, held inputs are tried again in new instances. */
  uint32_t ordered;
  double cores; /* threads that it keeps busy; cores and gpus may be fractions */
  double gpus;
  uint64_t memory;   /* bytes in addition to the samples */
  uint32_t isolated; /* 1: it reads untrusted media. An engine may run it in a process of its own, where a
                        crash or a hang costs one sample */
  uint32_t nvdec;    /* hardware decoders and encoders that it keeps busy */
  uint32_t nvenc;
  uint32_t batch; /* most inputs of one process_batch(); 0 or 1: the stage processes one at a time, as in a
                     process of its own */
} kinora_resources;

/* The engine's side of one call: valid only during the process(), process_batch() or finish() that receives
 * it. Its functions may be called on a thread of the stage's own, one call at a time, until that call returns. "The
 * input" is each input of a batch. */
typedef struct kinora_emit {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  /* [worker-thread] Passes a sample to the next stages. Takes over one reference, also on an error; do not
   * touch the sample after. Blocks while the next stage is full. Return any error, KINORA_ERROR_CANCELLED
   * too, from the call. */
  int32_t (*emit)(void* self, kinora_sample*);
  /* [worker-thread] Filters the input, or a new sample: `rule` ("clip.too-short") with its `score`. A null or
   * empty rule means the stage's name in the run. Takes over one reference, also on an error. */
  int32_t (*drop)(void* self, kinora_sample*, const char* rule, double score);
  /* [worker-thread] In process() of a stage without batches, before the input was emitted or dropped: holds
   * the input, for a shard that is not closed or until what it belongs to has come. Retain the sample to use
   * it later. The same instance must end it in a later process() or in finish(): emit(), drop() or fail() of
   * a sample with its key, or stored(). Otherwise it fails. Memory: an engine may count the bytes of held
   * inputs as samples, as long as that leaves room for other samples, and otherwise as resources.memory; with
   * ordered = 1 always as resources.memory. Null: the engine does not hold, and the input is consumed when
   * process() returns KINORA_OK; a stage that has to hold returns KINORA_ERROR_REFUSED. */
  int32_t (*hold)(void* self);
  /* [worker-thread] The held input `key` is now safe where the stage put it: consumed. An interrupted run
   * delivers an input again until then. KINORA_ERROR_NOT_FOUND if this instance does not hold it. Null where
   * hold is null. */
  int32_t (*stored)(void* self, kinora_str key);
  /* [worker-thread] Fails the input, or a new sample, with `reason` in one line. Takes over one reference,
   * also on an error. Unlike an error of process() it leaves other samples alone: use it for the damaged part
   * of a video and emit the rest. Null: return an error from process() instead. */
  int32_t (*fail)(void* self, kinora_sample*, const char* reason);
  /* [worker-thread] Names the parents of the next new sample: keys of the current input and of held inputs
   * ("Parents" above). KINORA_ERROR_NOT_FOUND if a key is neither. Null: the sample counts as made of all of
   * them. */
  int32_t (*made_of)(void* self, const kinora_str* keys, uint64_t n);
} kinora_emit;

typedef struct kinora_stage {
  uint32_t struct_size;
  uint32_t reserved;
  /* [any-thread] A new instance; null and set_error on failure. It is cheap and touches no device and no
   * weights: the host also makes instances only to ask for their resources, on machines that run none of the
   * work. Loading belongs to start(). */
  void* (*create)(const kinora_host*, const kinora_options*);
  void (*destroy)(void* self);
  /* [any-thread] Fills *out in (KINORA_FILL). The same for every instance with the same options; may be
   * called before start(). */
  int32_t (*resources)(void* self, kinora_resources* out);
  /* [worker-thread] One input. Never null. in: borrowed; the stage may set its fields, and emits a retained
   * reference or a clone. A second attempt may receive the sample as the failed one left it. Statuses: see
   * "Errors" above. */
  int32_t (*process)(void* self, kinora_sample* in, const kinora_emit*, const kinora_run*);
  /* [worker-thread] No more input: end every held input. Null: nothing to do. On an error the inputs that are
   * still held fail with its message, and the run continues; after a death of the process they are tried
   * again alone. Either one ends the run if no input is held that could report it, or if ordered = 1.
   * KINORA_ERROR_REFUSED and KINORA_ERROR_CANCELLED: as above. */
  int32_t (*finish)(void* self, const kinora_emit*, const kinora_run*);
  /* [worker-thread] n inputs, 2 to resources.batch, in the order of the source if resources.ordered is not 0;
   * borrowed like that of process(), which must exist too: an engine that runs the stage in a process of its
   * own calls only that. hold() is not for a stage with batches: KINORA_ERROR_INVALID. See "Batches" above.
   */
  int32_t (*process_batch)(void* self, kinora_sample* const* in, uint32_t n, const kinora_emit*,
                           const kinora_run*);
  /* [worker-thread] Once, before the first process(), process_batch() or finish() of this instance, on the
   * place where it runs: load weights onto run->device_type and run->device_id here. An error ends the run
   * with its message, as KINORA_ERROR_REFUSED does. Null: nothing to do. */
  int32_t (*start)(void* self, const kinora_run*);
} kinora_stage;

KINORA_SLOT(kinora_resources, struct_size, 0);
KINORA_SLOT(kinora_resources, ordered, 4);
KINORA_SLOT(kinora_resources, cores, 8);
KINORA_SLOT(kinora_resources, gpus, 16);
KINORA_SLOT(kinora_resources, memory, 24);
KINORA_SLOT(kinora_resources, isolated, 32);
KINORA_SLOT(kinora_resources, nvdec, 36);
KINORA_SLOT(kinora_resources, nvenc, 40);
KINORA_SLOT(kinora_resources, batch, 44);
KINORA_SIZE(kinora_resources, 48);
KINORA_SLOT(kinora_emit, struct_size, 0);
KINORA_SLOT(kinora_emit, reserved, 4);
KINORA_SLOT(kinora_emit, self, 8);
KINORA_SLOT(kinora_emit, emit, 16);
KINORA_SLOT(kinora_emit, drop, 24);
KINORA_SLOT(kinora_emit, hold, 32);
KINORA_SLOT(kinora_emit, stored, 40);
KINORA_SLOT(kinora_emit, fail, 48);
KINORA_SLOT(kinora_emit, made_of, 56);
KINORA_SIZE(kinora_emit, 64);
KINORA_SLOT(kinora_stage, struct_size, 0);
KINORA_SLOT(kinora_stage, reserved, 4);
KINORA_SLOT(kinora_stage, create, 8);
KINORA_SLOT(kinora_stage, destroy, 16);
KINORA_SLOT(kinora_stage, resources, 24);
KINORA_SLOT(kinora_stage, process, 32);
KINORA_SLOT(kinora_stage, finish, 40);
KINORA_SLOT(kinora_stage, process_batch, 48);
KINORA_SLOT(kinora_stage, start, 56);
KINORA_SIZE(kinora_stage, 64);
KINORA_EXTERN_C_END
#endif
