/* Its table of functions ends before process(). */
#include "minimal_stage.h"
static const kinora_stage short_stage = {
    .struct_size = 24, .create = minimal_create, .destroy = minimal_destroy};
MINIMAL_PLUGIN("short_table", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &short_stage)
