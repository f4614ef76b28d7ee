#include "core/torch/tensors/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kinora/error.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

std::string device_message(const std::string& name) {
  return test::refusal([&] { device_of(name); });
}

TEST(Device, AutoIsTheGpuIfThereIsOneAndElseTheProcessor) {
  EXPECT_TRUE(device_of("cpu").is_cpu());
  EXPECT_EQ(device_of("auto").is_cuda(), why_no_gpu().empty());
}

TEST(Device, AGpuThatCannotBeHadIsAnErrorWithTheReason) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(device_message("cuda"), HasSubstr("device 'cuda': " + why_no_gpu()));
  EXPECT_THAT(device_message("cuda:1"), HasSubstr(why_no_gpu()));
}

TEST(Device, UnknownNamesAreRefused) {
  for (const char* name : {"gpu", "meta", "", "cuda:x"})
    EXPECT_THAT(device_message(name), HasSubstr("give auto, cpu, cuda or cuda:N"));
}

}  // namespace
}  // namespace kinora::core
