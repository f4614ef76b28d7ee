/* A stage of an interface major that no host has. */
#include "minimal_stage.h"
MINIMAL_PLUGIN("other_interface", sizeof(kinora_plugin), 1, 0, "stage/minimal", "kinora.stage/9",
               &minimal_stage)
