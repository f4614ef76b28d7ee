#include "core/plugin/libtorch.hpp"

#include <cstdlib>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Packages of torch that contain empty files, and the environment that leads to them.
class Libtorch : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/kinora-torch-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = fs::canonical(name);
    for (const char* variable : {"KINORA_TORCH", "VIRTUAL_ENV", "CONDA_PREFIX"}) {
      if (const char* value = std::getenv(variable)) before_[variable] = value;
      unsetenv(variable);
    }
  }
  void TearDown() override {
    for (const char* variable : {"KINORA_TORCH", "VIRTUAL_ENV", "CONDA_PREFIX"})
      before_.contains(variable) ? setenv(variable, before_[variable].c_str(), 1) : unsetenv(variable);
    fs::remove_all(folder_);
  }
  // A package in this folder; without a version only its library.
  fs::path package(const fs::path& at, const std::string& version) {
    const fs::path torch = folder_ / at;
    fs::create_directories(torch / "lib");
    std::ofstream(torch / "lib/libtorch_cpu.so");
    if (!version.empty())
      std::ofstream(torch / "version.py") << "cuda = None\n__version__ = '" << version << "'\n";
    return torch;
  }
  Result<fs::path> found(const fs::path& configured = {}) {
    return find_libtorch(folder_ / "lib/libkinora_torch.so", "2.11.0", configured);
  }

  fs::path folder_;

 private:
  std::map<std::string, std::string> before_;
};

TEST_F(Libtorch, IsFoundInTheActiveEnvironmentBeforeTheConfiguredPlace) {
  const auto configured = package("distribution/torch", "2.11.0");
  EXPECT_EQ(or_throw(found(configured)), configured / "lib");
  const auto active = package("venv/lib/python3.13/site-packages/torch", "2.11.0+cu130");
  setenv("CONDA_PREFIX", (folder_ / "venv").c_str(), 1);
  EXPECT_EQ(or_throw(found(configured)), active / "lib");
}

TEST_F(Libtorch, AnotherVersionIsPassedOver) {
  package("venv/lib/python3.13/site-packages/torch", "2.11.1");
  setenv("VIRTUAL_ENV", (folder_ / "venv").c_str(), 1);
  const auto configured = package("distribution/torch", "");
  EXPECT_EQ(or_throw(found(configured)), configured / "lib");
  fs::remove_all(configured);
  EXPECT_THAT(found(configured).failure().message, HasSubstr("site-packages/torch is version 2.11.1"));
}

TEST_F(Libtorch, TheNamedPackageIsTheOnlyOne) {
  const auto configured = package("distribution/torch", "2.11.0");
  const auto named = package("named", "2.11.0");
  setenv("KINORA_TORCH", named.c_str(), 1);
  EXPECT_EQ(or_throw(found(configured)), named / "lib");
  fs::remove_all(named);
  const auto why = found(configured);
  ASSERT_FALSE(why);
  EXPECT_THAT(why.failure().message, HasSubstr("not found in KINORA_TORCH=" + named.string()));
}

TEST_F(Libtorch, TheMessageNamesTheVersionAndTheCommand) {
  const auto why = found();
  ASSERT_FALSE(why);
  EXPECT_EQ(why.failure().code, KINORA_ERROR_UNSUPPORTED);
  EXPECT_THAT(
      why.failure().message,
      AllOf(HasSubstr("libtorch 2.11.0 is required and was not found in " + folder_.string() + "/lib"),
            HasSubstr("(pip install torch==2.11.0)"), HasSubstr("set KINORA_TORCH to the folder")));
}

}  // namespace
}  // namespace kinora::core
