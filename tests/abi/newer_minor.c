/* Needs a later minor version than its manifest declares. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("newer_minor", sizeof(kinora_plugin), 1, 7, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
