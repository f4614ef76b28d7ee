// Where libtorch is. Kinora links one version of it and does not bring it along.
#pragma once
#include <filesystem>
#include <string>

#include "core/base/status.hpp"

namespace kinora::core {

// Looks for the folder of libtorch_cpu.so in the torch package that KINORA_TORCH names, and nowhere else if
// that is set; otherwise in the run path of `beside` (libkinora_torch: its own folder, and libtorch's in a
// build tree), in LD_LIBRARY_PATH, in the active Python environment (VIRTUAL_ENV, CONDA_PREFIX), and in
// `configured`, the place of a torch package, given to the build. A package of a version other than `version`
// is passed over. KINORA_ERROR_UNSUPPORTED says where it looked, and how to install that version.
Result<std::filesystem::path> find_libtorch(const std::filesystem::path& beside, const std::string& version,
                                            const std::filesystem::path& configured);

// The same for this process and the version that this build needs. The result of the first call.
const Result<std::filesystem::path>& libtorch_folder();

}  // namespace kinora::core
