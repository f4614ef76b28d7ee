// stage/embed.model and stage/filter.model of the built plugin against what Python makes with the same
// exported files (tests/oracle/make_export_fixtures.py).
#include <filesystem>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include "core/runtime/call.hpp"
#include "exported.hpp"
#include "host/stages/one_stage.hpp"
#include "kinora/curation.hpp"
#include "kinora/npy.hpp"
#include "kinora/stage.hpp"
#include "tests/support/oracle.hpp"

namespace kinora {
namespace {

using at::Tensor;
using core::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string file(const std::string& name) {
  return std::string(KINORA_TEST_DATA) + "/oracle/exported/" + name;
}

const test::Oracle& oracle() {
  static const test::Oracle all("exported/results.safetensors", "");
  return all;
}

// A stage's results for samples, in order.
struct Made {
  core::StageResults results;
  std::vector<std::string> errors;
  double cores = 0;  // that the stage asks for
  Made(const std::string& id, const json& options, const std::vector<Sample>& samples) {
    json all{{"frames", 3}, {"height", 24}, {"width", 32}, {"device", "cpu"}};
    all.update(options);
    const test::Instance<kinora_stage> stage(id, all);
    kinora_resources needs{};
    needs.struct_size = sizeof needs;
    check(stage->resources(stage.self(), &needs));
    cores = needs.cores;
    core::Call call;
    const kinora_run run = core::run_of(call);
    const kinora_emit sink = results.sink();
    check(stage->start(stage.self(), &run));
    // As engine/local does: a batch that fails is repeated one by one.
    const size_t most = std::max(1u, needs.batch);
    for (size_t first = 0; first < samples.size(); first += most) {
      std::vector<kinora_sample*> batch;
      for (size_t i = first; i < std::min(first + most, samples.size()); ++i)
        batch.push_back(samples[i].get());
      if (batch.size() > 1 &&
          !stage->process_batch(stage.self(), batch.data(), static_cast<uint32_t>(batch.size()), &sink, &run))
        continue;
      for (kinora_sample* one : batch)
        if (stage->process(stage.self(), one, &sink, &run)) errors.push_back(test::last_error());
    }
  }
};

Sample clip(const std::string& name) {
  test::plugins();
  const Tensor frames = oracle().exact(name + ".frames").contiguous();
  Sample out(name);
  const auto* from = frames.const_data_ptr<uint8_t>();
  out.set_tensor("frames", {from, from + frames.numel()}, frames.sizes().vec(), KINORA_DL_UINT, 8);
  out.set("json", R"({"film": "f"})");
  return out;
}

std::vector<Sample> clips() { return {clip("a"), clip("b"), clip("c")}; }

Tensor vector_of(const Sample& sample, const char* field) {
  const FloatArray read = read_npy(sample.need(field), field);
  return at::tensor(read.values).view(read.shape);
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

// Three clips in batches of two: the last batch is padded.
TEST(EmbedModel, EqualsPythonWithTorchScriptAndAotInductor) {
  for (const char* model : {"tower.pt", "tower.pt2"}) {
    const Made run("stage/embed.model", {{"model", file(model)}, {"name", "clip"}, {"batch", 2}}, clips());
    ASSERT_THAT(run.errors, ElementsAre());
    ASSERT_EQ(run.results.emitted.size(), 3u);
    for (const auto& sample : run.results.emitted) {
      const std::string name(sample.key());
      EXPECT_LT(difference(vector_of(sample, "clip.npy"), oracle().exact(name + ".tower")), 2e-6)
          << model << name;
      const json facts = json::parse(sample.need("json"));
      EXPECT_EQ(facts["embeddings"]["clip"], json({{"model", model}, {"size", 16}}));
      EXPECT_EQ(facts["film"], "f");
    }
  }
}

TEST(EmbedModel, TakesVideosStretchesAndOtherOutputs) {
  const Made video("stage/embed.model",
                   {{"model", file("video.pt")}, {"layout", "BCTHW"}, {"output", 1}, {"batch", 1}}, clips());
  const Made stretched(
      "stage/embed.model",
      {{"model", file("tower.pt")}, {"fit", "stretch"}, {"resample", "bilinear"}, {"batch", 4}}, clips());
  for (const auto& [run, kind] : {std::pair{&video, ".video"}, {&stretched, ".stretched"}}) {
    ASSERT_EQ(run->results.emitted.size(), 3u);
    for (const auto& sample : run->results.emitted)
      EXPECT_LT(difference(vector_of(sample, "model.npy"), oracle().exact(std::string(sample.key()) + kind)),
                2e-6)
          << kind;
  }
}

// tower.pt has float32 weights, so it accepts only float32 inputs.
TEST(EmbedModel, GivesTheModelItsInputInTheTypeThatIsNamed) {
  for (const char* dtype : {"float64", "float16", "bfloat16"}) {
    const Made run("stage/embed.model", {{"model", file("tower.pt")}, {"dtype", dtype}}, clips());
    EXPECT_TRUE(run.results.emitted.empty()) << dtype;
    EXPECT_FALSE(run.results.failed.empty() && run.errors.empty()) << dtype;
  }
}

// A clip's result does not depend on the rest of its batch.
TEST(EmbedModel, AClipIsTheSameInEveryBatch) {
  const json options{{"model", file("tower.pt")}, {"batch", 3}};
  const Made together("stage/embed.model", options, clips());
  for (const auto& sample : together.results.emitted) {
    const Made alone("stage/embed.model", options, {clip(std::string(sample.key()))});
    EXPECT_EQ(alone.results.emitted.at(0).need("model.npy"), sample.need("model.npy")) << sample.key();
  }
}

TEST(EmbedModel, GivesAVideoARowAShot) {
  Sample video = clip("a");  // 10 frames
  video.set("json", json{{"frames_at", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}}.dump());
  video.set("shots.json", json{{"fps", 10}, {"cuts", {40, 75, 76, 200}}}.dump());
  const Made run("stage/embed.model", {{"model", file("tower.pt2")}, {"batch", 2}}, {video});
  ASSERT_THAT(run.errors, ElementsAre());
  const Tensor rows = vector_of(run.results.emitted.at(0), "shots.model.npy");
  ASSERT_EQ(rows.sizes(), (at::IntArrayRef{5, 16}));
  const Tensor frames = oracle().exact("a.frames");
  const auto alone = [&](int64_t first, int64_t end) {
    Sample part("part");
    const Tensor cut = frames.slice(0, first, end).contiguous();
    const auto* from = cut.const_data_ptr<uint8_t>();
    part.set_tensor("frames", {from, from + cut.numel()}, cut.sizes().vec(), KINORA_DL_UINT, 8);
    const Made of_part("stage/embed.model", {{"model", file("tower.pt2")}, {"batch", 2}}, {part});
    return vector_of(of_part.results.emitted.at(0), "model.npy");
  };
  EXPECT_LT(difference(rows[0], alone(0, 4)), 1e-6);
  EXPECT_LT(difference(rows[1], alone(4, 8)), 1e-6);
  EXPECT_EQ(rows[2].abs().max().item<double>(), 0);  // there is no frame from 7.5 to 7.6 s
  EXPECT_LT(difference(rows[3], alone(8, 10)), 1e-6);
  EXPECT_EQ(rows[4].abs().max().item<double>(), 0);
}

TEST(FilterModel, ScoresPicturesAndReduces) {
  const Made run(
      "stage/filter.model",
      {{"model", file("video.pt")}, {"layout", "BCTHW"}, {"threshold", 1e9}, {"mode", "score"}, {"batch", 2}},
      clips());
  ASSERT_EQ(run.results.emitted.size(), 3u);
  for (const auto& sample : run.results.emitted)
    EXPECT_NEAR(json::parse(sample.need("json"))["scores"]["filter.model"],
                oracle().exact(std::string(sample.key()) + ".length").item<double>(), 2e-6);
}

Sample with_embedding(const std::string& name) {
  Sample sample = clip(name);
  const Tensor v = oracle().exact(name + ".tower").contiguous();
  sample.set("clip.npy", to_npy({v.const_data_ptr<float>(), 16}, {16}));
  return sample;
}

TEST(FilterModel, DropsBelowTheThresholdOfAnEmbeddingsScore) {
  std::vector<double> scores;
  std::vector<Sample> samples;
  for (const char* name : {"a", "b", "c"}) {
    samples.push_back(with_embedding(name));
    scores.push_back(oracle().exact(std::string(name) + ".of_embedding").item<double>());
  }
  auto sorted = scores;
  std::sort(sorted.begin(), sorted.end());
  const double threshold = (sorted[0] + sorted[1]) / 2;
  const Made run("stage/filter.model",
                 {{"model", file("scorer.pt2")},
                  {"name", "aesthetic"},
                  {"from", "clip.npy"},
                  {"threshold", threshold},
                  {"batch", 2}},
                 samples);
  ASSERT_THAT(run.errors, ElementsAre());
  ASSERT_EQ(run.results.dropped.size(), 1u);
  EXPECT_EQ(run.results.dropped[0].rule, "filter.aesthetic");
  EXPECT_NEAR(run.results.dropped[0].score, sorted[0], 1e-6);
  EXPECT_EQ(json_field(run.results.dropped[0].sample, "json")["bounds"]["filter.aesthetic"]["at_least"],
            threshold);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(json_field(samples[i], "json")["scores"]["filter.aesthetic"], scores[i], 1e-6);
}

// An image model made here with a known score: the mean of a frame's normalised red channel.
TEST(FilterModel, ReducesTheScoresOfPictures) {
  torch::jit::Module script("mean_of_red");
  script.define("def forward(self, x):\n  return x[:, 0].mean(dim=[1, 2])\n");
  const std::string path = ::testing::TempDir() + "/red.pt";
  script.save(path);
  Sample sample("levels");
  std::vector<uint8_t> pixels;
  for (const int level : {51, 102, 255})
    pixels.insert(pixels.end(), size_t{24} * 32 * 3, static_cast<uint8_t>(level));
  test::plugins();
  for (const auto& [reduction, want] : {std::pair{"min", 0.2}, {"max", 1.0}, {"mean", 1.6 / 3}}) {
    Sample one("levels");
    one.set_tensor("frames", std::vector<uint8_t>(pixels), {3, 24, 32, 3}, KINORA_DL_UINT, 8);
    const Made run("stage/filter.model",
                   {{"model", path},
                    {"reduction", reduction},
                    {"threshold", 0},
                    {"mean", {0, 0, 0}},
                    {"std", {1, 1, 1}}},
                   {one});
    EXPECT_NEAR(json::parse(run.results.emitted.at(0).need("json"))["scores"]["filter.model"], want, 1e-6)
        << reduction;
  }
}

TEST(FilterModel, GivesTheModelItsInputInTheTypeThatIsNamed) {
  torch::jit::Module script("bytes_of_a_number");
  script.define("def forward(self, x):\n  return torch.full([x.size(0)], float(x.element_size()))\n");
  const std::string path = ::testing::TempDir() + "/bytes.pt";
  script.save(path);
  for (const auto& [dtype, bytes] : {std::pair{"float32", 4}, {"float64", 8}, {"bfloat16", 2}})
    for (const char* from : {"frames", "clip.npy"}) {
      const Made run("stage/filter.model",
                     {{"model", path}, {"dtype", dtype}, {"from", from}, {"threshold", 0}},
                     {with_embedding("a")});
      ASSERT_EQ(run.results.emitted.size(), 1u) << dtype << from;
      EXPECT_EQ(json_field(run.results.emitted[0], "json")["scores"]["filter.model"], bytes) << dtype << from;
    }
}

TEST(ModelStages, TakeTheThreadsThatTheySayTheyTake) {
  const int before = at::get_num_threads();
  for (const int threads : {1, 3})
    for (const auto& [id, model] :
         {std::pair{"stage/embed.model", "tower.pt"}, {"stage/filter.model", "scorer.pt2"}}) {
      json options{{"model", file(model)}, {"threads", threads}};
      if (id == std::string("stage/filter.model"))
        options.update({{"from", "clip.npy"}, {"threshold", 0}, {"batch", 2}});
      at::set_num_threads(2);
      const Made run(id, options, {with_embedding("a")});
      EXPECT_EQ(at::get_num_threads(), threads) << id;
      EXPECT_EQ(run.cores, threads) << id;
    }
  at::set_num_threads(before);
}

TEST(ModelStages, FollowTheDeviceOfTheEngine) {
  const Device cpu{false, 0}, third{true, 3};
  const auto there = [] { return true; };
  const auto none = [] { return false; };
  const auto chosen = exported::chosen_device<bool (*)()>;
  EXPECT_EQ(chosen("auto", third, there), at::Device("cuda:3"));
  EXPECT_EQ(chosen("cuda", third, there), at::Device("cuda:3"));
  EXPECT_EQ(chosen("cuda:1", third, there), at::Device("cuda:1"));
  EXPECT_EQ(chosen("cuda", cpu, there), at::Device("cuda:0"));
  EXPECT_EQ(chosen("auto", cpu, there), at::kCPU);
  EXPECT_EQ(chosen("cpu", third, there), at::kCPU);
  EXPECT_EQ(chosen("auto", third, none), at::kCPU);
  EXPECT_THROW(chosen("cuda", third, none), Error);
}

// One input that the model rejects fails only that sample of its batch.
TEST(EmbedModel, OneBadSampleIsOneFailure) {
  torch::jit::Module script("refuses_white");
  script.define(
      "def forward(self, x):\n  assert float(x.mean()) < 0.9, \"too white\"\n  return x.flatten(1)[:, :4]\n");
  const std::string path = ::testing::TempDir() + "/refuses.pt";
  script.save(path);
  const auto grey = [](const std::string& key, uint8_t level) {
    Sample sample(key);
    sample.set_tensor("frames", std::vector<uint8_t>(size_t{3} * 24 * 32 * 3, level), {3, 24, 32, 3},
                      KINORA_DL_UINT, 8);
    return sample;
  };
  test::plugins();
  Sample none("none");
  const Made run("stage/embed.model",
                 {{"model", path}, {"batch", 4}, {"mean", {0, 0, 0}}, {"std", {1, 1, 1}}},
                 {grey("x", 100), none, grey("white", 255), grey("y", 200), grey("z", 50)});
  ASSERT_EQ(run.errors.size(), 2u);
  EXPECT_THAT(run.errors[0], HasSubstr("'none' has no frames"));
  EXPECT_THAT(run.errors[1], HasSubstr("refuses.pt failed on an input [12, 3, 24, 32]"));
  std::vector<std::string> keys;
  for (const auto& sample : run.results.emitted) keys.emplace_back(sample.key());
  EXPECT_THAT(keys, ElementsAre("x", "y", "z"));
}

TEST(EmbedModel, RefusesAFileThatIsNoModel) {
  const auto why = [](const json& options) {
    try {
      Made("stage/embed.model", options, {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_THAT(why({{"model", file("results.safetensors")}}),
              HasSubstr("is not a model that libtorch can read"));
  EXPECT_THAT(why({{"model", file("none.pt")}}), HasSubstr("there is no such file"));
  EXPECT_THAT(why({{"model", file("tower.pt")}, {"mean", {1, 2}}}), HasSubstr("three numbers"));
  for (const char* device : {"tpu", "gpu", "cuda:x", ""})
    EXPECT_THAT(why({{"model", file("tower.pt")}, {"device", device}}),
                HasSubstr("expected auto, cpu, cuda or cuda:1"));
  const std::filesystem::path open = ::testing::TempDir() + "/open.pt2";
  std::filesystem::copy_file(file("tower.pt2"), open, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::permissions(open, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(why({{"model", open.string()}}), HasSubstr("chmod o-w"));
}

}  // namespace
}  // namespace kinora
