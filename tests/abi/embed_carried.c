/* A program in C that embeds Kinora: samples that leave it (pack, unpack, store), a plugin that is compiled into it,
 * the fingerprint and life signs. usage: embed_carried PLUGINS FAULTY FOLDER
 * PLUGINS, FAULTY: folders with the plugins split_stage and faulty; FOLDER: one that it may write to. */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include <sys/resource.h>

#include "embed_checks.h"

static int32_t own_process(kinora_sample* in, const kinora_emit* emit, const kinora_run* run);
#define MINIMAL_ISOLATED 1 /* and yet it runs here */
#define MINIMAL_IN_PROCESS return own_process(in, emit, run)
#include "minimal_stage.h"
MINIMAL_PLUGIN("own", sizeof(kinora_plugin), KINORA_ABI_MAJOR, 0, "stage/own.pid", KINORA_INTERFACE_STAGE,
               &minimal_stage)
#define OWN(VERSION)                                             \
  "[plugin]\nmanifest = 1\nname = \"own\"\nversion = \"" VERSION \
  "\"\nabi = \"1.0\"\ntier = \"stable\"\n[[component]]\nid = \"stage/own.pid\"\nhelp = \"its process\"\n"

static int32_t own_process(kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  const kinora_samples_api* api = kinora_embed_samples();
  char pid[32];
  const int size = snprintf(pid, sizeof pid, "%ld", (long)getpid());
  const int32_t status = run->progress(run->self, 1, 2, NULL);
  if (status != KINORA_OK) return status;
  EXPECT(api->set(in, "pid", (kinora_bytes){pid, (uint64_t)size}, NULL, NULL) == KINORA_OK);
  api->retain(in);
  return emit->emit(emit->self, in);
}

struct seen {
  int emitted;
  size_t size;
  char text[1 << 20];
};

static void on_text(void* self, const void* data, uint64_t size) {
  struct seen* to = self;
  EXPECT(to->size + size < sizeof to->text);
  memcpy(to->text + to->size, data, size);
  to->text[to->size += size] = 0;
}

static int32_t on_emit(void* self, kinora_sample* sample) {
  ++((struct seen*)self)->emitted;
  kinora_embed_samples()->release(sample);
  return KINORA_OK;
}

static int32_t opens(kinora_embed* host, const char* stages, kinora_embed_stage** out) {
  const kinora_embed_stage_options how = {.struct_size = sizeof how, .stages = stages};
  return kinora_embed_stage_open(host, &how, out);
}

/* By how much the life signs of a new handle grow with one sample, which is left with what the stage sets. */
static uint64_t beats_of(kinora_embed* host, const char* stages, kinora_sample* sample) {
  static struct seen seen;
  const kinora_emit to = {.struct_size = sizeof to, .self = &seen, .emit = on_emit};
  kinora_embed_stage* stage = NULL;
  seen.emitted = 0;
  EXPECT(opens(host, stages, &stage) == KINORA_OK);
  const uint64_t before = kinora_embed_stage_beats(stage);
  EXPECT(kinora_embed_stage_process(stage, &sample, 1, &to) == KINORA_OK && seen.emitted == 1);
  const uint64_t out = kinora_embed_stage_beats(stage) - before;
  kinora_embed_stage_close(stage);
  return out;
}

/* A stage of this program's own plugin, and what is wrong with others. */
static void check_plugin(kinora_embed* host) {
  kinora_embed_stage* stage = NULL;
  kinora_sample* sample = sample_of("a", "txt", "x", 1);
  kinora_bytes pid;
  EXPECT(opens(host, "[\"own.pid\"]", &stage) == KINORA_ERROR_NOT_FOUND);
  EXPECT(kinora_embed_add_plugin(host, kinora_plugin_entry, "[plugin]\nname = 3\n") == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "the manifest of the program's plugin:2:") != NULL);
  EXPECT(kinora_embed_add_plugin(host, kinora_plugin_entry, OWN("0.2.0")) == KINORA_OK);
  EXPECT(opens(host, "[\"own.pid\"]", &stage) == KINORA_ERROR_INVALID && stage == NULL); /* it is 0.1.0 */
  EXPECT(strstr(kinora_embed_error(), "version: expected 0.2.0, found 0.1.0") != NULL);
  EXPECT(kinora_embed_add_plugin(host, kinora_plugin_entry, OWN("0.1.0")) == KINORA_OK);
  EXPECT(kinora_embed_add_plugin(host, kinora_plugin_entry, OWN("0.1.0")) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "plugin 'own'") != NULL);
  EXPECT(beats_of(host, "[\"own.pid\"]", sample) == 3); /* it begins, calls progress() and ends */
  EXPECT(kinora_embed_add_plugin(host, kinora_plugin_entry, OWN("0.1.0")) == KINORA_ERROR_INVALID);
  EXPECT(kinora_embed_samples()->get(sample, "pid", &pid) == KINORA_OK);
  EXPECT(strtol(pid.data, NULL, 10) == (long)getpid());
  /* in a process of its own, which asks each millisecond whether it is to stop, and is looked at every ten */
  const char* slow = "[{\"use\": \"faulty\", \"how\": \"none\", \"milliseconds\": 300}]";
  const uint64_t beats = beats_of(host, slow, sample);
  EXPECT(beats >= 5);
  kinora_embed_samples()->release(sample);
}

