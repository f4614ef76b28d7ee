// `kinora plugins validate`, `manifest` and `check-parallel`: what a plugin must hold, tried on its components.
#pragma once
#include "apps/command/command_line.hpp"
#include "apps/command/flags.hpp"

namespace kinora {

// Each takes the arguments behind its name, and returns the program's exit code.
int plugins_validate(core::Runtime&, const Arguments&);
int plugins_manifest(core::Runtime&, const Arguments&);
int plugins_check_parallel(core::Runtime&, const Arguments&);
// Their flags, without help texts.
Flags validate_flags();
Flags manifest_flags();
Flags check_parallel_flags();

}  // namespace kinora
