// The user's options of an S3 server, see plugin.toml.
#pragma once
#include <cstdint>
#include <string>

namespace kinora::s3 {

struct Options {
  std::string endpoint, region;
  std::string path_style = "auto";
  std::string profile;
  bool anonymous = false;
  std::string ca_file;
  double connect_timeout = 10, timeout = 60;  // s
  int64_t retries = 8;
  int64_t part_size = 16 << 20;
  int64_t parallel = 4;
  int64_t read_ahead = 32 << 20;
};

}  // namespace kinora::s3