/* The digest of a library is that of sha256sum. */
static void check_fingerprint(kinora_embed* host, const char* plugins) {
  static struct seen seen;
  const kinora_sink sink = {&seen, on_text};
  char command[4096], expected[128] = "\"library\":\"";
  snprintf(command, sizeof command, "sha256sum '%s/split_stage/libsplit_stage.so'", plugins);
  FILE* program = popen(command, "r");
  EXPECT(program != NULL && fread(expected + strlen(expected), 1, 64, program) == 64);
  pclose(program);
  EXPECT(kinora_embed_fingerprint(host, &sink) == KINORA_OK);
  EXPECT(strstr(seen.text, expected) != NULL && strstr(seen.text, "\"split_stage\":{") != NULL);
  EXPECT(strstr(seen.text, "\"abi\":\"1.0\"") != NULL && strstr(seen.text, kinora_embed_version()) != NULL);
  EXPECT(strstr(seen.text, "\"own\":{\"version\":\"0.1.0\"}") != NULL);
}

static void expect_file(const char* folder, const char* name, const char* expected) {
  char path[4096], found[64] = {0};
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE* file = fopen(path, "r");
  EXPECT((file != NULL) == (expected != NULL));
  if (!file) return;
  EXPECT(fread(found, 1, sizeof found - 1, file) == strlen(expected) && strcmp(found, expected) == 0);
  fclose(file);
}

static void check_store(const char* folder) {
  static struct seen seen;
  const kinora_sink sink = {&seen, on_text};
  char to[4000], below[4096];
  snprintf(to, sizeof to, "%s/stored-%ld", folder, (long)getpid());
  kinora_sample* sample = sample_of("s/one", "mp4", "four", 4);
  kinora_embed_samples()->set(sample, "json", (kinora_bytes){"{}", 2}, NULL, NULL);
  kinora_embed_samples()->set(sample, "url", (kinora_bytes){"a.mp4", 5}, NULL, NULL);
  EXPECT(kinora_embed_store(to, sample, &sink) == KINORA_OK);
  EXPECT(strcmp(seen.text, "{\"s/one.json\":2,\"s/one.mp4\":4}") == 0);
  expect_file(to, "s/one.mp4", "four");
  expect_file(to, "s/one.json", "{}");
  expect_file(to, "s/one.url", NULL);
  snprintf(below, sizeof below, "%s/s/one.mp4", to); /* a file is no folder */
  EXPECT(kinora_embed_store(below, sample, &sink) == KINORA_ERROR_IO);
  kinora_sample* dotted = sample_of("a.b", "mp4", "four", 4);
  EXPECT(kinora_embed_store(to, dotted, &sink) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "'a.b' has a dot in its last part") != NULL);
  kinora_sample* latin = sample_of("one", "caf\xe9", "four", 4);
  EXPECT(kinora_embed_store(to, latin, &sink) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "which is not UTF-8") != NULL);
  kinora_embed_samples()->release(sample);
  kinora_embed_samples()->release(dotted);
  kinora_embed_samples()->release(latin);
}

static int freed, returned;
static void on_free(kinora_dl_managed* tensor) { (void)tensor, ++freed; }
static void on_free_bytes(void* data) { free(data), ++freed; }
static void on_returned(void* user) { (void)user, ++returned; }

