// cp-ulysses that exchanges heads in fewer bits above a cache that keeps keys and values in fewer bits: the ranks of a
// video compute what one process does that rounds the same numbers.
#include <memory>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/torch/network/cache_instance.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "core/torch/tensors/noise.hpp"
#include "tests/support/equality.hpp"
#include "tests/support/rounded_exchanges.hpp"

namespace kinora::quantised_cache {
namespace {

using at::Tensor;
using test::Rank;

// The strategies of this rank, and the model.
struct Launched {
  Launched(const Rank& me, const std::string& wire)
      : run(lines(me, wire)), context(run.context("dit", false)), strategies(context) {}
  static std::map<std::string, std::string> lines(const Rank& me, const std::string& wire) {
    me.launched();
    return {{"dit", "precision = 'fp64'\nmodel = " + test::models::dit(4) +
                        "\nparallel = [{ use = 'cp-ulysses', wire = '" + wire + "' }]"}};
  }
  test::ScratchRun run;
  core::JobContext context;
  core::Parallelism strategies;
};

// Three chunks of two latent frames on a cache: each is read twice, first without storing it.
Tensor made(const test::ScratchRun& run, const std::string& cache, std::vector<const kinora_link*> links) {
  const at::NoGradGuard off;
  const auto component = core::or_throw(test::runtime().registry().open("cache/" + cache));
  const auto options = core::or_throw(core::Options::make(*component.spec, core::json::object()));
  const core::CacheInstance kept(component, options);
  links.push_back(kept.link());
  const auto model = run.model("dit", "model", at::kDouble, links);
  std::vector<Tensor> out;
  for (const int64_t chunk : {0, 1, 2})
    for (const uint32_t read_only : {1U, 0U}) {
      core::Frames frames;
      frames.start = 2 * chunk, frames.chunk = 2, frames.causal = true;
      model->chain().set_frames(frames);
      kinora_pass pass{};
      pass.struct_size = sizeof pass;
      pass.no_grad = 1;
      pass.read_only = read_only;
      model->chain().begin(pass);
      const auto drawn = [&](const char* what, const std::vector<int64_t>& shape) {
        return core::sample_noise(at::empty(shape, at::kDouble), 5, chunk, what);
      };
      out.push_back(model->forward({{"latent", drawn(read_only ? "noisy" : "clean", {1, 2, 2, 4, 6})},
                                    {"timestep", at::full({1}, 0.5 * read_only, at::kDouble)},
                                    {"text", drawn("text", {1, 3, 12})}})[0]);
    }
  return at::cat(out, 2);
}

double apart(const Tensor& a, const Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

TEST(UlyssesOnAQuantisedCache, EqualsOneProcessThatRoundsTheSame) {
  test::on_ranks(2, [](const Rank& me) {
    for (const std::string wire : {"auto", "fp8", "nvfp4"}) {
      Launched ranks(me, wire);
      for (const std::string cache : {"kv-fp8", "kv-nvfp4"}) {
        const test::RoundsExchanges rounds(me.size, wire, "auto", KINORA_LEVEL_CONTEXT);
        auto links = ranks.strategies.more_links();
        const Tensor together = made(ranks.run, cache, links);
        links = ranks.strategies.precision_links();
        const Tensor plain = made(ranks.run, "kv", links);
        links = ranks.strategies.precision_links();
        links.push_back(rounds.get());
        const Tensor alone = made(ranks.run, cache, links);
        EXPECT_LT(apart(together, alone), 1e-10) << wire << ", " << cache;
        EXPECT_GT(apart(together, plain), 1e-6) << wire << ", " << cache << ": something is rounded";
        if (wire == "auto") continue;
        links = ranks.strategies.precision_links();
        EXPECT_GT(apart(together, made(ranks.run, cache, links)), 1e-6) << wire << ", " << cache;
      }
    }
  });
}

}  // namespace
}  // namespace kinora::quantised_cache
