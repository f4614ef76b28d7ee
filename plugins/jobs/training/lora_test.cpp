// LoRA against PEFT on diffusers' transformer: outputs, gradients, files, and the same numbers when merged.
#include "core/torch/weights/lora.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.hpp"
#include "core/torch/apply/tools.hpp"
#include "core/torch/chain/lora_link.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/weights/published.hpp"
#include "plugins/jobs/training/optimizer_testing.hpp"
#include "tests/support/oracle.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using at::Tensor;
using testing::HasSubstr;
constexpr const char* kFile = "peft_dit.safetensors";

fs::path adapter_of(const std::string& name) {
  return fs::path(KINORA_TEST_DATA) / "oracle" / ("peft_dit_" + name);
}

// model/cosmos with the oracle's weights, and an adapter if `lora` is set.
struct Adapted {
  Component component = or_throw(test::plugins().open("model/cosmos"));
  Options options;
  std::unique_ptr<Model> network;
  explicit Adapted(const json& given, std::optional<LoraOptions> lora = {},
                   at::ScalarType dtype = at::kDouble, std::vector<const kinora_link*> links = {})
      : options(or_throw(Options::make(*component.spec, given))) {
    ChainOptions chain;
    chain.dtype = dtype;
    chain.lora = std::move(lora);
    network = std::make_unique<Model>(component, options, chain, std::move(links));
    LoadOptions how;
    how.may_miss = is_lora;
    load_values(network->chain().parameters(), network->chain().leaves(), base(), how);
  }
  NamedTensors base() const {
    NamedTensors out;
    for (const auto& p : network->chain().parameters())
      if (!is_lora(p.name)) out[p.name] = test::oracle_weight(p.name, p.shape);
    return out;
  }
  // The oracle's inputs; `latent` takes a gradient.
  Tensor operator()(Tensor& latent, at::ScalarType dtype = at::kDouble) {
    latent = test::numbers("latent", {2, 3, 2, 4, 6}).to(dtype).set_requires_grad(true);
    return network->forward({{"latent", latent},
                             {"text", test::numbers("text", {2, 5, 10}).to(dtype)},
                             {"timestep", at::tensor({0.25, -1.0}, at::kDouble).to(dtype)}})[0];
  }
  std::map<std::string, Leaf*> leaves() {
    std::map<std::string, Leaf*> out;
    for (auto& l : network->chain().leaves()) out[l.name] = &l;
    return out;
  }
};

class Peft : public testing::TestWithParam<std::tuple<const char*, at::ScalarType, bool>> {};

TEST_P(Peft, HasTheSameOutputAndGradients) {
  const auto [name, dtype, again] = GetParam();
  const test::Oracle oracle(kFile, name);
  const test::Recompute recompute;
  Adapted model(oracle.options, parse_lora(adapter_of(name)), dtype,
                again ? std::vector{recompute.get()} : std::vector<const kinora_link*>{});
  model.network->load_adapter(adapter_of(name));
  Tensor latent;
  const Tensor output = model(latent, dtype);
  const double bound = dtype == at::kDouble ? 1e-12 : 1e-5;
  EXPECT_LE(test::difference(output, oracle.exact("output")), bound);
  output.backward(test::numbers("grad_output", output.sizes()).to(dtype));
  EXPECT_LE(test::difference(latent.grad(), oracle.exact("grad.latent")), bound);
  size_t compared = 0;
  for (const auto& [parameter, leaf] : model.leaves()) {
    EXPECT_EQ(leaf->frozen, !is_lora(parameter)) << parameter;
    EXPECT_EQ(leaf->tensor.grad().defined(), is_lora(parameter)) << parameter;
    if (!is_lora(parameter)) continue;
    ++compared;
    EXPECT_LE(test::difference(leaf->tensor.grad(), oracle.exact("grad.param." + parameter)), bound)
        << parameter;
  }
  EXPECT_EQ(compared, oracle.under("grad.param.").size());
}

INSTANTIATE_TEST_SUITE_P(Cases, Peft,
                         testing::Combine(testing::Values("a", "b"), testing::Values(at::kDouble, at::kFloat),
                                          testing::Bool()));

