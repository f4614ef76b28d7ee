// kinora plugins: what there is, what one component takes and gives, and whether a library is a sound plugin.
#pragma once
#include "apps/kinora/command.hpp"

namespace kinora {

int plugins_command(core::Runtime& runtime, std::vector<std::string> arguments);

// Parts of it, each with its own flags.
int plugins_list(core::Runtime&, const Arguments&);
int plugins_inspect(core::Runtime&, const Arguments&);
int plugins_validate(core::Runtime&, const Arguments&);
int plugins_manifest(core::Runtime&, const Arguments&);
int plugins_new(core::Runtime&, const Arguments&);
int plugins_check_parallel(core::Runtime&, const Arguments&);

}  // namespace kinora
