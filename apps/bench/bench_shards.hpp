// Shards of pictures for `kinora bench data`, in a temporary folder.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plugins/jobs/loading/data_order.hpp"

namespace kinora {

// JPEG files of 256x256 with grain, of about 12 KB each. Throws Error if the ffmpeg program is missing.
std::vector<std::string> made_pictures();

// Shards of 5,000 samples with an index; each sample has a picture, facts and a caption. The folder is removed with the
// object.
class BenchShards {
 public:
  BenchShards(int64_t samples, const std::vector<std::string>& pictures);
  BenchShards(const BenchShards&) = delete;
  BenchShards& operator=(const BenchShards&) = delete;
  ~BenchShards();

  // Reads all files from end to end: in this process in blocks of 1 MiB, or by the program cat.
  void read_files() const;
  void cat() const;
  const std::filesystem::path& folder() const { return folder_; }
  core::DataOrder order(int64_t shuffle) const;

 private:
  std::filesystem::path scratch_, folder_;
  std::vector<std::filesystem::path> files_;
};

}  // namespace kinora
