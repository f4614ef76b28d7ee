// The members of an archive that is already there, without their contents.
#pragma once
#include <vector>

#include "tar_writer.hpp"

namespace kinora::shard {

struct TarContents {
  std::vector<Member> members;
  uint64_t end = 0;  // of the last member: where the end-of-archive blocks begin
};

// Throws Error: KINORA_NOT_FOUND if there is no such file, KINORA_DATA if it is damaged.
TarContents scan_tar(const std::string& uri);

}  // namespace kinora::shard
