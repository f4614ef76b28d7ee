/* A program in C that embeds Kinora: kinora/embed.h does what it says. usage: embed PLUGINS FAULTY FOLDER VIDEO MODEL
 * PLUGINS, FAULTY: folders with the plugins pure_c_stage and split_stage, and faulty; FOLDER: an empty one that it may
 * write to; MODEL: a network for stage/embed.model. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "embed_checks.h"

struct seen {
  int emitted, dropped, failed, held;
  atomic_int lines, changes; /* of several threads; changes: lines that say what a plugin changed */
  char text[1 << 20], rule[64], key[64], stored[64], parent[64];
  size_t size;
};

static void on_log(void* user, int32_t level, kinora_str line) {
  static const char change[] = "; it is put back";
  struct seen* to = user;
  (void)level;
  ++to->lines;
  for (uint64_t i = 0; i + sizeof change - 1 <= line.size; ++i)
    if (memcmp(line.data + i, change, sizeof change - 1) == 0) ++to->changes;
}

static void on_text(void* self, const void* data, uint64_t size) {
  struct seen* to = self;
  if (to->size + size >= sizeof to->text) return;
  memcpy(to->text + to->size, data, size);
  to->size += size;
}

static int32_t on_emit(void* self, kinora_sample* sample) {
  const kinora_samples_api* api = kinora_embed_samples();
  kinora_bytes value;
  ++((struct seen*)self)->emitted;
  EXPECT(api->get(sample, "size", &value) == KINORA_OK && value.size == 1 && *(const char*)value.data == '4');
  api->release(sample);
  return KINORA_OK;
}

static int32_t on_drop(void* self, kinora_sample* sample, const char* rule, double score) {
  struct seen* to = self;
  ++to->dropped;
  snprintf(to->rule, sizeof to->rule, "%s %g", rule, score);
  kinora_embed_samples()->release(sample);
  return KINORA_OK;
}

static int32_t on_fail(void* self, kinora_sample* sample, const char* reason) {
  (void)reason;
  ++((struct seen*)self)->failed;
  kinora_embed_samples()->release(sample);
  return KINORA_OK;
}

static void copy(char to[64], kinora_str text) { snprintf(to, 64, "%.*s", (int)text.size, text.data); }

static int32_t on_any(void* self, kinora_sample* sample) {
  struct seen* to = self;
  ++to->emitted;
  copy(to->key, kinora_embed_samples()->key(sample));
  kinora_embed_samples()->release(sample);
  return KINORA_OK;
}

static int32_t on_hold(void* self) {
  ++((struct seen*)self)->held;
  return KINORA_OK;
}

static int32_t on_stored(void* self, kinora_str key) {
  copy(((struct seen*)self)->stored, key);
  return KINORA_OK;
}

static int32_t on_made_of(void* self, const kinora_str* keys, uint64_t n) {
  EXPECT(n == 1);
  copy(((struct seen*)self)->parent, keys[0]);
  return KINORA_OK;
}

static kinora_emit all_of(struct seen* seen) {
  return (kinora_emit){.struct_size = sizeof(kinora_emit),
                       .self = seen,
                       .emit = on_any,
                       .drop = on_drop,
                       .hold = on_hold,
                       .stored = on_stored,
                       .fail = on_fail,
                       .made_of = on_made_of};
}

