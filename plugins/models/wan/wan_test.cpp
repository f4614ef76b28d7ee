// model/wan against diffusers' WanTransformer3DModel, the published sizes, and invariants of a model
// in any chain.
#include <cinttypes>
#include <fstream>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/weights/lora_names.hpp"
#include "kinora/abi/model.h"
#include "kinora/link.hpp"
#include "plugins/models/wan/config.hpp"
#include "tests/support/oracle.hpp"
#include "tests/support/refusal.hpp"
#include "tests/support/worst.hpp"

namespace kinora {
namespace {

using at::Tensor;
using test::Shuffled;
constexpr const char* kFile = "wan.safetensors";

struct Wan : test::OnChain<kinora_model> {
  explicit Wan(const core::json& options, at::ScalarType dtype = at::kDouble,
               std::vector<const kinora_link*> links = {})
      : OnChain("model/wan", options, dtype, std::move(links)) {
    fill();
  }
  Tensor operator()(const core::NamedTensors& in) { return forward(in)[0]; }
};

class WanModel : public ::testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  at::ScalarType dtype() const { return std::get<1>(GetParam()); }
  double bound() const { return dtype() == at::kDouble ? 1e-12 : 1e-5; }
  core::NamedTensors inputs() const {
    core::NamedTensors in;
    for (const auto& [name, shape] : oracle.options["shapes"].items()) {
      in[name] =
          test::numbers(std::string(std::get<0>(GetParam())) + "." + name, shape.get<std::vector<int64_t>>())
              .to(dtype());
      if (name != "timestep") in[name].requires_grad_();
    }
    in["timestep"] = 500 + 280 * in["timestep"].to(at::kDouble);
    return in;
  }
  test::Oracle oracle{kFile, std::get<0>(GetParam())};
};

TEST_P(WanModel, EqualsDiffusersForwardAndBackward) {
  Shuffled together(false), apart(true);
  const test::Recompute recompute;
  double worst = 0;
  for (const auto& links : {std::vector<const kinora_link*>{},
                            {together.get()},
                            {apart.get()},
                            {recompute.get(), together.get()}}) {
    Wan wan(oracle.options["options"], dtype(), links);
    const auto in = inputs();
    const Tensor output = wan(in);
    const auto compare = [&](const Tensor& found, const std::string& name) {
      const double apart_by = test::difference(found, oracle.exact(name));
      EXPECT_LT(apart_by, bound()) << name;
      worst = test::worse(worst, apart_by);
    };
    compare(output, "output");
    output.backward(
        test::numbers(std::string(std::get<0>(GetParam())) + ".grad_output", output.sizes()).to(dtype()));
    for (const auto& [name, t] : in)
      if (t.requires_grad()) compare(t.grad(), "grad." + name);
    const auto wanted = oracle.under("grad.param.");
    size_t compared = 0;
    for (const auto& leaf : wan.chain().leaves()) {
      ASSERT_TRUE(leaf.tensor.grad().defined()) << leaf.name;
      if (!wanted.count(leaf.name)) continue;
      compare(leaf.tensor.grad(), "grad.param." + leaf.name);
      ++compared;
    }
    EXPECT_EQ(compared, wanted.size());
  }
  RecordProperty("worst", std::to_string(std::log10(worst)));
  std::printf("          worst relative difference %.2g\n", worst);
}

INSTANTIATE_TEST_SUITE_P(Cases, WanModel,
                         ::testing::Combine(::testing::Values("t2v", "ti2v", "frames", "i2v", "flf2v",
                                                              "image_as_text"),
                                            ::testing::Values(at::kDouble, at::kFloat)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  c10::toString(std::get<1>(info.param));
                         });

// A chain before ready(): parameters are declared, not stored.
struct Declared {
  explicit Declared(const core::json& options)
      : chain((test::plugins(), core::ChainOptions{})), model("model/wan", options, chain.head()) {}
  core::Chain chain;
  test::Instance<kinora_model> model;
};

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(WanSize, HasThePublishedNamesShapesAndCountsWithoutStorage) {
  for (const char* size : {"1.3B", "5B", "14B", "I2V-14B"}) {
    const test::Oracle oracle(kFile, size);
    const int64_t before = resident_bytes();
    const Declared wan(core::json{{"size", size}});
    EXPECT_LT(resident_bytes() - before, 64 << 20) << size;
    int64_t numel = 0;
    std::map<std::string, std::string> lines;
    for (const auto& p : wan.chain.parameters()) {
      numel += p.numel();
      lines[p.name] = c10::str(p.name, " ", at::IntArrayRef(p.shape), "\n");
    }
    uint64_t h = 0xCBF29CE484222325u;
    for (const auto& [name, line] : lines)
      for (const char c : line) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    char hash[17];
    std::snprintf(hash, sizeof hash, "%016" PRIx64, h);
    EXPECT_EQ(numel, oracle.options["numbers"].get<int64_t>()) << size;
    EXPECT_EQ(lines.size(), oracle.options["tensors"].get<size_t>()) << size;
    EXPECT_EQ(hash, oracle.options["hash"].get<std::string>()) << size;
  }
}

TEST(WanSize, LeavesWhatIsGivenBesideIt) {
  const auto shapes = [](const core::json& options) {
    const Declared wan(options);
    std::map<std::string, std::vector<int64_t>> out;
    for (const auto& p : wan.chain.parameters()) out[p.name] = p.shape;
    return out;
  };
  EXPECT_EQ(shapes({{"size", "1.3B"}, {"num_layers", 2}, {"ffn_dim", 64}, {"in_channels", 33}}),
            shapes({{"num_attention_heads", 12}, {"num_layers", 2}, {"ffn_dim", 64}, {"in_channels", 33}}));
}

TEST(WanNames, OfAWholeCheckpointBecomeDiffusers) {
  const test::Oracle pairs(kFile, "names");
  ASSERT_GT(pairs.options.size(), 60u);
  std::set<std::string> found;
  for (const auto& [original, wanted] : pairs.options.items()) {
    EXPECT_EQ(wan::diffusers_name(original), wanted.get<std::string>());
    EXPECT_EQ(wan::name_of_comfyui("model.diffusion_model." + original), wanted.get<std::string>());
    EXPECT_EQ(wan::name_of_comfyui(original), "");
    EXPECT_EQ(wan::original_name(wanted), original);
    EXPECT_EQ(wan::comfyui_name(wanted), "model.diffusion_model." + original);
    EXPECT_EQ(wan::name_of_longlive("model." + original), wanted.get<std::string>());
    EXPECT_EQ(wan::longlive_name(wanted), "model." + original);
    const bool any_block = original.rfind("blocks.1.", 0) == 0;
    for (int i = 0; i < (any_block ? 40 : 1); ++i)
      found.insert(
          wan::diffusers_name(any_block ? "blocks." + std::to_string(i) + original.substr(8) : original));
  }
  const Declared wan(core::json{{"size", "I2V-14B"}, {"pos_embed_seq_len", 514}});
  std::set<std::string> declared;
  for (const auto& p : wan.chain.parameters()) declared.insert(p.name);
  EXPECT_EQ(found, declared);
  for (const char* none :
       {"", "blocks", "blocks.", "blocks.3", "blocks.x.norm2.weight", "head", "vae.head.x"}) {
    EXPECT_EQ(wan::diffusers_name(none), none);
    EXPECT_EQ(wan::original_name(none), none);
  }
  EXPECT_EQ(wan::diffusers_name("blocks.0.attn1.q.weight"), "blocks.0.attn1.q.weight");
}

// Names by rule, as the trainers of Self-Forcing and LongLive save them, joined by dots.
TEST(WanNames, OfTrainersCheckpointsAreTheGeneratorOrItsAverage) {
  const test::Oracle pairs(kFile, "names");
  for (const auto& [original, wanted] : pairs.options.items()) {
    const std::string fsdp = "_fsdp_wrapped_module.", name = wanted.get<std::string>();
    std::string deep = original;
    if (deep.starts_with("blocks.1."))
      deep = "blocks.1." + fsdp + "_checkpoint_wrapped_module." + deep.substr(9);
    for (const std::string& given :
         {"model." + original, "generator.model." + original, "model.model." + original,
          "model." + fsdp + deep, "generator." + fsdp + "model." + fsdp + deep}) {
      EXPECT_EQ(wan::name_of_generator(given), name) << given;
      EXPECT_EQ(wan::name_of_generator_ema(given), "") << given;
    }
    for (const std::string& given :
         {"generator_ema.model." + original, "generator_ema.model." + fsdp + deep}) {
      EXPECT_EQ(wan::name_of_generator_ema(given), name) << given;
      EXPECT_EQ(wan::name_of_generator(given), "") << given;
    }
    for (const std::string& other :
         {original, "critic.model." + original, "generator_optimizer.state." + original}) {
      EXPECT_EQ(wan::name_of_generator(other), "") << other;
      EXPECT_EQ(wan::name_of_generator_ema(other), "") << other;
    }
  }
}

// PEFT on every linear layer of LongLive's blocks: ten a block.
TEST(WanNames, OfLongLivesAdaptersAreParameters) {
  const Declared model(core::json{{"size", "1.3B"}});
  std::set<std::string> declared;
  for (const auto& p : model.chain.parameters()) declared.insert(p.name);
  for (const std::string prefix : {"generator_lora.base_model.model.", "base_model.model."}) {
    std::vector<std::string> names;
    for (int block = 0; block < 30; ++block)
      for (const char* module : {"self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "cross_attn.q",
                                 "cross_attn.k", "cross_attn.v", "cross_attn.o", "ffn.0", "ffn.2"}) {
        const auto name =
            core::lora_name(prefix + "blocks." + std::to_string(block) + "." + module + ".lora_A.weight");
        ASSERT_TRUE(name) << module;
        EXPECT_EQ(name->network, "");
        names.push_back(name->parameter());
      }
    std::set<std::string> found;
    for (const auto& [theirs, ours] : core::our_names(names, {wan::original_name}, declared)) {
      EXPECT_TRUE(declared.count(ours)) << theirs;
      found.insert(ours);
    }
    EXPECT_EQ(found.size(), 300u);
  }
  const auto critic = core::lora_name("critic_lora.base_model.model.blocks.0.ffn.0.lora_B.weight");
  ASSERT_TRUE(critic);
  EXPECT_EQ(critic->network, "critic");
}

const core::json kSmall = {{"num_attention_heads", 2},
                           {"attention_head_dim", 12},
                           {"in_channels", 4},
                           {"out_channels", 4},
                           {"text_dim", 5},
                           {"freq_dim", 8},
                           {"ffn_dim", 12},
                           {"num_layers", 2}};

core::NamedTensors small(int64_t B = 2) {
  return {{"latent", test::numbers("latent", {B, 4, 3, 4, 6})},
          {"timestep", 500 + 280 * test::numbers("timestep", {B})},
          {"text", test::numbers("text", {B, 6, 5})}};
}

TEST(WanText, BehindItsMaskIsAsIfItWereNotThere) {
  Wan wan(kSmall);
  auto masked = small(), cut = small();
  masked["text_mask"] = at::ones({2, 6}, at::kBool);
  masked["text_mask"].narrow(1, 4, 2).fill_(false);
  cut["text"] = cut["text"].narrow(1, 0, 4);
  EXPECT_LT(test::difference(wan(masked), wan(cut)), 1e-14);
  EXPECT_GT(test::difference(wan(small()), wan(cut)), 1e-3) << "without a mask, all of it is seen";
}

TEST(WanText, ThatIsAbsentIsATextOfZeros) {
  Wan wan(kSmall);
  auto zero = small(), absent = small();
  zero["text"] = at::zeros_like(zero["text"]);
  absent.erase("text");
  EXPECT_LT(test::difference(wan(absent), wan(zero)), 1e-14);
}

// Later frames of a stream: conditioning depends on the frame's index in this forward, RoPE on its time.
TEST(WanTimestep, GoesByThePlaceInThisForward) {
  Wan wan(kSmall);
  auto in = small();
  const Tensor plain = wan(in);
  core::Frames later;
  later.start = 5;
  wan.chain().set_frames(later);
  in["timestep"] = in["timestep"].unsqueeze(1).expand({2, 18}).contiguous();
  EXPECT_LT(test::difference(wan(in), plain), 1e-12) << "only distances of positions count";
}

TEST(WanPositions, GoBeyondTheTableOfDiffusers) {
  auto options = kSmall;
  options["rope_max_seq_len"] = 1;
  EXPECT_EQ(test::difference(Wan(options)(small()), Wan(kSmall)(small())), 0);
}

// Counts sums that tensor parallelism would have to make.
class Totals final : public Link<Tensor> {
 public:
  Totals() : Link(KINORA_LEVEL_TENSOR) {}
  Tensor all_reduce(const Tensor& x) override {
    ++count;
    EXPECT_EQ(x.size(-1), 1);
    return next.all_reduce(x);
  }
  int count = 0;
};

TEST(WanNorm, OfQueriesAndKeysAsksForTheSumOverAllHeads) {
  Totals totals;
  Wan wan(kSmall, at::kDouble, {totals.get()});
  wan(small());
  EXPECT_EQ(totals.count, 2 * 4) << "queries and keys, of two attentions a layer";
  for (const auto& p : wan.chain().parameters()) {
    const auto has = [&](const char* part) { return p.name.find(part) != std::string::npos; };
    if (has("norm_q") || has("norm_k") || has("to_q") || has("to_k") || has("to_v")) {
      EXPECT_EQ(p.role, KINORA_ROLE_COLUMN) << p.name;
      EXPECT_EQ(p.quantum, 12) << p.name;
    }
    if (has("to_out.0.weight") || has("net.2.weight")) {
      EXPECT_EQ(p.role, KINORA_ROLE_ROW) << p.name;
    }
    if (has("to_out.0.bias") || has("net.2.bias")) {
      EXPECT_EQ(p.role, KINORA_ROLE_WHOLE) << p.name;
    }
  }
}

TEST(WanInputs, ThatDoNotFitAreRefused) {
  using ::testing::HasSubstr;
  Wan wan(kSmall);
  const auto with = [&](const char* name, at::IntArrayRef shape) {
    auto in = small();
    in[name] = at::zeros(shape, at::kDouble);
    return test::refusal([&] { wan(in); });
  };
  EXPECT_THAT(with("latent", {2, 3, 3, 4, 6}), HasSubstr("have 3 channels, in_channels is 4"));
  EXPECT_THAT(with("latent", {2, 4, 3, 5, 6}),
              HasSubstr("3 x 5 x 6 does not divide into patches of 1 x 2 x 2"));
  EXPECT_THAT(with("timestep", {2, 2}), HasSubstr("[2, 2], needed is [2] or [2, 3] or [2, 18]"));
  EXPECT_THAT(with("text", {2, 5, 9}), HasSubstr("text has shape [2, 5, 9], needed is [2, L, 5]"));
  EXPECT_THAT(with("text_mask", {2, 5}), HasSubstr("text_mask has shape [2, 5], text [2, 6, 5]"));
  EXPECT_THAT(with("image", {2, 5, 9}), HasSubstr("image_dim is 0"));
  auto options = kSmall;
  options.update({{"image_dim", 4}, {"added_kv_proj_dim", 24}, {"pos_embed_seq_len", 6}});
  Wan i2v(options);
  auto in = small();
  EXPECT_THAT(test::refusal([&] { i2v(in); }), HasSubstr("input 'image' is missing"));
  in["image"] = at::zeros({2, 5, 4}, at::kDouble);
  EXPECT_THAT(test::refusal([&] { i2v(in); }), HasSubstr("image has shape [2, 5, 4], needed is [2, 6, 4]"));
}

TEST(WanOptions, ThatContradictEachOtherAreRefused) {
  using ::testing::HasSubstr;
  const auto with = [](const core::json& options) { return test::refusal([&] { Declared made(options); }); };
  EXPECT_THAT(with({{"attention_head_dim", 13}}), HasSubstr("attention_head_dim = 13 is odd"));
  EXPECT_THAT(with({{"patch_size", {1, 2}}}), HasSubstr("patch_size needs three numbers"));
  EXPECT_THAT(with({{"image_dim", 4}, {"added_kv_proj_dim", 7}}), HasSubstr("is not the width"));
  EXPECT_THAT(with({{"pos_embed_seq_len", 7}}), HasSubstr("set image_dim"));
}

}  // namespace
}  // namespace kinora
