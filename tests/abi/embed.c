/* A program in C that embeds libkinora: kinora/embed.h does what it says. usage: embed PLUGINS FOLDER
 * PLUGINS: a folder with the plugin pure_c_stage; FOLDER: an empty one that it may write to. */
#include "kinora/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                                    \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "%d: %s does not hold; last error: %s\n", __LINE__, #condition, kinora_embed_error()); \
      exit(1);                                                                                               \
    }                                                                                                        \
  } while (0)

struct seen {
  int emitted, dropped, failed, lines;
  char text[1 << 20], rule[64], key[64];
  size_t size;
};

static void on_log(void* user, int32_t level, kinora_str line) {
  (void)level, (void)line;
  ++((struct seen*)user)->lines;
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

static kinora_str text(const char* s) { return (kinora_str){s, strlen(s)}; }

static kinora_sample* sample_of(const char* key, const char* field, const void* data, uint64_t size) {
  kinora_sample* out = NULL;
  EXPECT(kinora_embed_samples()->create(text(key), &out) == KINORA_OK);
  EXPECT(kinora_embed_samples()->set(out, field, (kinora_bytes){data, size}, NULL, NULL) == KINORA_OK);
  return out;
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

static int freed;
static void on_free(kinora_dl_managed* tensor) { (void)tensor, ++freed; }

/* A shared tensor outlives its sample. */
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
  kinora_embed_samples()->release(sample);
  EXPECT(freed == 0 && out->tensor.data == data && out->tensor.shape[1] == 3 && out->tensor.strides[0] == 3);
  EXPECT(out->major == 1 && out->flags == KINORA_DL_READ_ONLY);
  out->deleter(out);
  EXPECT(freed == 1);
}

static void check_run(kinora_embed* host, const char* folder) {
  char file[4096];
  snprintf(file, sizeof file, "%s/nothing.toml", folder);
  kinora_embed_run_options run = {
      .struct_size = sizeof run, .file = file, .text = "[run]\nname = \"x\"\n[[job]]\nkind = \"nothing\"\n"};
  EXPECT(kinora_embed_run(host, &run) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "nothing.toml:4:8: unknown kind 'nothing'") != NULL);
  run.text = NULL;
  EXPECT(kinora_embed_run(host, &run) == KINORA_ERROR_NOT_FOUND);
}

int main(int argc, char** argv) {
  static struct seen seen;
  EXPECT(argc == 3);
  const char* folders[] = {argv[1]};
  kinora_embed_options options = {sizeof options, KINORA_EMBED_DRAFT + 1, folders, 1, "debug", on_log, &seen};
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
  check_run(host, argv[2]);
  kinora_embed_close(host);
  EXPECT(kinora_embed_open(&options, &host) == KINORA_OK); /* again */
  kinora_embed_close(host);
  puts("embed: ok");
  return 0;
}