static void check_apply(kinora_embed* host, struct seen* seen) {
  const kinora_emit to = {
      .struct_size = sizeof to, .self = seen, .emit = on_emit, .drop = on_drop, .fail = on_fail};
  char* large = calloc(1, 2000);
  kinora_sample* in[] = {sample_of("a", "mp4", "four", 4), sample_of("b", "mp4", large, 2000),
                         sample_of("c", "mp4", "four", 4)};
  const char* chain = "[\"count.bytes\", {\"use\": \"count.bytes\", \"at_most\": \"1 KiB\"}]";
  EXPECT(kinora_embed_apply(host, chain, in, 3, &to) == KINORA_OK);
  EXPECT(seen->emitted == 2 && seen->dropped == 1 && seen->failed == 0);
  EXPECT(strcmp(seen->rule, "count.too-large 2000") == 0);
  EXPECT(kinora_embed_apply(host, "[\"count.byte\"]", in, 3, &to) == KINORA_ERROR_NOT_FOUND);
  EXPECT(strstr(kinora_embed_error(), "count.bytes") != NULL); /* what may be meant */
  EXPECT(kinora_embed_apply(host, "[{\"use\": \"count.bytes\", \"at_mots\": 1}]", in, 3, &to) ==
         KINORA_ERROR_INVALID);
  EXPECT(kinora_embed_apply(host, "no list", in, 3, &to) == KINORA_ERROR_INVALID);
  EXPECT(seen->emitted == 2);
  for (int i = 0; i < 3; ++i) kinora_embed_samples()->release(in[i]);
  free(large);
}

static kinora_embed_stage* opened(kinora_embed* host, const char* stages) {
  const kinora_embed_stage_options how = {.struct_size = sizeof how, .stages = stages};
  kinora_embed_stage* out = NULL;
  EXPECT(kinora_embed_stage_open(host, &how, &out) == KINORA_OK);
  return out;
}

/* The status of process() on one new sample. */
static int32_t processed(kinora_embed_stage* stage, const char* key, const char* txt, const kinora_emit* to) {
  kinora_sample* in = sample_of(key, "txt", txt, strlen(txt));
  const int32_t status = kinora_embed_stage_process(stage, &in, 1, to);
  kinora_embed_samples()->release(in);
  return status;
}

static void check_refusals(kinora_embed* host, struct seen* seen) {
  const kinora_emit to = all_of(seen);
  kinora_embed_stage_options how = {.struct_size = sizeof how, .stages = "[\"count.byte\"]"};
  kinora_embed_stage* stage = NULL;
  kinora_resources needs = {.struct_size = sizeof needs};
  kinora_sample* two[] = {sample_of("a", "mp4", "four", 4), sample_of("b", "mp4", "four", 4)};
  EXPECT(kinora_embed_stage_open(host, &how, &stage) == KINORA_ERROR_NOT_FOUND && stage == NULL);
  how.stages = "[{\"use\": \"count.bytes\", \"at_mots\": 1}]";
  EXPECT(kinora_embed_stage_open(host, &how, &stage) == KINORA_ERROR_INVALID && stage == NULL);
  how.stages = "[\"count.bytes\"]";
  how.device = "cudas:1";
  EXPECT(kinora_embed_stage_open(host, &how, &stage) == KINORA_ERROR_INVALID && stage == NULL);
  EXPECT(strstr(kinora_embed_error(), "expected cpu, cuda or cuda:1") != NULL);
  stage = opened(host, "[\"count.bytes\"]");
  EXPECT(kinora_embed_stage_resources(stage, &needs) == KINORA_OK && needs.cores == 0.1 && needs.batch == 0);
  EXPECT(kinora_embed_stage_process(stage, two, 2, &to) == KINORA_ERROR_INVALID && seen->emitted == 0);
  EXPECT(strstr(kinora_embed_error(), "stage/count.bytes takes one sample at once, not 2") != NULL);
  EXPECT(processed(stage, "c", "no field mp4", &to) == KINORA_ERROR_NOT_FOUND && seen->failed == 0);
  kinora_embed_stage_close(stage);
  stage =
      opened(host, "[\"count.bytes\", \"count.bytes\"]"); /* a chain takes any number, and fails samples */
  EXPECT(kinora_embed_stage_process(stage, two, 2, &to) == KINORA_OK && seen->emitted == 2);
  EXPECT(processed(stage, "c", "no field mp4", &to) == KINORA_OK && seen->failed == 1);
  EXPECT(kinora_embed_stage_resources(stage, &needs) == KINORA_ERROR_INVALID);
  kinora_embed_stage_close(stage);
  for (int i = 0; i < 2; ++i) kinora_embed_samples()->release(two[i]);
}

