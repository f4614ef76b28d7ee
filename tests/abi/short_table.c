/* Its table of functions ends before process(). */
#include "minimal_stage.h"
static const kinora_stage short_stage = {24, 0, minimal_create, minimal_destroy, NULL, NULL, NULL};
MINIMAL_PLUGIN("short_table", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_STAGE, &short_stage)
