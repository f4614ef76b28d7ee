#include "plugins/engines/common/coders.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include <gtest/gtest.h>

namespace kinora::engines {
namespace {

// As the driver names them, and as a label of Ray does.
TEST(Coders, AreThoseOfTheModel) {
  for (const char* name : {"NVIDIA H200", "H200", "NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB"})
    EXPECT_EQ(coders_of(name).nvdec, 7) << name;
  for (const auto& [name, nvdec, nvenc] : {std::tuple{"NVIDIA A100-SXM4-80GB", 5, 0},
                                           {"Tesla V100-SXM2-16GB", 1, 3},
                                           {"NVIDIA L40S", 3, 3},
                                           {"NVIDIA L4", 4, 2},
                                           {"NVIDIA A10", 2, 1},
                                           {"GeForce-RTX-5090", 1, 1},
                                           {"", 1, 1}}) {
    EXPECT_EQ(coders_of(name).nvdec, nvdec) << name;
    EXPECT_EQ(coders_of(name).nvenc, nvenc) << name;
  }
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(Coders, GpusAreThoseThatTheDriverNamesAndTheProcessMayUse) {
  const std::string root = ::testing::TempDir() + "coders_test";
  std::filesystem::remove_all(root);
  const char* before = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string kept = before ? before : "";
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(gpus_seen(root), std::vector<std::string>{});
  for (const char* device : {"nvidia0", "nvidia1", "nvidia2", "nvidiactl"})
    write(root + "/dev/" + device, "");
  const std::string gpus = root + "/proc/driver/nvidia/gpus/";
  write(gpus + "0000:1b:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 5\nDevice Minor: \t 1\n");
  write(gpus + "0000:8c:00.0/information", "Model: \t\t NVIDIA L4\nDevice Minor: \t 0\nGPU Excluded:\t No\n");
  EXPECT_EQ(gpus_seen(root), (std::vector<std::string>{"NVIDIA L4", "NVIDIA H200", ""}));
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_EQ(gpus_seen(root), (std::vector<std::string>{"NVIDIA L4", "NVIDIA H200"}));
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(gpus_seen(root), std::vector<std::string>{});
  before ? ::setenv("CUDA_VISIBLE_DEVICES", kept.c_str(), 1) : ::unsetenv("CUDA_VISIBLE_DEVICES");
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace kinora::engines