/* What a stage says of the samples that it holds and makes comes from its process to the caller. */
static void check_holding(kinora_embed* host, struct seen* seen) {
  kinora_emit to = all_of(seen);
  kinora_embed_stage* stage = opened(host, "[\"pairs\"]");
  EXPECT(processed(stage, "a", "x", &to) == KINORA_OK && seen->held == 1 && seen->emitted == 0);
  EXPECT(processed(stage, "b", "x", &to) == KINORA_OK && seen->held == 1 && seen->emitted == 1);
  EXPECT(strcmp(seen->key, "a-0000") == 0 && strcmp(seen->stored, "a") == 0);
  EXPECT(processed(stage, "c", "x", &to) == KINORA_OK && seen->held == 2 && seen->emitted == 1);
  EXPECT(kinora_embed_stage_finish(stage, &to) == KINORA_OK && seen->emitted == 2 &&
         strcmp(seen->key, "c") == 0);
  EXPECT(processed(stage, "d", "x", &to) == KINORA_ERROR_INVALID && seen->held == 2);
  kinora_embed_stage_close(stage);

  stage = opened(host, "[\"split.lines\"]");
  EXPECT(processed(stage, "text", "one\ntwo", &to) == KINORA_OK && seen->emitted == 4);
  EXPECT(strcmp(seen->key, "text-0001") == 0 && strcmp(seen->parent, "text") == 0);
  kinora_embed_stage_close(stage);

  stage = opened(host, "[{\"use\": \"faulty\", \"how\": \"none\", \"holds\": true}]");
  EXPECT(processed(stage, "a", "x", &to) == KINORA_OK && processed(stage, "b", "x", &to) == KINORA_OK);
  kinora_embed_stage_close(stage); /* without finish(): no one hears of them */
  EXPECT(seen->held == 4 && seen->emitted == 4 && seen->failed == 0);

  stage = opened(host, "[\"pairs\"]");
  kinora_emit nowhere = to;
  nowhere.emit = NULL;
  EXPECT(processed(stage, "a", "x", &nowhere) == KINORA_ERROR_INVALID);
  to.hold = NULL;
  EXPECT(processed(stage, "a", "x", &to) == KINORA_ERROR_REFUSED && seen->held == 4);
  kinora_embed_stage_close(stage);
}

static void check_death(kinora_embed* host, struct seen* seen) {
  const kinora_emit to = all_of(seen);
  kinora_embed_stage* stage = opened(host, "[\"faulty\"]");
  EXPECT(processed(stage, "bad", "x", &to) == KINORA_ERROR_DATA && kinora_embed_stage_ended(stage) == 1);
  EXPECT(strstr(kinora_embed_error(), "stage/faulty: bad: killed by signal 11 (SIGSEGV)") != NULL);
  EXPECT(processed(stage, "good", "x", &to) == KINORA_OK && kinora_embed_stage_ended(stage) == 0);
  EXPECT(seen->emitted == 1 && seen->failed == 0);
  kinora_embed_stage_close(stage);

  /* What a refused call of a chain had made reaches no later call. */
  stage = opened(host, "[{\"use\": \"faulty\", \"how\": \"stop\", \"clips\": 4}, \"together\"]");
  seen->emitted = 0;
  EXPECT(processed(stage, "good", "x", &to) == KINORA_OK && seen->emitted > 1);
  const int of_one = seen->emitted;
  EXPECT(processed(stage, "bad", "x", &to) == KINORA_ERROR_REFUSED && seen->emitted == of_one);
  EXPECT(processed(stage, "good", "x", &to) == KINORA_OK && seen->emitted == 2 * of_one);
  kinora_embed_stage_close(stage);
}

static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); }

/* One call in a thread of its own. */
struct call {
  kinora_embed* host;
  kinora_embed_stage* stage; /* null: kinora_embed_apply() of `stages` */
  const char* stages;
  struct seen seen;
  atomic_int status; /* 1: in progress */
  pthread_t thread;
};

