// Folders of small shards for the tests of kinora data, good and hostile ones.
#pragma once
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/runtime/runtime.hpp"
#include "plugins/jobs/data/index.hpp"
#include "plugins/jobs/data/verify.hpp"
#include "tests/support/tar_bytes.hpp"

namespace kinora::data {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runtime = core::or_throw(core::Runtime::start({.plugin_dirs = {}, .log_level = "error"}));
    std::string name = (fs::temp_directory_path() / "kinora-data-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
  }
  void TearDown() override { fs::remove_all(root); }

  void write(const std::string& name, const std::string& bytes) {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name, std::ios::binary) << bytes;
  }
  // A shard of samples BEFORE0, BEFORE1, ... with the fields json and txt.
  static std::string shard(const std::string& before, int samples) {
    test::TarFiles files;
    for (int i = 0; i < samples; ++i) {
      const std::string key = before + std::to_string(i);
      files.push_back({key + ".json", "{\"n\": " + std::to_string(i) + "}"});
      files.push_back({key + ".txt", "sample " + key});
    }
    return test::tar_bytes(files);
  }

  IndexReport index(const IndexOptions& options = {.threads = 3}) {
    lines.clear();
    return index_folder(find_shards(root), options, [&](const Problem& p) { lines.push_back(p.line()); });
  }
  VerifyReport verify(const VerifyOptions& options = {.threads = 3}) {
    lines.clear();
    return verify_folder(find_shards(root), options, [&](const Problem& p) { lines.push_back(p.line()); });
  }
  std::string meta(const std::string& name) const { return slurp(root / ".nv-meta" / name); }

  std::unique_ptr<core::Runtime> runtime;
  fs::path root;
  std::vector<std::string> lines;  // problems of the last call
};

}  // namespace kinora::data