class LoraFiles : public testing::Test {
 protected:
  LoraFiles() : folder_(fs::temp_directory_path() / ("kinora-lora-" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~LoraFiles() override { fs::remove_all(folder_); }
  json convert(const fs::path& in, const fs::path& out, const json& more) {
    json request = {{"in", in.string()}, {"out", out.string()}, {"options", json::object()}};
    request.update(more);
    return convert_weights(nullptr, request);
  }
  fs::path folder_;
};

// c has per-module ranks and scales, which only a merge supports.
TEST_F(LoraFiles, MergedWeightsGiveWhatPeftGives) {
  for (const char* name : {"a", "b", "c"}) {
    const test::Oracle oracle(kFile, name);
    Adapted plain(oracle.options);
    const fs::path base = folder_ / (std::string(name) + ".safetensors"),
                   merged = folder_ / (std::string(name) + "-merged.safetensors"),
                   unmerged = folder_ / (std::string(name) + "-unmerged.safetensors");
    write_tensors(base, plain.base());
    Tensor latent;
    EXPECT_GT(test::difference(plain(latent), oracle.exact("output")), 1e-3) << "the adapter does nothing";
    EXPECT_GT(convert(base, merged, {{"merge", adapter_of(name).string()}})["merged"], 3);
    plain.network->load(merged);
    EXPECT_LE(test::difference(plain(latent), oracle.exact("output")), 1e-12) << name;
    convert(merged, unmerged, {{"unmerge", adapter_of(name).string()}});
    for (const auto& [key, t] : read_tensors(unmerged))
      EXPECT_LE((t - plain.base().at(key)).abs().max().item<double>(), 1e-15) << key;
  }
  EXPECT_THROW(parse_lora(adapter_of("c")), Error);
}

TEST_F(LoraFiles, AreWrittenAsTheyWereRead) {
  const test::Oracle oracle(kFile, "b");
  const LoraOptions options = parse_lora(adapter_of("b"));
  Adapted model(oracle.options, options);
  model.network->load_adapter(adapter_of("b"));
  write_adapter(folder_ / "saved", options, model.network->adapter());
  const Adapter before = read_adapter(adapter_of("b")), after = read_adapter(folder_ / "saved");
  ASSERT_EQ(before.modules.size(), after.modules.size());
  for (const auto& [module, pair] : before.modules) {
    EXPECT_TRUE(at::equal(pair.a, after.modules.at(module).a)) << module;
    EXPECT_TRUE(at::equal(pair.b, after.modules.at(module).b)) << module;
    EXPECT_EQ(pair.scale, after.modules.at(module).scale) << module;
  }
  EXPECT_EQ(after.options.scale(), options.scale());
  std::ifstream config(folder_ / "saved/adapter_config.json");
  const auto written = json::parse(config);
  EXPECT_EQ(written["peft_type"], "LORA");
  EXPECT_EQ(written["r"], 4);
  EXPECT_EQ(written["use_rslora"], true);
}

// The same adapter as kohya and musubi-tuner would write it, with flattened names of NVIDIA's release, is trained on
// and loaded as PEFT's.
TEST_F(LoraFiles, ContinueUnderTheNamesOfOtherPrograms) {
  const test::Oracle oracle(kFile, "a");
  const Adapter adapter = read_adapter(adapter_of("a"));
  const Component component = or_throw(test::plugins().open("model/cosmos"));
  NamedTensors flat;
  for (const auto& [module, pair] : adapter.modules) {
    std::string name = layout_called(component, "predict2", {}).theirs(module).substr(4);  // without "net."
    std::replace(name.begin(), name.end(), '.', '_');
    flat["lora_unet_" + name + ".lora_down.weight"] = pair.a;
    flat["lora_unet_" + name + ".lora_up.weight"] = pair.b;
    flat["lora_unet_" + name + ".alpha"] = at::tensor(5.0F);
  }
  ASSERT_EQ(flat.size(), 3 * adapter.modules.size());
  const fs::path file = folder_ / "flat.safetensors";
  write_tensors(file, flat);
  Adapted model(oracle.options, parse_lora(file));
  EXPECT_EQ(model.network->chain().lora()->scale(), 5.0 / 3);
  model.network->load_adapter(file);
  Tensor latent;
  EXPECT_LE(test::difference(model(latent), oracle.exact("output")), 1e-12);
}

TEST_F(LoraFiles, OfOtherKindsAreRefusedInWords) {
  const auto refused = [&](const char* config, const char* tensor) {
    write_tensors(folder_ / "adapter_model.safetensors",
                  {{tensor, at::ones({2, 2})}, {"base_model.model.q.lora_A.weight", at::ones({2, 2})}});
    std::ofstream(folder_ / "adapter_config.json") << config;
    try {
      read_adapter(folder_);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("read");
  };
  constexpr const char* b = "base_model.model.q.lora_B.weight";
  EXPECT_EQ(refused(R"({"r": 2})", b), "read");
  EXPECT_THAT(refused(R"({"peft_type": "LOHA"})", b), HasSubstr("peft_type is LOHA"));
  EXPECT_THAT(refused(R"({"use_dora": true})", b), HasSubstr("use_dora is set"));
  EXPECT_THAT(refused(R"({"bias": "all"})", b), HasSubstr("biases are trained"));
  EXPECT_THAT(refused(R"({"modules_to_save": ["head"]})", b), HasSubstr("modules_to_save is set"));
  EXPECT_THAT(refused(R"({"r": )", b), HasSubstr("adapter_config.json"));
  for (const char* wrong :
       {"[]", R"({"r": "4"})", R"({"r": 0})", R"({"r": -1})", R"({"lora_alpha": null})",
        R"({"lora_dropout": 1})", R"({"lora_dropout": "x"})", R"({"use_rslora": 3})",
        R"({"alpha_pattern": {"q": "x"}})", R"({"alpha_pattern": {"(": 1}})", R"({"lora_alpha": 1e999})"})
    EXPECT_THAT(refused(wrong, b), HasSubstr("adapter_config.json: ")) << wrong;
  const std::string deep = R"({"alpha_pattern": {")" + std::string(100'000, '(') + R"(": 1}})";
  EXPECT_THAT(refused(deep.c_str(), b), HasSubstr("characters; at most 1000 are allowed"));
  EXPECT_THAT(refused("{}", "base_model.model.q.lora_magnitude_vector"),
              HasSubstr("DoRA, as PEFT writes it with use_dora; only plain LoRA is read"));
  EXPECT_THAT(refused("{}", "base_model.model.q.weight"), HasSubstr("is neither MODULE.lora_A.weight"));
  EXPECT_THAT(refused("{}", "base_model.model.k.lora_A.weight"), HasSubstr("has lora_A and no lora_B"));
}

// A header that speaks of another network says nothing of the matrices.
TEST_F(LoraFiles, WhoseHeaderIsOfAnotherNetworkAreReadWithAWarning) {
  const auto said = [&](const std::string& key) {
    const fs::path file = folder_ / "of_header.safetensors";
    write_tensors(file,
                  {{"transformer.q.lora_A.weight", at::ones({2, 2})},
                   {"transformer.q.lora_B.weight", at::ones({2, 2})}},
                  {{"lora_adapter_metadata", json{{key + ".r", 2}, {key + ".lora_alpha", 8}}.dump()}});
    testing::internal::CaptureStderr();
    EXPECT_EQ(read_adapter(file).modules.at("q").scale, key == "unet" ? 1 : 4);
    return testing::internal::GetCapturedStderr();
  };
  ASSERT_TRUE(start_log("info"));
  EXPECT_THAT(said("unet"), HasSubstr("the header has the alpha of unet and none of the transformer"));
  EXPECT_EQ(said("transformer"), "");
}

TEST_F(LoraFiles, AmongWeightsAreMergedByTheCommandThatIsNamed) {
  write_adapter(folder_ / "style", parse_lora("rank=2 targets=q"),
                {{"q", {at::ones({2, 3}), at::ones({3, 2}), 1}}});
  const test::Oracle oracle(kFile, "a");
  Adapted model(oracle.options);
  try {
    model.network->load({"base.safetensors", folder_ / "style"});
    FAIL() << "not refused";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              fmt::format("{0}/style is a LoRA, not weights; merge it: kinora convert base.safetensors "
                          "merged.safetensors --component model/cosmos --merge {0}/style, and give "
                          "merged.safetensors instead",
                          folder_.string()));
  }
}

TEST_F(LoraFiles, KeepDropout) {
  LoraOptions o = parse_lora("rank=2 dropout=0.25 targets=q");
  EXPECT_EQ(o.dropout, 0.25);
  write_adapter(folder_, o, {{"q", {at::ones({2, 3}), at::ones({3, 2}), 1}}});
  EXPECT_EQ(parse_lora(folder_).dropout, 0.25);
}

TEST(Lora, StartsAsTheModelAndOnlyItsMatricesAreTrained) {
  const test::Oracle oracle(kFile, "a");
  Adapted plain(oracle.options),
      adapted(oracle.options, parse_lora("rank=3 alpha=5 targets=to_q,to_v,to_out.0"));
  Tensor latent;
  const Tensor before = plain(latent), output = adapted(latent);
  EXPECT_TRUE(at::equal(before, output));
  output.sum().backward();
  test::AdamW optimizer(adapted.network->chain().parameters(), adapted.network->chain().leaves());
  optimizer.step(0.1);
  const auto base = adapted.base();
  size_t moved = 0;
  for (const auto& [name, leaf] : adapted.leaves()) {
    if (!is_lora(name)) {
      EXPECT_TRUE(at::equal(leaf->tensor, base.at(name))) << name;
    } else if (name.ends_with(lora_b(""))) {  // the gradient of A is 0 while B is
      moved += leaf->tensor.abs().max().item<double>() > 0;
    }
  }
  EXPECT_EQ(moved, 2u * 2 * 3);
  EXPECT_GT(test::difference(adapted(latent), before), 1e-3);
}

TEST(Lora, LeavesOutTheSameInputsInABlockThatRunsAgain) {
  const test::Oracle oracle(kFile, "a");
  const test::Recompute recompute;
  auto lora = parse_lora(adapter_of("a"));
  lora.dropout = 0.3;
  Adapted once(oracle.options, lora), twice(oracle.options, lora, at::kDouble, {recompute.get()});
  Tensor a, b;
  for (Adapted* model : {&once, &twice}) {
    model->network->load_adapter(adapter_of("a"));
    Tensor& latent = model == &once ? a : b;
    const Tensor output = (*model)(latent);
    EXPECT_GT(test::difference(output, oracle.exact("output")), 1e-3) << "nothing was dropped";
    output.square().sum().backward();
  }
  EXPECT_LE(test::difference(b.grad(), a.grad()), 1e-13);
  const auto want = once.leaves();
  for (const auto& [name, leaf] : twice.leaves())
    if (is_lora(name)) {
      EXPECT_LE(test::difference(leaf->tensor.grad(), want.at(name)->tensor.grad()), 1e-13) << name;
    }
}

// The cuts that tensor parallelism receives: A and B are cut like the weight, and their product never needs
// more than the small tensor.
class Specs final : public kinora::Link<Tensor> {
 public:
  Specs() : Link(KINORA_LEVEL_TENSOR) {}
  kinora_param parameter(const kinora_param_spec& s) override {
    roles[s.name] = {s.role, s.quantum, s.block, s.frozen};
    return next.parameter(s);
  }
  struct Role {
    uint32_t role;
    int64_t quantum, block;
    uint32_t frozen;
  };
  std::map<std::string, Role> roles;
};

TEST(Lora, RolesAreThoseOfTheWeight) {
  const test::Oracle oracle(kFile, "a");
  Specs specs;
  Adapted model(oracle.options, parse_lora("rank=2 targets=attn1.to_q,to_out.0,linear_1"), at::kDouble,
                {specs.get()});
  const auto is = [&](const char* name, uint32_t role, int64_t quantum, int64_t block) {
    ASSERT_TRUE(specs.roles.count(name)) << name;
    const auto& r = specs.roles[name];
    EXPECT_EQ(r.role, role) << name;
    EXPECT_EQ(r.quantum, quantum) << name;
    EXPECT_EQ(r.block, block) << name;
    EXPECT_EQ(r.frozen, 0u) << name;
  };
  is("transformer_blocks.0.attn1.to_q.lora_A.weight", KINORA_ROLE_WHOLE, 1, 1);
  is("transformer_blocks.0.attn1.to_q.lora_B.weight", KINORA_ROLE_COLUMN, 12, 1);
  is("transformer_blocks.1.attn2.to_out.0.lora_A.weight", KINORA_ROLE_ROW, 12, 2);
  is("transformer_blocks.1.attn2.to_out.0.lora_B.weight", KINORA_ROLE_WHOLE, 1, 2);
  is("time_embed.t_embedder.linear_1.lora_A.weight", KINORA_ROLE_WHOLE, 1, -1);
  EXPECT_EQ(specs.roles["transformer_blocks.0.attn1.to_q.weight"].frozen, 1u);
  EXPECT_EQ(specs.roles["time_embed.norm.weight"].frozen, 1u);
  EXPECT_FALSE(specs.roles.count("transformer_blocks.0.attn2.to_q.lora_A.weight"));
}

TEST(Lora, OptionsAreReadOrRefused) {
  const auto o = parse_lora("rank=16 targets=to_q,to_k rslora");
  EXPECT_EQ(o.rank, 16);
  EXPECT_EQ(o.scale(), 4);
  EXPECT_TRUE(o.is_target("blocks.0.to_q"));
  EXPECT_TRUE(o.is_target("to_k"));
  EXPECT_FALSE(o.is_target("blocks.0.auto_q"));
  EXPECT_TRUE(parse_lora("pattern=.*attn1\\.to_(q|k)").is_target("blocks.0.attn1.to_k"));
  EXPECT_FALSE(parse_lora("pattern=attn1").is_target("blocks.0.attn1.to_k"));
  for (const char* wrong :
       {"rank=16", "targets=a rank=0", "targets=a rank=x", "targets=a rnak=3", "targets=a pattern=b", "",
        "pattern=(", "targets=a rank=2.5", "targets=a rank=1e300", "targets=a dropout=1",
        "targets=a dropout=-0.1", "targets=a dropout=nan"})
    EXPECT_THROW(parse_lora(wrong).is_target("a"), Error) << wrong;
  const test::Oracle oracle(kFile, "a");
  try {
    Adapted model(oracle.options, parse_lora("targets=to_qq"));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("no linear layer is 'to_qq', did you mean 'to_q'?"));
  }
}

}  // namespace
}  // namespace kinora::core
