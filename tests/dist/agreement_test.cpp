// Ranks with different run files, weights or data stop before they compute, and report which rank differs in
// what.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/torch/ranks/meeting.hpp"
#include "core/torch/ranks/parallelism.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/run_file.hpp"

namespace kinora::core {
namespace {

namespace fs = std::filesystem;
using test::Rank;
using test::ScratchRun;
using testing::HasSubstr;

TEST(Agreement, NamesTheItemTheValuesAndTheFewFirst) {
  const Facts usual{{"seed", "1"}, {"option batch", "4"}}, other{{"seed", "1"}, {"option batch", "8"}};
  EXPECT_EQ(disagreements({usual, usual, usual}), "");
  EXPECT_EQ(disagreements({usual, usual, other, usual}), "option batch: rank 2 has 8, ranks 0, 1, 3 have 4");
  EXPECT_EQ(disagreements({other, usual, usual, usual, usual}),
            "option batch: rank 0 has 8, ranks 1-4 have 4");
  EXPECT_EQ(disagreements({usual, other}), "option batch: rank 1 has 8, rank 0 has 4")
      << "rank 0 is displayed";
  EXPECT_EQ(disagreements({{{"a", "1"}, {"b", "2"}}, {{"a", "3"}}}),
            "a: rank 1 has 3, rank 0 has 1; b: rank 1 has none, rank 0 has 2");
}

// The messages of a training's ranks, each in its own folder. odd: what the last rank has instead.
struct Odd {
  std::string options;
  double weight = 0, latent = 0, mean = 0, of_component = 0;
  std::string key = "b", job = "dit";
};
std::string said(const Rank& me, const Odd& odd) {
  const bool is_odd = me.rank == me.size - 1;
  const ScratchRun run(
      {{"dit", "parallel = ['ddp']\nweights = 'FOLDER/start.safetensors'\n" + (is_odd ? odd.options : "")},
       {"tokenizer",
        "parallel = ['ddp']\nperceptual = { use = 'lpips', weights = 'FOLDER/lpips.safetensors' }\n"}});
  fs::create_directories(run.of("latents"));
  LatentCacheWriter cache(run.of("latents") / "latents.h5", "{}");
  for (const std::string& key : {std::string("a"), is_odd ? odd.key : "b"})
    cache.add(key,
              {{"latent", at::full({2, 2, 2, 4}, is_odd ? odd.latent : 0)}, {"text", at::ones({1, 12})}});
  cache.commit();
  LatentFacts facts;
  facts.scale = {{is_odd ? odd.mean : 0, 0}, {1, 1}, 0.5};
  facts.shape = {2, 2, 2, 4};
  std::ofstream(run.of("latents") / "latents.json") << facts.to_json().dump();
  write_tensors(run.folder() / "start.safetensors", {{"x", at::full({2}, is_odd ? odd.weight : 0)}});
  write_tensors(run.folder() / "lpips.safetensors", {{"x", at::full({2}, is_odd ? odd.of_component : 0)}});
  JobContext context = run.context(odd.job, false);
  try {
    const Parallelism parallel(context);
    return parallel.any(true) ? "" : "no transfer took place";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), KINORA_ERROR_INVALID);
    return e.what();
  }
}

TEST(Agreement, StopsEveryRankAtTheStart) {
  const struct {
    Odd odd;
    const char* part;  // of every rank's message
  } cases[] = {{{}, ""},
               {{.options = "threads = 2\n"}, ""},
               {{.options = "batch = 8\n"}, "option batch: rank 2 has 8, ranks 0, 1 have 4"},
               {{.options = "precision = 'fp64'\n"}, "precision: rank 2 has precision/fp64"},
               {{.weight = 1}, "weights: rank 2 has sha256:"},
               {{.job = "tokenizer"}, ""},
               {{.of_component = 1, .job = "tokenizer"}, "weights of loss/lpips: rank 2 has sha256:"},
               {{.latent = 1}, "data of job latents: rank 2 has sha256:"},
               {{.mean = 1}, "data of job latents: rank 2 has sha256:"},
               {{.key = "c"}, "data of job latents: rank 2 has sha256:"}};
  for (const auto& c : cases)
    test::on_ranks(3, [&](const Rank& me) {
      me.launched();
      const std::string text = said(me, c.odd);
      if (c.part[0] == 0) {
        EXPECT_EQ(text, "");
      } else {
        EXPECT_THAT(text, HasSubstr("the ranks do not agree: "));
        EXPECT_THAT(text, HasSubstr(c.part));
        EXPECT_EQ(text.find("option"),
                  std::string(c.part).starts_with("option") ? text.find(": ") + 2 : std::string::npos)
            << "another difference is reported too: " << text;
      }
    });
}

TEST(Agreement, DataAreKnownByTheirIndex) {
  const ScratchRun run;
  const fs::path a = run.folder() / "a", b = run.folder() / "b";
  for (const auto& folder : {a, b}) {
    fs::create_directories(folder / ".nv-meta");
    std::ofstream(folder / "shard-000000.tar") << "12345";
    std::ofstream(folder / "shard-000000.tar.idx") << "idx";
    std::ofstream(folder / ".nv-meta/.info.json") << "{}";
    std::ofstream(folder / "summary.json") << folder;
  }
  EXPECT_EQ(shards_digest(a), shards_digest(b));
  std::ofstream(b / ".nv-meta/.info.json") << "{ }";
  EXPECT_NE(shards_digest(a), shards_digest(b));
  std::ofstream(b / ".nv-meta/.info.json") << "{}";
  std::ofstream(b / "shard-000000.tar") << "123456";
  EXPECT_NE(shards_digest(a), shards_digest(b));
  EXPECT_EQ(shards_digest(run.folder() / "nowhere"), "none");
}

}  // namespace
}  // namespace kinora::core
