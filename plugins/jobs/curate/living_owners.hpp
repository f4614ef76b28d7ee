// Whether processes share a curate job's inputs by leases in its output folder, for one that runs the job alone.
#pragma once
#include <filesystem>
#include <string>

#include "core/base/status.hpp"

namespace kinora::core {

// folder: JobView::shared_folder(), which may be missing. Fails if a process that lives has inputs there, with its
// name. A lease says so by a beat: where one was written less than two of its terms ago, by the clock of the disk, the
// call waits for the next beat, or until the two terms are over. Fails with KINORA_ERROR_CANCELLED when the run is
// asked to stop, with KINORA_ERROR_IO if the folder cannot be written to.
Status has_no_living_owner(const std::string& job, const std::filesystem::path& folder);

}  // namespace kinora::core
