// The run file that fits what a folder holds, with comments: for `kinora init` and `kinora curate`.
#pragma once
#include <string>

#include "apps/kinora/folder_look.hpp"

namespace kinora {

// name: of the run. file: what the comments call the run file.
std::string run_file_for(const FolderLook&, const std::string& name, const std::string& file);

// Hours that the curation of these videos takes on this machine, roughly: videos and machines differ. The measured
// costs behind it are in docs/benchmarks/epyc-2core.md.
double hours_to_curate(const FolderLook&);

}  // namespace kinora