static void* do_call(void* given) {
  struct call* call = given;
  const kinora_emit to = all_of(&call->seen);
  kinora_sample* in = sample_of("a", "txt", "x", 1);
  const int32_t status = call->stage ? kinora_embed_stage_process(call->stage, &in, 1, &to)
                                     : kinora_embed_apply(call->host, call->stages, &in, 1, &to);
  kinora_embed_samples()->release(in);
  atomic_store(&call->status, status);
  return NULL;
}

static void begin(struct call* call) {
  call->seen.emitted = 0;
  atomic_store(&call->status, 1);
  EXPECT(pthread_create(&call->thread, NULL, do_call, call) == 0);
}

static int32_t end(struct call* call) {
  pthread_join(call->thread, NULL);
  return atomic_load(&call->status);
}

/* Two stages work at once; to cancel one, or the host, leaves the other. */
static void check_cancel(kinora_embed* host) {
  static struct call slow, quick, whole;
  slow.stage = opened(host, "[{\"use\": \"faulty\", \"how\": \"none\", \"milliseconds\": 60000}]");
  quick.stage = opened(host, "[{\"use\": \"faulty\", \"how\": \"none\", \"milliseconds\": 1500}]");
  whole.host = host;
  whole.stages = "[{\"use\": \"faulty\", \"how\": \"none\", \"milliseconds\": 60000}]";
  kinora_embed_stage_cancel(slow.stage); /* nothing is in progress */
  kinora_embed_stage_cancel(quick.stage);
  begin(&slow), begin(&quick), begin(&whole);
  for (; atomic_load(&whole.status) == 1; wait_a_little()) kinora_embed_cancel(host);
  EXPECT(end(&whole) == KINORA_ERROR_CANCELLED && atomic_load(&slow.status) == 1);
  for (; atomic_load(&slow.status) == 1; wait_a_little()) kinora_embed_stage_cancel(slow.stage);
  EXPECT(end(&slow) == KINORA_ERROR_CANCELLED && slow.seen.emitted == 0);
  EXPECT(end(&quick) == KINORA_OK && quick.seen.emitted == 1);
  begin(&quick); /* the next call is not cancelled */
  EXPECT(end(&quick) == KINORA_OK && quick.seen.emitted == 1);
  kinora_embed_stage_close(slow.stage);
  kinora_embed_stage_close(quick.stage);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the quickest of twenty calls: what else runs on the machine lengthens the others. Without a stage it is
 * kinora_embed_apply(). */
static double seconds_of(kinora_embed* host, kinora_embed_stage* stage, const char* stages, kinora_sample* in,
                         struct seen* seen) {
  const kinora_emit to = all_of(seen);
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const double begun = now();
    EXPECT((stage ? kinora_embed_stage_process(stage, &in, 1, &to)
                  : kinora_embed_apply(host, stages, &in, 1, &to)) == KINORA_OK);
    const double took = now() - begun;
    if (took < best) best = took;
  }
  EXPECT(seen->emitted == 20);
  seen->emitted = 0;
  return best;
}

/* An open stage and apply() of one sample cost less than 5 ms besides the work: neither makes a process each time. */
static void check_cost(kinora_embed* host, struct seen* seen, const char* video) {
  kinora_embed_stage *counts = opened(host, "[\"count.bytes\"]"), *probes = opened(host, "[\"video.probe\"]");
  kinora_sample *small = sample_of("a", "mp4", "four", 4),
                *film = sample_of("f", "url", video, strlen(video));
  const double open = seconds_of(host, counts, NULL, small, seen); /* its work is nothing */
  const double probe = seconds_of(host, probes, NULL, film, seen);
  const double apply = seconds_of(host, NULL, "[\"video.probe\"]", film, seen);
  printf(
      "embed: a sample costs %.2f ms through an open stage; apply costs %.2f ms more than the %.2f ms of an "
      "open "
      "video.probe\n",
      1e3 * open, 1e3 * (apply - probe), 1e3 * probe);
  EXPECT(open < 0.005);
  EXPECT(apply - probe < 0.005);
  kinora_embed_stage_close(counts);
  kinora_embed_stage_close(probes);
  kinora_embed_samples()->release(small);
  kinora_embed_samples()->release(film);
}

