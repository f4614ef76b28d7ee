/* A whole plugin in C, without the SDK's C++: stage/count.bytes writes the size of one field into another.
 * It shows a manifest written by hand, in plugin.toml and in the section .kinora.manifest; options; samples;
 * errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinora/abi/plugin.h"
#include "kinora/abi/stage.h"

#define COMPONENT                                                                            \
  "[[component]]\n"                                                                          \
  "id = \"stage/count.bytes\"\n"                                                             \
  "help = \"counts the bytes of a field\"\n"                                                 \
  "option.field = { type = \"string\", default = \"mp4\", help = \"the field to count\" }\n" \
  "option.at_most = { type = \"size\", default = 1048576, min = 0, help = \"drop what is larger\" }\n"
#define MANIFEST                                                                                 \
  "[plugin]\nmanifest = 1\nname = \"pure_c_stage\"\nversion = \"0.1.0\"\nabi = \"1.0\"\ntier = " \
  "\"stable\"\n\n" COMPONENT

/* Without the terminating NUL of a C string. */
__attribute__((section(".kinora.manifest"), used, retain)) static const char manifest[sizeof(MANIFEST) - 1] =
    MANIFEST;

typedef struct stage {
  const kinora_host* host;
  const kinora_samples_api* samples;
  char field[64];
  int64_t at_most;
} stage;

static void* create(const kinora_host* host, const kinora_options* given) {
  const kinora_options_api* options = host->get_interface(host, KINORA_INTERFACE_OPTIONS, 0);
  const kinora_samples_api* samples = host->get_interface(host, KINORA_INTERFACE_SAMPLES, 0);
  kinora_str field;
  stage* self = calloc(1, sizeof *self);
  if (self == NULL || options == NULL || samples == NULL) {
    host->set_error(host, KINORA_ERROR_FAILED, "stage/count.bytes: the host lacks an interface or memory");
    free(self);
    return NULL;
  }
  self->host = host;
  self->samples = samples;
  if (options->get_string(given, "field", 0, &field) != KINORA_OK ||
      options->get_int(given, "at_most", 0, &self->at_most) != KINORA_OK) {
    free(self);
    return NULL;
  }
  memcpy(self->field, field.data, field.size < 63 ? field.size : 63);
  return self;
}

static void destroy(void* self) { free(self); }

static int32_t resources(void* self, kinora_resources* out) {
  const kinora_resources one = {sizeof one, 0, 0.1, 0.0, 0, 0, 0, 0, 0};
  (void)self;
  KINORA_FILL(out, &one);
  return KINORA_OK;
}

static int32_t process(void* me, kinora_sample* in, const kinora_emit* emit, const kinora_run* run) {
  stage* self = me;
  kinora_bytes value, text;
  char number[32], message[160];
  int32_t status = self->samples->get(in, self->field, &value);
  if (run->needs != 0) {
    self->host->set_error(self->host, KINORA_ERROR_UNSUPPORTED,
                          "stage/count.bytes does not know what this run needs");
    return KINORA_ERROR_UNSUPPORTED;
  }
  if (status != KINORA_OK) {
    snprintf(message, sizeof message, "the sample has no field '%s'; choose one with option 'field'",
             self->field);
    self->host->set_error(self->host, status, message);
    return status;
  }
  self->samples->retain(in);
  if ((int64_t)value.size > self->at_most)
    return emit->drop(emit->self, in, "count.too-large", (double)value.size);
  text.data = number;
  text.size = (uint64_t)snprintf(number, sizeof number, "%llu", (unsigned long long)value.size);
  status = self->samples->set(in, "size", text, NULL, NULL);
  if (status != KINORA_OK) {
    self->samples->release(in);
    return status;
  }
  return emit->emit(emit->self, in);
}

static int32_t describe(const kinora_sink* out) {
  out->write(out->self, COMPONENT, sizeof(COMPONENT) - 1);
  return KINORA_OK;
}

static const kinora_stage table = {.struct_size = sizeof(kinora_stage),
                                   .create = create,
                                   .destroy = destroy,
                                   .resources = resources,
                                   .process = process};
static const kinora_component components[] = {
    {sizeof(kinora_component), 0, "stage/count.bytes", KINORA_INTERFACE_STAGE, &table, describe, NULL}};
static const kinora_plugin plugin = {
    sizeof(kinora_plugin), KINORA_ABI_MAJOR, KINORA_ABI_TARGET_MINOR, 1, "pure_c_stage", "0.1.0", components};

KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host);
KINORA_EXPORT const kinora_plugin* kinora_plugin_entry(const kinora_host* host) {
  (void)host;
  return &plugin;
}
