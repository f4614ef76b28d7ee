// Recognises published files by names and shapes made by rule: 30 blocks of ten matrices, as their trainers save them.
#include "plugins/jobs/published/checkpoint_facts.hpp"

#include <cstring>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/weights/packed_matrix.hpp"
#include "tests/support/oracle_folders.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Tensors = std::vector<SafeTensor>;

constexpr const char* kMatrices[] = {"self_attn.q",  "self_attn.k",  "self_attn.v",  "self_attn.o",
                                     "cross_attn.q", "cross_attn.k", "cross_attn.v", "cross_attn.o",
                                     "ffn.0",        "ffn.2"};

void add(Tensors& to, const std::string& name, std::vector<int64_t> shape) {
  to.push_back({name, SafeDtype::bf16, std::move(shape), {}});
}

// Wan's blocks under a prefix; inner: what is between "blocks.N." and a module's name.
Tensors wan(const std::string& prefix, int64_t width, int64_t channels, const std::string& inner = "") {
  Tensors out;
  add(out, prefix + "patch_embedding.weight", {width, channels, 1, 2, 2});
  for (int block = 0; block < 30; ++block)
    for (const char* matrix : kMatrices)
      add(out, prefix + "blocks." + std::to_string(block) + "." + inner + matrix + ".weight", {width, width});
  return out;
}

Tensors lora(const std::string& prefix, int64_t width, int64_t rank) {
  Tensors out;
  for (int block = 0; block < 30; ++block)
    for (const char* matrix : kMatrices) {
      const std::string module = prefix + "blocks." + std::to_string(block) + "." + matrix;
      add(out, module + ".lora_A.weight", {rank, width});
      add(out, module + ".lora_B.weight", {width, rank});
    }
  return out;
}

json facts(const Tensors& tensors, const SafeMetadata& metadata = {}) {
  return checkpoint_facts(tensors, metadata, "/no such folder");
}

TEST(CheckpointFacts, TellFamilySizeAndNamesOfWholeGenerators) {
  const std::string fsdp = "_fsdp_wrapped_module.";
  for (const auto& [prefix, inner, holds] :
       {std::tuple{std::string("model."), std::string(), json::array()},
        {"generator.model.", "", json::array({"generator"})},
        {"generator_ema.model." + fsdp, fsdp, json::array({"generator_ema"})}}) {
    const json small = facts(wan(prefix, 1536, 16, inner)), large = facts(wan(prefix, 3072, 48, inner));
    EXPECT_EQ(small["kind"], "weights");
    EXPECT_EQ(small["size"], "1.3B") << prefix;
    EXPECT_EQ(small["family"], "Self-Forcing or LongLive 1");
    EXPECT_EQ(small["names"], holds.empty()                 ? "longlive"
                              : holds[0] == "generator_ema" ? "self-forcing-ema"
                                                            : "self-forcing");
    EXPECT_EQ(small["holds"], holds);
    EXPECT_EQ(small["blocks"], 30);
    EXPECT_TRUE(small["chunk"].is_null() && small["steps"].is_null()) << "the file does not say them";
    EXPECT_EQ(large["size"], "5B");
    EXPECT_EQ(large["family"], "LongLive 2.0");
    EXPECT_THAT(checkpoint_text(large),
                AllOf(HasSubstr("size 5B, 30 blocks"), HasSubstr("chunks of 8 frames")));
  }
  EXPECT_EQ(facts(wan("", 1536, 16))["family"], "Wan");
  EXPECT_EQ(facts(wan("", 1536, 16))["names"], "original");
  EXPECT_EQ(facts(wan("model.diffusion_model.", 640, 16))["size"], "");
}

TEST(CheckpointFacts, TellRankAndAlphaOfAdapters) {
  Tensors both = lora("generator_lora.base_model.model.", 1536, 256);
  json found = facts(both);
  EXPECT_EQ(found["kind"], "adapter");
  EXPECT_EQ(found["family"], "LongLive 1");
  EXPECT_EQ(found["modules"], 300);
  EXPECT_EQ(found["rank"], 256);
  EXPECT_TRUE(found["alpha"].is_null());
  EXPECT_THAT(checkpoint_text(found), HasSubstr("300 modules of rank 256, alpha not in the file"));
  for (const auto& t : lora("critic_lora.base_model.model.", 1536, 256)) both.push_back(t);
  found = facts(both);
  EXPECT_EQ(found["holds"], json::array({"critic_lora", "generator_lora"}));
  const float alpha = 64;
  Tensors own = lora("base_model.model.", 3072, 128);
  own.push_back(
      {"base_model.model.blocks.0.ffn.0.alpha", SafeDtype::f32, {}, std::as_bytes(std::span(&alpha, 1))});
  found = facts(own);
  EXPECT_EQ(found["size"], "5B");
  EXPECT_EQ(found["alpha"], 64);
}

TEST(CheckpointFacts, TellWhatTheMetadataNotesAndFourBits) {
  Tensors four = wan("model.", 3072, 48);
  for (size_t i = 1; i < four.size(); ++i) four[i].packed = std::make_shared<const PackedMatrix>();
  const json found = facts(four, {{"checkpoint_format", "longlive_generator_nvfp4"},
                                  {"num_frame_per_block", "8"},
                                  {"independent_first_frame", "true"},
                                  {"denoising_step_list", "[1000, 500]"},
                                  {"step", "700"}});
  EXPECT_EQ(found["four_bits"], 300);
  EXPECT_EQ(found["chunk"], 8);
  EXPECT_EQ(found["first_chunk"], 1);
  EXPECT_TRUE(facts(four, {{"independent_first_frame", "false"}})["first_chunk"].is_null());
  EXPECT_EQ(found["steps"], json::array({1000, 500}));
  EXPECT_THAT(checkpoint_text(found), AllOf(HasSubstr("300 matrices in four bits"), HasSubstr("chunk 8"),
                                            HasSubstr("first_chunk 1"), HasSubstr("saved at step 700")));
}

TEST(CheckpointFacts, NameWhatIsNotRead) {
  Tensors te = wan("model.", 3072, 48);
  add(te, "model.blocks.0.self_attn.q.linear._extra_state", {8});
  EXPECT_THAT(facts(te)["problem"].get<std::string>(),
              AllOf(HasSubstr("'model.blocks.0.self_attn.q.linear._extra_state'"), HasSubstr("fouroversix")));
  Tensors other;
  EXPECT_TRUE(facts(other).is_null());
  add(other, "encoder.conv1.weight", {8, 3, 3, 3, 3});
  EXPECT_TRUE(facts(other).is_null());
}

class Pickles : public test::OracleFolders {};
TEST_F(Pickles, ComeWithTheCommandThatConvertsThem) {
  const auto file = scratch_ / "self_forcing_dmd.pt";
  EXPECT_FALSE(is_pickle(file)) << "it does not exist";
  std::ofstream(file) << "x";
  EXPECT_TRUE(is_pickle(file));
  EXPECT_THAT(pickle_advice(file), AllOf(HasSubstr("weights_only=True"), HasSubstr("'generator_ema'"),
                                         HasSubstr("quantization_config"), HasSubstr("self_forcing_dmd.pt")));
}

}  // namespace
}  // namespace kinora::core
