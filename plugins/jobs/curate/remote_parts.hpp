// The parts of a shared job on another storage (option lease_at): each process uploads what it has done, and one
// fetches all of it. A part is there as it is in a folder: AT/parts/FIRST.EPOCH/record.db and data/.
#pragma once
#include <filesystem>
#include <string>

#include "plugins/jobs/curate/range_leases.hpp"

namespace kinora::core {

// Uploads the part in parts/ of `folder`, its record last, and removes it there. at: URI of a folder. Throws
// kinora::Error; KINORA_ERROR_CANCELLED if the run is cancelled meanwhile.
void upload_part(const std::filesystem::path& folder, const std::string& at, const RangeLease& lease);

// Copies the part to the folder. Files that an earlier try has fetched stay.
void fetch_part(const std::string& at, const std::filesystem::path& folder, const RangeLease& lease);

}  // namespace kinora::core
