// A LeaseStore in a folder of any storage that has conditional writes (kinora_storage.put_if).
#pragma once
#include <memory>
#include <string>

#include "core/io/io.hpp"
#include "plugins/jobs/curate/range_leases.hpp"

namespace kinora::core {

// folder: as the storage understands it, "/data/out/leases" or "bucket/out/leases". Throws
// Error(KINORA_ERROR_UNSUPPORTED) if the storage has no such functions.
std::unique_ptr<LeaseStore> lease_store(std::shared_ptr<Store> store, std::string folder);

}  // namespace kinora::core
