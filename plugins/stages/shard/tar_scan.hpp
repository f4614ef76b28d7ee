// Lists the members of an existing archive without their contents.
#pragma once
#include <vector>

#include "tar_writer.hpp"

namespace kinora::shard {

struct TarContents {
  std::vector<Member> members;
  uint64_t end = 0;  // end of the last member, where the end-of-archive blocks begin
};

// Throws Error: KINORA_NOT_FOUND if the file does not exist, KINORA_DATA if it is damaged.
TarContents scan_tar(const std::string& uri);

}  // namespace kinora::shard