static int freed;
static void on_free(kinora_dl_managed* tensor) { (void)tensor, ++freed; }

/* A shared tensor outlives the sample's, and its sample. */
static void check_tensor(void) {
  static float data[6] = {0, 1, 2, 3, 4, 5};
  static int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
  kinora_dl_managed in = {.major = 1,
                          .deleter = on_free,
                          .tensor = {.data = data,
                                     .device_type = KINORA_DL_CPU,
                                     .ndim = 2,
                                     .code = KINORA_DL_FLOAT,
                                     .bits = 32,
                                     .lanes = 1,
                                     .shape = shape,
                                     .strides = strides}};
  kinora_dl_managed* out = NULL;
  kinora_sample* sample = sample_of("t", "txt", "x", 1);
  EXPECT(kinora_embed_samples()->set_tensor(sample, "frames", &in) == KINORA_OK);
  EXPECT(kinora_embed_share_tensor(sample, "times", &out) == KINORA_ERROR_NOT_FOUND);
  EXPECT(kinora_embed_share_tensor(sample, "frames", &out) == KINORA_OK);
  kinora_embed_samples()->remove(sample, "frames");
  kinora_embed_samples()->release(sample);
  EXPECT(freed == 0 && out->tensor.data == data && out->tensor.shape[1] == 3 && out->tensor.strides[0] == 3);
  EXPECT(out->major == 1 && out->flags == KINORA_DL_READ_ONLY);
  out->deleter(out);
  EXPECT(freed == 1);
}

/* One of three samples with 3 grey frames of 24 x 32. */
static kinora_sample* clip_of(const char* key, int number) {
  static int64_t shape[4] = {3, 24, 32, 3}, strides[4] = {2304, 96, 3, 1};
  static uint8_t data[3][6912];
  static kinora_dl_managed frames[3];
  kinora_sample* out = sample_of(key, "json", "{}", 2);
  memset(data[number], 100 + number, sizeof data[number]);
  frames[number] = (kinora_dl_managed){.major = 1,
                                       .tensor = {.data = data[number],
                                                  .device_type = KINORA_DL_CPU,
                                                  .ndim = 4,
                                                  .code = KINORA_DL_UINT,
                                                  .bits = 8,
                                                  .lanes = 1,
                                                  .shape = shape,
                                                  .strides = strides}};
  EXPECT(kinora_embed_samples()->set_tensor(out, "frames", &frames[number]) == KINORA_OK);
  return out;
}

/* Several inputs of one call are one batch of a stage that has batches. */
static void check_batch(kinora_embed* host, struct seen* seen, const char* model) {
  const kinora_emit to = all_of(seen);
  kinora_sample* in[] = {clip_of("a", 0), clip_of("b", 1), clip_of("c", 2)};
  kinora_resources needs = {.struct_size = sizeof needs};
  char stages[4096];
  snprintf(stages, sizeof stages,
           "[{\"use\": \"embed.model\", \"model\": \"%s\", \"device\": \"cpu\", \"batch\": 2, \"frames\": 3, "
           "\"height\": 24, \"width\": 32}]",
           model);
  kinora_embed_stage* stage = opened(host, stages);
  EXPECT(kinora_embed_stage_resources(stage, &needs) == KINORA_OK && needs.batch == 2);
  EXPECT(kinora_embed_stage_process(stage, in, 3, &to) == KINORA_ERROR_INVALID && seen->emitted == 0);
  EXPECT(kinora_embed_stage_process(stage, in, 2, &to) == KINORA_OK && seen->emitted == 2);
  EXPECT(kinora_embed_stage_process(stage, in + 2, 1, &to) == KINORA_OK && seen->emitted == 3);
  kinora_embed_stage_close(stage);
  for (int i = 0; i < 3; ++i) {
    kinora_bytes value;
    EXPECT(kinora_embed_samples()->get(in[i], "model.npy", &value) == KINORA_OK && value.size > 64);
    kinora_embed_samples()->release(in[i]);
  }
}

