// Weights in eight bits with scales, in every spelling that programs write: what these programs decode, and one
// clear error for what is not understood.
#include "core/torch/weights/eight_bits.hpp"

#include <fstream>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/weights/safe_tensors.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kFile = fs::path(KINORA_TEST_DATA) / "oracle/eight_bits.safetensors";

TEST(EightBits, AreWhatTheirProgramsDecode) {
  const auto file = or_throw(Safetensors::open(kFile));
  size_t compared = 0, scaled = 0;
  for (const auto& t : file.tensors()) {
    ASSERT_TRUE(t.name.ends_with(".weight")) << t.name << " is no weight: a part was not joined";
    if (!t.name.starts_with("want.")) {
      scaled += t.scaled != nullptr;
      continue;
    }
    const auto* ours = file.find(t.name.substr(5));
    ASSERT_NE(ours, nullptr) << t.name;
    EXPECT_EQ(ours->shape, t.shape) << t.name;
    EXPECT_TRUE(at::equal(as_tensor(file, *ours).to(at::kFloat), as_tensor(file, t))) << t.name;
    ++compared;
  }
  EXPECT_EQ(compared, 10U);
  EXPECT_EQ(scaled, 9U);
}

class EightBitsFiles : public testing::Test {
 protected:
  EightBitsFiles() : folder_(fs::temp_directory_path() / ("kinora-eight-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~EightBitsFiles() override { fs::remove_all(folder_); }
  std::string opened(const NamedTensors& tensors, const SafeMetadata& metadata = {}) {
    write_tensors(folder_ / "w.safetensors", tensors, metadata);
    const auto file = Safetensors::open(folder_ / "w.safetensors");
    if (!file) return file.failure().message;
    try {
      tensors_of(*file);
    } catch (const Error& e) {
      return e.what();
    }
    return "read";
  }
  fs::path folder_;
};

at::Tensor bytes_of(const std::string& text) {
  at::Tensor out = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), out.data_ptr<uint8_t>());
  return out;
}

TEST_F(EightBitsFiles, ThatAreNotUnderstoodAreRefusedInWords) {
  const at::Tensor codes = at::ones({8, 8}).to(at::kFloat8_e4m3fn), one = at::ones({1});
  EXPECT_EQ(opened({{"a.weight", codes}, {"a.weight_scale", one}}), "read");
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", at::ones({3})}}),
              HasSubstr("'a.weight_scale' F32 [3] does not fit 'a.weight'"));
  EXPECT_THAT(opened({{"a.weight", at::ones({8, 4}).to(at::kByte)}, {"a.weight_scale", codes}}),
              HasSubstr("scales belong to F8_E4M3"));
  EXPECT_THAT(opened({{"a.weight", at::ones({8, 8})}, {"a.scale_weight", one}}),
              HasSubstr("is the scale of 'a.weight' F32"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", at::tensor({NAN})}}),
              HasSubstr("negative or not finite"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", -one}}), HasSubstr("negative or not finite"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", one}, {"a.scale_weight", one}}),
              HasSubstr("two scales"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", one}, {"a.weight_zero_point", one}}),
              HasSubstr("zero point"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", one}, {"a.pre_quant_scale", at::ones({8})}}),
              HasSubstr("input channels"));
  EXPECT_THAT(opened({{"a.weight", codes}, {"a.comfy_quant", bytes_of(R"({"format": "float8_e4m3fn"})")}}),
              HasSubstr("there is none"));
  for (const char* format :
       {R"({"format": "nvfp4"})", R"({"format": "int8_tensorwise", "convrot": true})", "[", "3"})
    EXPECT_THAT(opened({{"a.weight", codes}, {"a.weight_scale", one}, {"a.comfy_quant", bytes_of(format)}}),
                HasSubstr("which is not read"))
        << format;
  EXPECT_THAT(opened({{"a.weight", codes}},
                     {{"_quantization_metadata", R"({"layers": {"a": {"format": "mxfp8"}}})"}}),
              HasSubstr("format 'mxfp8', which is not read"));
}

// 192 rows under 2 scales are 2 x 96 or 128 + 64.
TEST_F(EightBitsFiles, TakeTheSizeOfBlocksFromTheConfiguration) {
  const at::Tensor codes = at::ones({192, 128}).to(at::kFloat8_e4m3fn),
                   scale = at::tensor({2.F, 3.F}).reshape({2, 1});
  const NamedTensors tensors{{"a.weight", codes}, {"a.weight_scale_inv", scale}};
  EXPECT_THAT(opened(tensors), HasSubstr("weight_block_size"));
  for (const int64_t rows : {96, 128}) {
    std::ofstream(folder_ / "config.json")
        << R"({"quantization_config": {"weight_block_size": [)" << rows << ", 128]}}";
    ASSERT_EQ(opened(tensors), "read");
    const at::Tensor got = read_tensors(folder_ / "w.safetensors").at("a.weight");
    EXPECT_EQ(got.narrow(0, 0, rows).eq(2).all().item<bool>(), true);
    EXPECT_EQ(got.narrow(0, rows, 192 - rows).eq(3).all().item<bool>(), true);
  }
}

// A parameter that is called like a scale stays one.
TEST_F(EightBitsFiles, LeaveOtherTensorsAlone) {
  ASSERT_EQ(opened({{"logit_scale", at::ones({1})},
                    {"norm", at::ones({3})},
                    {"norm_scale", at::ones({3})},
                    {"b", at::ones({2}).to(at::kFloat8_e5m2)}}),
            "read");
  const auto tensors = read_tensors(folder_ / "w.safetensors");
  EXPECT_EQ(tensors.size(), 4U);
  EXPECT_EQ(tensors.at("b").scalar_type(), at::kFloat8_e5m2);
}

}  // namespace
}  // namespace kinora::core