static void set_tensor(kinora_sample* to, const char* name, kinora_dl_managed* kept, int32_t ndim,
                       int64_t* shape, uint8_t code, uint8_t bits, void* data) {
  *kept = (kinora_dl_managed){.major = 1, .deleter = on_free};
  kept->tensor = (kinora_dl_tensor){.data = data,
                                    .device_type = KINORA_DL_CPU,
                                    .ndim = ndim,
                                    .code = code,
                                    .bits = bits,
                                    .lanes = 1,
                                    .shape = shape};
  EXPECT(kinora_embed_samples()->set_tensor(to, name, kept) == KINORA_OK);
}

enum { kLarge = 300 << 20, kFrames = 3 * 64 * 48 };
static float frames[kFrames];
static double scalar = 0.25;
static uint16_t few[2] = {0x3f80, 0xbf80};
static kinora_dl_managed tensors[4];

/* 300 MB that no one has touched, a tensor of 36 KB, and what is small: five fields and tensors, also empty ones. */
static kinora_sample* large_sample(void) {
  static int64_t shape[3] = {3, 64, 48}, none[2] = {0, 5}, two[1] = {2};
  kinora_sample* out = sample_of("a/b", "txt", "three", 5);
  void* large = calloc(1, kLarge);
  for (int i = 0; i < kFrames; ++i) frames[i] = (float)i;
  EXPECT(kinora_embed_samples()->set(out, "mp4", (kinora_bytes){large, kLarge}, on_free_bytes, large) ==
         KINORA_OK);
  EXPECT(kinora_embed_samples()->set(out, "none", (kinora_bytes){"", 0}, NULL, NULL) == KINORA_OK);
  set_tensor(out, "frames", &tensors[0], 3, shape, KINORA_DL_FLOAT, 32, frames);
  set_tensor(out, "scalar", &tensors[1], 0, NULL, KINORA_DL_FLOAT, 64, &scalar);
  set_tensor(out, "empty", &tensors[2], 2, none, KINORA_DL_UINT, 8, NULL);
  set_tensor(out, "few", &tensors[3], 1, two, KINORA_DL_BFLOAT, 16, few);
  return out;
}

struct packed {
  struct seen head;
  int n;
  kinora_bytes pieces[3];
  kinora_sample* keepers[3];
};

static void on_piece(void* self, kinora_bytes data, kinora_sample* keeper) {
  struct packed* to = self; /* its first member is the sink's */
  EXPECT(to->n < 3 && to->head.size > 0);
  to->pieces[to->n] = data;
  to->keepers[to->n++] = keeper;
}

static const kinora_dl_tensor* tensor_of(const kinora_sample* sample, const char* name, int32_t ndim,
                                         uint8_t code, uint8_t bits) {
  const kinora_dl_tensor* out = NULL;
  EXPECT(kinora_embed_samples()->get_tensor(sample, name, &out) == KINORA_OK);
  EXPECT(out->ndim == ndim && out->code == code && out->bits == bits && out->lanes == 1);
  return out;
}

static void expect_same(const kinora_sample* sample, const kinora_bytes* pieces) {
  const kinora_samples_api* api = kinora_embed_samples();
  const kinora_str key = api->key(sample);
  kinora_bytes value;
  EXPECT(key.size == 3 && memcmp(key.data, "a/b", 3) == 0);
  EXPECT(api->get(sample, "txt", &value) == KINORA_OK && value.size == 5 &&
         memcmp(value.data, "three", 5) == 0);
  EXPECT(api->get(sample, "none", &value) == KINORA_OK && value.size == 0);
  EXPECT(api->get(sample, "mp4", &value) == KINORA_OK && value.size == kLarge &&
         value.data == pieces[0].data);
  const kinora_dl_tensor* tensor = tensor_of(sample, "frames", 3, KINORA_DL_FLOAT, 32);
  EXPECT(tensor->data == pieces[1].data && tensor->shape[0] == 3 && tensor->shape[1] == 64 &&
         tensor->shape[2] == 48);
  EXPECT(((const float*)tensor->data)[kFrames - 1] == (float)(kFrames - 1));
  EXPECT(*(const double*)tensor_of(sample, "scalar", 0, KINORA_DL_FLOAT, 64)->data == 0.25);
  tensor = tensor_of(sample, "empty", 2, KINORA_DL_UINT, 8);
  EXPECT(tensor->shape[0] == 0 && tensor->shape[1] == 5);
  tensor = tensor_of(sample, "few", 1, KINORA_DL_BFLOAT, 16);
  EXPECT(tensor->shape[0] == 2 && memcmp(tensor->data, few, sizeof few) == 0);
}

