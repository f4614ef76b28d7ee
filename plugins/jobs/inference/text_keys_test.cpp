// On a cache, every denoiser with cross-attention projects a text to keys and values once for a prompt, and makes
// the same numbers as when it does so in each forward.
#include <optional>
#include <set>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/network/model.hpp"
#include "core/torch/tensors/noise.hpp"
#include "kinora/aten.hpp"
#include "kinora/link.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core::text_keys {
namespace {

using at::Tensor;

struct Case {
  const char* model;
  json options;
  int64_t projections;  // linear layers of the text in two blocks
};
const json kSmall{{"in_channels", 2}, {"out_channels", 2}, {"text_size", 12}, {"layers", 2},
                  {"heads", 2},       {"head_size", 12},   {"adaln_lora", 4}};
const Case kCases[] = {{"dit", kSmall, 2},
                       {"stdit", kSmall, 2},
                       {"cosmos", kSmall, 4},
                       {"wan",
                        {{"in_channels", 2},
                         {"out_channels", 2},
                         {"text_dim", 12},
                         {"num_layers", 2},
                         {"freq_dim", 8},
                         {"num_attention_heads", 2},
                         {"ffn_dim", 24},
                         {"attention_head_dim", 12}},
                        4}};

// A component with its options, which instances refer to.
struct Opened {
  Opened(const std::string& id, const json& given)
      : component(or_throw(test::runtime().registry().open(id))),
        options(or_throw(Options::make(*component.spec, given))) {}
  Component component;
  Options options;
};

// Below the cache: counts the layers that split their outputs and read what all tokens share.
class Counter final : public kinora::Link<Tensor> {
 public:
  Counter() : Link(KINORA_LEVEL_PRECISION) { skip_inherited<Counter>(); }
  kinora_param parameter(const kinora_param_spec& spec) override {
    const kinora_param p = next.parameter(spec);
    if (spec.role == KINORA_ROLE_COLUMN) columns_.insert(p);
    return p;
  }
  Tensor linear(const Tensor& x, kinora_param w, kinora_param b, kinora_seq seq) override {
    count += seq == 0 && columns_.contains(w);
    return next.linear(x, w, b, seq);
  }
  int64_t count = 0;

 private:
  std::set<kinora_param> columns_;
};

Tensor numbers(const std::string& key, const std::vector<int64_t>& shape) {
  return sample_noise(at::empty(shape, at::kDouble), 5, 0, key);
}

// A model on a cache, in float64, whose weights leave no layer at zero.
class OnCache {
 public:
  // keeps: the cache keeps the text's keys and values; otherwise its slot for linear layers is empty.
  OnCache(const Case& c, bool keeps)
      : opened_("model/" + std::string(c.model), c.options),
        kv_("cache/kv", json::object()),
        cache_(kv_.component, kv_.options),
        link_(*cache_.link()),
        context_(*link_.context) {
    if (!keeps) context_.linear = nullptr;
    link_.context = &context_;
    model_.emplace(opened_.component, opened_.options, ChainOptions{.dtype = at::kDouble},
                   std::vector<const kinora_link*>{&link_, counter.get()});
    at::manual_seed(11);
    for (auto& leaf : model_->chain().leaves()) leaf.tensor.detach().normal_(0, 0.3);
  }

  // A chunk of two latent frames for each text: two read-only forwards and a clean pass, by it and by no prompt.
  std::vector<Tensor> made(const std::vector<std::string>& texts) {
    const at::NoGradGuard off;
    std::vector<Tensor> out;
    for (size_t chunk = 0; chunk < texts.size(); ++chunk) {
      Frames frames{.start = static_cast<int64_t>(2 * chunk), .chunk = 2, .causal = true};
      model_->chain().set_frames(frames);
      for (const int step : {0, 1, 2})
        for (const uint32_t branch : {0U, 1U}) {
          kinora_pass pass{};
          pass.struct_size = sizeof pass;
          pass.no_grad = 1;
          pass.session = 1;
          pass.branch = branch;
          pass.read_only = step < 2;
          model_->chain().begin(pass);
          const std::string key = std::to_string(3 * chunk + static_cast<size_t>(step));
          out.push_back(model_->forward({{"latent", numbers(key, {1, 2, 2, 4, 4})},
                                         {"timestep", at::full({1}, 0.9 - 0.4 * step, at::kDouble)},
                                         {"text", numbers(branch ? "none" : texts[chunk], {1, 3, 12})}})[0]);
        }
    }
    return out;
  }
  Counter counter;

 private:
  Opened opened_, kv_;
  CacheInstance cache_;
  kinora_link link_;
  kinora_context context_;
  std::optional<Model> model_;
};

TEST(TextKeys, AreProjectedOnceAPromptAndChangeNothing) {
  for (const Case& c : kCases) {
    OnCache keeps(c, true), computes(c, false), other(c, true);
    const auto once = keeps.made({"red", "red", "blue"}), each = computes.made({"red", "red", "blue"}),
               red = other.made({"red", "red", "red"});
    EXPECT_EQ(keeps.counter.count, c.projections * 3) << c.model << ": two prompts and the one for none";
    EXPECT_EQ(computes.counter.count, c.projections * 18) << c.model;
    ASSERT_EQ(once.size(), 18U);
    for (size_t i = 0; i < once.size(); ++i) {
      ASSERT_TRUE(once[i].isfinite().all().item<bool>()) << c.model << i;
      EXPECT_TRUE(at::equal(once[i], each[i])) << c.model << i;
      const bool is_of_blue = i >= 12 && i % 2 == 0;
      EXPECT_EQ(at::equal(once[i], red[i]), !is_of_blue) << c.model << i;
    }
  }
}

}  // namespace
}  // namespace kinora::core::text_keys
