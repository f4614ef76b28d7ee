// kinora plugins: lists components, describes one, and checks whether a library is a valid plugin.
#pragma once
#include "apps/kinora/command.hpp"

namespace kinora {

int plugins_command(core::Runtime& runtime, std::vector<std::string> arguments);

// Its subcommands, each with its own flags.
int plugins_list(core::Runtime&, const Arguments&);
int plugins_inspect(core::Runtime&, const Arguments&);
int plugins_validate(core::Runtime&, const Arguments&);
int plugins_manifest(core::Runtime&, const Arguments&);
int plugins_new(core::Runtime&, const Arguments&);
int plugins_check_parallel(core::Runtime&, const Arguments&);

}  // namespace kinora
