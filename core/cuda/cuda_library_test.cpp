#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/tensors/device.hpp"

namespace kinora::core {
namespace {

// libtorch_cuda's dependencies (cuDNN, NCCL, ...) are only on machines with a GPU.
TEST(CudaLibrary, OpensOrSaysWhichLibraryIsMissing) {
  if (why_no_cuda_library().empty()) {
    ASSERT_NE(cuda_library(at::Device(at::kCUDA, 0)), nullptr);
    return;
  }
  EXPECT_EQ(cuda_library(at::Device(at::kCUDA, 0)), nullptr);
  EXPECT_THAT(
      why_no_cuda_library(),
      testing::MatchesRegex("libkinora_cuda cannot be opened: lib.*\\.so.*: cannot open shared object "
                            "file: No such file or directory"));
  EXPECT_THAT(why_no_cuda_library(), testing::Not(testing::HasSubstr("opened: libkinora_cuda.so")))
      << "it was built and is found";
}

TEST(CudaLibrary, IsNotAskedForOnTheCpu) { EXPECT_EQ(cuda_library(at::kCPU), nullptr); }

}  // namespace
}  // namespace kinora::core