static int32_t unpacked(const struct packed* from, size_t size, const kinora_bytes* pieces, uint64_t n,
                        kinora_sample** out) {
  return kinora_embed_unpack((kinora_bytes){from->head.text, size}, pieces, n, on_returned, NULL, out);
}

/* Heads and pieces that do not belong together, and every head that was cut off. */
static void check_refused(const struct packed* from) {
  const size_t size = from->head.size;
  const kinora_bytes *all = from->pieces, swapped[] = {all[1], all[0]};
  const kinora_bytes more[] = {all[0], all[1], all[1]};
  const kinora_bytes shorter[] = {{all[0].data, all[0].size - 1}, all[1]};
  const kinora_bytes shifted[] = {all[0], {(const char*)all[0].data + 2, all[1].size}};
  kinora_sample* out = NULL;
  EXPECT(unpacked(from, size, all, 1, &out) == KINORA_ERROR_DATA);
  EXPECT(strstr(kinora_embed_error(), "piece 1 of 36864 bytes where piece 1 of 1 pieces is next") != NULL);
  EXPECT(unpacked(from, size, swapped, 2, &out) == KINORA_ERROR_DATA);
  EXPECT(unpacked(from, size, more, 3, &out) == KINORA_ERROR_DATA);
  EXPECT(strstr(kinora_embed_error(), "the head is of 2 pieces, not of 3") != NULL);
  EXPECT(unpacked(from, size, shorter, 2, &out) == KINORA_ERROR_DATA);
  EXPECT(unpacked(from, size, shifted, 2, &out) == KINORA_ERROR_INVALID);
  EXPECT(strstr(kinora_embed_error(), "tensor 'frames': its piece does not begin at a multiple of 4") !=
         NULL);
  for (size_t i = 0; i < size; ++i) EXPECT(unpacked(from, i, all, 2, &out) == KINORA_ERROR_DATA);
  EXPECT(kinora_embed_unpack((kinora_bytes){NULL, 0}, NULL, 0, NULL, NULL, &out) == KINORA_ERROR_DATA);
  EXPECT(out == NULL && returned == 0);
}

static long peak_kilobytes(void) {
  struct rusage usage;
  EXPECT(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss;
}

static void check_pack(void) {
  static struct packed packed;
  const kinora_samples_api* api = kinora_embed_samples();
  kinora_sample *sample = large_sample(), *out = NULL, *other = NULL;
  kinora_bytes large;
  const long before = peak_kilobytes();
  const kinora_sink head = {&packed, on_text};
  EXPECT(api->get(sample, "mp4", &large) == KINORA_OK);
  EXPECT(kinora_embed_pack(sample, &head, on_piece) == KINORA_OK && packed.n == 2);
  EXPECT(packed.pieces[0].data == large.data && packed.pieces[0].size == kLarge);
  EXPECT(packed.pieces[1].data == frames && packed.pieces[1].size == sizeof frames);
  api->remove(sample, "mp4"); /* the keeper has it still, whatever becomes of the sample */
  api->release(sample);
  EXPECT(freed == 0);
  check_refused(&packed);
  EXPECT(unpacked(&packed, packed.head.size, packed.pieces, 2, &out) == KINORA_OK);
  expect_same(out, packed.pieces);
  EXPECT(api->clone(out, text("c"), &other) == KINORA_OK);
  api->release(out);
  EXPECT(returned == 0);
  api->remove(other, "frames");
  EXPECT(returned == 0); /* mp4 is of the same memory */
  api->release(other);
  EXPECT(returned == 1);
  EXPECT(peak_kilobytes() - before < 100 << 10); /* nothing large was copied */
  api->release(packed.keepers[0]);
  EXPECT(freed == 0);
  api->release(packed.keepers[1]);
  EXPECT(freed == 5);
}

int main(int argc, char** argv) {
  EXPECT(argc == 4);
  const char* folders[] = {argv[1], argv[2]};
  const kinora_embed_options options = {sizeof options, KINORA_EMBED_DRAFT, folders, 2, "warn", NULL, NULL};
  kinora_embed* host = NULL;
  check_pack(); /* needs no host */
  EXPECT(kinora_embed_open(&options, &host) == KINORA_OK);
  check_plugin(host);
  check_fingerprint(host, argv[1]);
  check_store(argv[3]);
  kinora_embed_close(host);
  puts("embed_carried: ok");
  return 0;
}