static void check_run(kinora_embed* host, const char* folder) {
  char file[4096];
  snprintf(file, sizeof file, "%s/nothing.toml", folder);
  kinora_embed_run_options run = {
      .struct_size = sizeof run, .file = file, .text = "[run]\nname = \"x\"\n[[job]]\nkind = \"nothing\"\n"};
  EXPECT(kinora_embed_run(host, &run) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "nothing.toml:4:8: unknown kind of job 'nothing'") != NULL);
  run.text = NULL;
  EXPECT(kinora_embed_run(host, &run) == KINORA_ERROR_NOT_FOUND);
}

/* A stage in this process changes the umask, and the modes of the thread that it runs in: the run puts both back. */
static void check_surroundings(kinora_embed* host, struct seen* seen, const char* folder, const char* video) {
  char file[8192], out[4096], text[16384];
  snprintf(file, sizeof file, "%s/changes.toml", folder);
  snprintf(out, sizeof out, "%s/changed-%ld", folder, (long)getpid());
  snprintf(text, sizeof text,
           "[[job]]\nname = \"look\"\nkind = \"curate\"\ninput = \"%s\"\nstages = [\"video.probe\", { use = "
           "\"faulty\", "
           "how = \"surroundings\", when = \"\", isolated = false }]\n"
           "engine = { use = \"local\", isolate = [\"video.probe\"] }\n",
           video);
  kinora_embed_run_options run = {.struct_size = sizeof run, .file = file, .text = text, .out = out};
  const mode_t before = umask(027);
  EXPECT(seen->changes == 0 && kinora_embed_run(host, &run) == KINORA_OK);
  EXPECT(umask(before) == 027);
#ifdef __SSE__
  EXPECT(seen->changes == 2);
#endif
  snprintf(file, sizeof file, "%s/look/items.jsonl", out);
  FILE* items = fopen(file, "r");
  EXPECT(items != NULL);
  fclose(items);
}

/* The checks of open stages, each with nothing seen before. */
static void check_stages(kinora_embed* host, const char* video, const char* model) {
  static struct seen seen[5];
  check_refusals(host, &seen[0]);
  check_holding(host, &seen[1]);
  check_death(host, &seen[2]);
  check_cancel(host);
  check_cost(host, &seen[3], video);
  check_batch(host, &seen[4], model);
}

int main(int argc, char** argv) {
  static struct seen seen;
  EXPECT(argc == 6);
  const char* folders[] = {argv[1], argv[2]};
  kinora_embed_options options = {sizeof options, KINORA_EMBED_DRAFT + 1, folders, 2, "debug", on_log, &seen};
  kinora_embed *host = NULL, *second = NULL;
  EXPECT(strchr(kinora_embed_version(), '.') != NULL && strcmp(kinora_embed_error(), "") == 0);
  EXPECT(kinora_embed_open(&options, &host) == KINORA_ERROR_UNSUPPORTED && host == NULL);
  options.draft = KINORA_EMBED_DRAFT;
  EXPECT(kinora_embed_open(&options, &host) == KINORA_OK);
  EXPECT(kinora_embed_open(&options, &second) == KINORA_ERROR_INVALID && second == NULL);
  const kinora_sink sink = {&seen, on_text};
  EXPECT(kinora_embed_components(host, &sink) == KINORA_OK &&
         strstr(seen.text, "\"stage/count.bytes\"") != NULL);
  kinora_embed_cancel(host); /* nothing is in progress */
  check_apply(host, &seen);
  check_tensor();
  check_stages(host, argv[4], argv[5]);
  check_run(host, argv[3]);
  check_surroundings(host, &seen, argv[3], argv[4]);
  kinora_embed_close(host);
  EXPECT(kinora_embed_open(&options, &host) == KINORA_OK); /* again */
  kinora_embed_close(host);
  puts("embed: ok");
  return 0;
}
