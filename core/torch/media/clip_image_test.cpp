// Compares with Pillow's resize and transformers' processor (tests/oracle/make_clip_image_fixtures.py).
#include "core/torch/media/clip_image.hpp"

#include <gtest/gtest.h>

#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

TEST(ClipImage, IsWhatPublishedEncodersRead) {
  constexpr double level = 1 / 255.0 / 0.26;  // one of 256 levels, in the units of the result
  for (const char* name : {"landscape", "portrait", "square", "small", "same"}) {
    const test::Oracle oracle("clip_image.safetensors", name);
    const at::Tensor got = clip_image(oracle.exact("frame"), oracle.options.at("size"))[0];
    const auto apart = [&](const at::Tensor& want) {
      EXPECT_EQ(got.sizes(), want.sizes());
      return (got.to(at::kDouble) - want.to(at::kDouble)).abs();
    };
    const double pillow = apart(oracle.exact("pillow")).max().item<double>(),
                 transformers = apart(oracle.exact("transformers")).mean().item<double>();
    const bool other_order = std::string(name) == "portrait";  // Pillow 13 rounds in another order
    EXPECT_LT(pillow, other_order ? 6 * level : 1e-6) << name;
    EXPECT_LT(transformers, 0.3 * level) << name << ": torchvision gives some numbers a neighbouring level";
    std::printf("          %s: Pillow %.2g, transformers %.2g\n", name, pillow, transformers);
  }
}

}  // namespace
}  // namespace kinora::core
