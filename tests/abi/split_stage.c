/* A second plugin in C: stage/split.lines makes a new sample of each line of field txt, with a tensor beside it. It
 * shows new samples (clone, made_of), a tensor whose memory is the stage's own (set_tensor with its deleter), and a
 * loop that ends when the run was asked to stop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"

typedef struct stage {
  const kinora_host* host;
  const kinora_samples_api* samples;
} stage;

static int32_t fail(const stage* self, int32_t status, const char* message) {
  self->host->set_error(self->host, status, message);
  return status;
}

static void* create(const kinora_host* host, const kinora_options* given) {
  stage* self = calloc(1, sizeof *self);
  (void)given;
  if (self == NULL)
    return host->set_error(host, KINORA_ERROR_NO_MEMORY, "stage/split.lines: no memory"), NULL;
  self->host = host;
  self->samples = host->get_interface(host, KINORA_INTERFACE_SAMPLES, 0);
  if (self->samples == NULL) return free(self), NULL; /* the host has said why */
  return self;
}

static void destroy(void* self) { free(self); }

static int32_t resources(void* self, kinora_resources* out) {
  const kinora_resources one = {.struct_size = sizeof one, .cores = 1};
  (void)self;
  KINORA_FILL(out, &one);
  return KINORA_OK;
}

/* How often each byte occurs: int64 [256]. Everything that the tensor needs is in one block of memory. */
typedef struct counts {
  kinora_dl_managed managed;
  int64_t numbers[256], shape[1], strides[1];
} counts;

static void free_counts(kinora_dl_managed* managed) { free(managed->manager); }

static kinora_dl_managed* counts_of(const char* text, size_t size) {
  counts* c = calloc(1, sizeof *c);
  if (c == NULL) return NULL;
  for (size_t i = 0; i < size; ++i) ++c->numbers[(unsigned char)text[i]];
  c->shape[0] = 256;
  c->strides[0] = 1;
  c->managed.major = 1;
  c->managed.manager = c;
  c->managed.deleter = free_counts;
  c->managed.tensor.data = c->numbers;
  c->managed.tensor.device_type = KINORA_DL_CPU;
  c->managed.tensor.ndim = 1;
  c->managed.tensor.code = KINORA_DL_INT;
  c->managed.tensor.bits = 64;
  c->managed.tensor.lanes = 1;
  c->managed.tensor.shape = c->shape;
  c->managed.tensor.strides = c->strides;
  return &c->managed;
}

/* Line `number` of `in` as a sample of its own. A clone shares the other fields and tensors; what is set replaces
 * them. */
static int32_t make_line(const stage* self, kinora_sample* in, const char* line, size_t size, int number,
                         kinora_sample** out) {
  const kinora_samples_api* api = self->samples;
  const kinora_str of = api->key(in);
  char key[256];
  kinora_dl_managed* tensor = counts_of(line, size);
  if (tensor == NULL) return fail(self, KINORA_ERROR_NO_MEMORY, "stage/split.lines: no memory");
  snprintf(key, sizeof key, "%.*s-%04d", (int)of.size, of.data, number);
  const kinora_str name = {key, strlen(key)};
  const kinora_bytes text = {line, size};
  int32_t status = api->clone(in, name, out);
  if (status == KINORA_OK) {
    status = api->set(*out, "txt", text, NULL, NULL);
    if (status == KINORA_OK) status = api->set_tensor(*out, "counts", tensor);
    if (status == KINORA_OK) return KINORA_OK; /* the tensor is the sample's now */
    api->release(*out);
  }
  free_counts(tensor);
  return status;
}

static int32_t process(void* me, kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  const stage* self = me;
  kinora_bytes all;
  if (run->needs != 0)
    return fail(self, KINORA_ERROR_UNSUPPORTED, "stage/split.lines does not know what this run needs");
  if (self->samples->get(in, "txt", &all) != KINORA_OK)
    return fail(self, KINORA_ERROR_INVALID, "stage/split.lines needs field txt");
  const char *at = all.data, *end = at + all.size;
  const kinora_str parent = self->samples->key(in);
  for (int number = 0; at < end; ++number) {
    const char* stop = memchr(at, '\n', (size_t)(end - at));
    kinora_sample* line = NULL;
    if (stop == NULL) stop = end;
    int32_t status = run->cancelled ? run->cancelled(run->self) : KINORA_OK;
    if (status == KINORA_OK) status = make_line(self, in, at, (size_t)(stop - at), number, &line);
    if (status != KINORA_OK) return status;
    status = emit->made_of ? emit->made_of(emit->self, &parent, 1)
                           : KINORA_OK; /* else: of all inputs that are held */
    if (status != KINORA_OK) return self->samples->release(line), status;
    status = emit->emit(emit->self, line); /* takes over the reference, also on an error */
    if (status != KINORA_OK) return status;
    at = stop + 1;
  }
  return KINORA_OK; /* the input itself was not emitted: it is consumed */
}

#define COMPONENT                            \
  "[[component]]\n"                          \
  "id = \"stage/split.lines\"\n"             \
  "help = \"makes a sample of each line\"\n" \
  "output.counts = { shape = \"[256]\", dtype = \"int64\", help = \"how often each byte occurs\" }\n"

static int32_t describe(const kinora_sink* out) {
  out->write(out->self, COMPONENT, sizeof(COMPONENT) - 1);
  return KINORA_OK;
}

/* `retain` keeps the section when the library is linked with --gc-sections. */
#define MANIFEST                                                                                \
  "[plugin]\nmanifest = 1\nname = \"split_stage\"\nversion = \"0.1.0\"\nabi = \"1.0\"\ntier = " \
  "\"stable\"\n\n" COMPONENT
__attribute__((section(".kinora.manifest"), used, retain)) static const char manifest[sizeof(MANIFEST) - 1] =
    MANIFEST;

static const kinora_stage table = {.struct_size = sizeof table,
                                   .create = create,
                                   .destroy = destroy,
                                   .resources = resources,
                                   .process = process};
static const kinora_component components[] = {
    {sizeof(kinora_component), 0, "stage/split.lines", KINORA_INTERFACE_STAGE, &table, describe, NULL}};
static const kinora_plugin plugin = {
    sizeof(kinora_plugin), KINORA_ABI_MAJOR, KINORA_ABI_TARGET_MINOR, 1, "split_stage", "0.1.0", components};

KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  (void)host;
  return &plugin;
}
