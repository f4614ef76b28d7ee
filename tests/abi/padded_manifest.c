/* Zeros follow its manifest, as clang's address sanitizer puts them behind every constant. */
#include "minimal_stage.h"
__attribute__((section(".kinora.manifest"), used)) static const char manifest[1024] =
    "[plugin]\nmanifest = 1\nname = \"padded_manifest\"\nversion = \"0.1.0\"\nabi = \"1.0\"\ntier = "
    "\"stable\"\n\n"
    "[[component]]\nid = \"stage/minimal\"\nhelp = \"of a test\"\n";
MINIMAL_PLUGIN("padded_manifest", sizeof(kinora_plugin), 1, 0, "stage/minimal", KINORA_INTERFACE_STAGE,
               &minimal_stage)
