// Shards in memory for the tests of their readers.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "kinora/webdataset_reader.hpp"
#include "plugins/jobs/curation/plain_tar.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::core::webdataset_testing {

using Files = test::TarFiles;

inline std::string tar(const Files& files,
                       const std::function<void(struct archive*)>& prepare = test::ustar) {
  const std::string out = test::tar_bytes(files, prepare);
  EXPECT_FALSE(out.empty());
  return out;
}

inline RandomBytes source(const std::string& bytes) {
  return {"shard-000012.tar", bytes.size(), [bytes](uint64_t offset, void* to, uint64_t size) {
            return bytes.copy(static_cast<char*>(to), size, std::min<uint64_t>(offset, bytes.size()));
          }};
}

// "KEY: FIELD=BYTES FIELD=BYTES", one a sample; the last may be "error: ...".
inline std::vector<std::string> read_all(const std::string& bytes, const WebDatasetLimits& limits = {}) {
  std::vector<std::string> out;
  try {
    WebDatasetReader reader(source(bytes), limits);
    while (const auto sample = reader.next()) {
      std::string text = sample->key() + ":";
      for (const auto& f : sample->fields)
        text += " " + f.name + "=" + std::string(f.bytes.begin(), f.bytes.end());
      out.push_back(text);
    }
  } catch (const Error& e) {
    out.push_back(std::string("error: ") + e.what());
  }
  return out;
}

inline std::string shown(const std::optional<WebDatasetSample>& sample) {
  if (!sample) return "nothing";
  std::string out = sample->key();
  for (const auto& f : sample->fields)
    out += "|" + f.name + "=" + std::string(f.bytes.begin(), f.bytes.end());
  return out;
}

// 1024 bytes a sample, n0 to n7.
inline Files eight() {
  Files out;
  for (int i = 0; i < 8; ++i) out.emplace_back(fmt::format("n{}.txt", i), "y");
  return out;
}

// The bytes with zeros in [begin, end), as where a broken download was preallocated.
inline std::string with_hole(std::string bytes, size_t begin, size_t end) {
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end), '\0');
  return bytes;
}

inline std::string gzipped(const std::string& bytes) {
  return tar({{"x", bytes}}, [](struct archive* a) {
    archive_write_add_filter_gzip(a);
    archive_write_set_format_raw(a);
  });
}

// The sample that plain_sample() makes of the bytes.
inline std::optional<WebDatasetSample> plain(const std::string& bytes) {
  return plain_sample({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace kinora::core::webdataset_testing
