// A scratch folder, and the published folders of tests/data/oracle.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

namespace kinora::test {

class OracleFolders : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kinora-pipeline-XXXXXX").string();
    scratch_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }
  static std::filesystem::path oracle(const std::string& name) {
    return std::filesystem::path(KINORA_TEST_DATA) / "oracle" / name;
  }
  std::filesystem::path scratch_;
};

}  // namespace kinora::test
