// The run file that fits what a folder holds, with comments: for `kinora init` and `kinora curate`.
#pragma once
#include <string>

#include "apps/kinora/folder_look.hpp"

namespace kinora {

// name: of the run. file: what the comments call the run file.
std::string run_file_for(const FolderLook&, const std::string& name, const std::string& file);

// How long the run of that file takes on this machine, and its disk: "about 9 minutes, and 120 MiB of disk". Rough:
// videos and machines differ. Empty for a published model.
std::string expected_text(const FolderLook&);

}  // namespace kinora
