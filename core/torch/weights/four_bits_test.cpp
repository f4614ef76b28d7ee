// Matrices in four bits as parameters: decoded into what this process holds, one at a time, and only if their
// values are needed. Their numbers are compared in tests/oracle/packed_oracle.py.
#include "core/torch/weights/four_bits.hpp"

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/weights/safe_tensors.hpp"
#include "core/torch/weights/weights.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using testing::HasSubstr;

const std::filesystem::path kFolder = std::filesystem::path(KINORA_TEST_DATA) / "oracle";
constexpr const char* kFiles[] = {"nvfp4_compressed_tensors.safetensors", "nvfp4_longlive.safetensors",
                                  "nvfp4_longlive_2d.safetensors", "nvfp4_fouroversix.safetensors"};
constexpr const char* kModules[] = {"blocks.0.q", "blocks.1.ffn.0"};

Parameter column(const std::string& name, std::vector<int64_t> shape, int64_t shard, int64_t shards) {
  Parameter p;
  p.name = name;
  p.parts = {shape[0]};
  p.shape = std::move(shape);
  p.role = KINORA_ROLE_COLUMN;
  p.shard = shard;
  p.shards = shards;
  return p;
}

// Parameters of the file's two matrices, of which this process holds one half of the rows.
struct Half {
  Parameters parameters;
  std::vector<Leaf> leaves;
  Half(int64_t shard, at::ScalarType dtype) {
    for (const char* module : kModules) {
      const auto shape = module == kModules[0] ? std::vector<int64_t>{24, 48} : std::vector<int64_t>{130, 80};
      parameters.push_back(column(std::string(module) + ".weight", shape, shard, 2));
      const auto id = static_cast<kinora_param>(parameters.size());
      const auto local = at::zeros(parameters.back().local_shape(), dtype);
      leaves.push_back({parameters.back().name, local, false, false, {{id, 0, local.numel(), 0}}});
    }
  }
};

Find from(const Safetensors& file, const std::function<void(const at::Tensor&)>& decoded = {}) {
  return [&file, decoded](const std::string& name) {
    const auto* t = file.find(name);
    if (!t) return Found();
    return Found(t->shape, torch_dtype(t->dtype), [&file, t, decoded] {
      at::Tensor out = as_tensor(file, *t);
      if (decoded) decoded(out);
      return out;
    });
  };
}

TEST(FourBits, AreWhatTheirAuthorsDecodeInTheDtypeAndPartThatIsHeld) {
  for (const char* name : kFiles) {
    const auto file = or_throw(Safetensors::open(kFolder / name));
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const int64_t shard : {0, 1}) {
        Half half(shard, dtype);
        load_values(half.parameters, half.leaves, file.names(), from(file),
                    {.may_ignore = [](const std::string&) { return true; }});
        for (size_t i = 0; i < 2; ++i) {
          const std::string want = (dtype == at::kBFloat16 ? "want16." : "want.") + std::string(kModules[i]);
          const at::Tensor whole = as_tensor(file, *file.find(want));
          EXPECT_TRUE(at::equal(half.leaves[i].tensor, slice(half.parameters[i], whole).to(dtype)))
              << name << ' ' << kModules[i] << ' ' << c10::toString(dtype);
        }
      }
  }
}

TEST(FourBits, OneDecodedMatrixAtATimeIsInMemory) {
  const auto file = or_throw(Safetensors::open(kFolder / kFiles[1]));
  Half half(0, at::kFloat);
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> earlier;
  const auto decoded = [&](const at::Tensor& t) {
    for (const auto& e : earlier) EXPECT_TRUE(e.expired());
    earlier.emplace_back(t.getIntrusivePtr());
  };
  load_values(half.parameters, half.leaves, file.names(), from(file, decoded),
              {.may_ignore = [](const std::string&) { return true; }});
  EXPECT_EQ(earlier.size(), 2U);
}

TEST(FourBits, AreNotDecodedForAComparison) {
  const auto file = or_throw(Safetensors::open(kFolder / kFiles[0]));
  Half half(0, at::kFloat);
  int64_t count = 0;
  const auto counting = from(file, [&](const at::Tensor&) { ++count; });
  load_values(half.parameters, half.leaves, file.names(), counting,
              {.compare_only = true, .may_ignore = [](const std::string&) { return true; }});
  EXPECT_EQ(count, 0);
  half.parameters[0].shape = {24, 64};
  EXPECT_THAT(test::refusal([&] {
                load_values(half.parameters, half.leaves, file.names(), counting,
                            {.may_ignore = [](const std::string&) { return true; }});
              }),
              HasSubstr("'blocks.0.q.weight' is [24, 48] in the file and [24, 64] in the model"));
  EXPECT_EQ(count, 0);
}

// E4M3 is a dtype of its own in a file: weights cast to it are read as they are.
TEST(FourBits, E4m3IsADtypeOfFiles) {
  const auto path =
      std::filesystem::temp_directory_path() / ("kinora-e4m3-" + std::to_string(getpid()) + ".safetensors");
  const at::Tensor x = at::tensor({0.5F, -448.0F, 0.001953125F}).to(at::kFloat8_e4m3fn);
  write_tensors(path, {{"x", x}});
  const at::Tensor back = read_tensors(path).at("x");
  EXPECT_EQ(back.scalar_type(), at::kFloat8_e4m3fn);
  EXPECT_TRUE(at::equal(back.to(at::kFloat), at::tensor({0.5F, -448.0F, 0.001953125F})));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace kinora::core
