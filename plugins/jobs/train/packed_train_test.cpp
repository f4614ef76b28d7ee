// kind = "train" on windows of several sizes: each sample's loss is the one that it would have alone.
#include <gmock/gmock.h>

#include "core/torch/tensors/noise.hpp"
#include "plugins/jobs/latents/latents.hpp"
#include "plugins/jobs/training/packed_testing.hpp"
#include "plugins/jobs/windows/encoded_windows.hpp"
#include "tests/support/refusal.hpp"

namespace kinora::core {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 8;

json trained(const ScratchRun& run) {
  JobContext context = run.context("dit");
  test::run_job(context);
  return context.summary;
}

// The loss of flow matching of one window in a batch of its own: |v - (n - x)|^2, a mean over its numbers.
double loss_alone(Model& network, const LatentItem& item, int64_t n) {
  const at::Tensor x = item.latent.to(at::kDouble).unsqueeze(0),
                   noise = sample_noise(x, kSeed, n, "train.noise"),
                   s = at::special_ndtri(sample_uniform({1}, kSeed, n, "train.sigma")).sigmoid();
  const double level = s.item<double>();
  const at::Tensor v = network
                           .forward({{"latent", (1 - level) * x + level * noise},
                                     {"timestep", 1000 * s},
                                     {"text", item.text.to(at::kDouble).unsqueeze(0)}})
                           .at(0);
  return (v - (noise - x)).square().mean().item<double>();
}

TEST(PackedTraining, GivesEachSampleTheLossThatItHasAlone) {
  const auto run = prepared_for_rows("batch = 8\n");
  const json measured = encoded(*run);
  EXPECT_EQ(measured.at("sizes").size(), 2u) << measured;  // no clip is taller than wide
  EXPECT_GT(measured.at("sizes").value("1x16x16", 0), 0);
  EXPECT_GT(measured.at("sizes").value("9x16x32", 0), 0);
  const json summary = trained(*run);
  EncodedWindows windows(JobView(test::runtime(), run->run(), run->spec("latents")), at::kCPU);
  const auto facts = LatentFacts::of_folder(run->of("latents"));
  const auto network = run->model("dit", "model", at::kDouble);
  double want = 0;
  std::set<std::vector<int64_t>> shapes;
  for (int64_t n = 0; n < kBatch; ++n) {
    auto window = windows.at(static_cast<uint64_t>(n), [](const std::string&) { return true; });
    const auto item = facts.item(window.key, std::move(window.tensors));
    shapes.insert(item.latent.sizes().vec());
    const LatentSize size =
        windows.latent_size(static_cast<uint64_t>(n), [](const std::string&) { return true; });
    EXPECT_EQ(at::IntArrayRef(size), item.latent[0].sizes());
    want += loss_alone(*network, item, n) / static_cast<double>(kBatch);
  }
  EXPECT_EQ(shapes.size(), 2u) << "videos and pictures";
  const auto lines = run->metrics("dit");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NEAR(lines[0].at("loss").get<double>() / want, 1, 1e-10);
  EXPECT_EQ(lines[0].at("efficiency"), 1) << "one row";
  EXPECT_EQ(summary.at("failed"), 1) << "b is not a video";
}

TEST(PackedTraining, IsTheSameInMicrobatches) {
  const auto lines = [](const std::string& more) {
    const auto run = prepared_for_rows("batch = 8\n" + more);
    encoded(*run);
    trained(*run);
    return run->metrics("dit");
  };
  const auto one = lines("");
  for (const char* more : {"accumulate = 4\n", "accumulate = 4\nbatches = 'buckets'\n"}) {
    const auto four = lines(more);
    for (size_t i = 0; i < 2; ++i) {
      for (const char* name : {"loss", "gradient_norm"})
        EXPECT_NEAR(four[i].at(name).get<double>() / one[i].at(name).get<double>(), 1, 1e-10)
            << more << name << i;
      EXPECT_GT(four[i].at("efficiency").get<double>(), 0.25);
      EXPECT_LE(four[i].at("efficiency").get<double>(), 1);
    }
  }
}

// Scales, stochastic rounding and dropout are those of a sample, whatever it shares a row, a bucket or a step with.
TEST(PackedTraining, WithFewBitsOrDropoutIsTheSameHoweverAStepIsDivided) {
  const std::string model =
      "model = { use = 'dit', in_channels = 2, out_channels = 2, text_size = 12, heads = 4, head_size = 16, "
      "adaln_lora "
      "= 4, layers = 2 }\n";
  struct Case {
    const char *precision, *more;
    size_t steps;  // after one, sums in another order may round a number of few bits the other way
  };
  const Case cases[] = {
      {"{ use = 'nvfp4', stream = 'float64', high = ['embedding', 'head'] }", "", 1},
      {"{ use = 'fp8', stream = 'float64', high = [], attention = 'fp8' }", "", 1},
      {"'fp64'", "lora = 'rank=2 dropout=0.3 pattern=.*(linear|adaLN|t_embedder).*'\n", 2},
  };
  const ScratchRun keeper;  // of the latents
  for (const auto& [precision, more, steps] : cases) {
    SCOPED_TRACE(precision);
    const auto lines = [&](const std::string& divided) {
      const auto run =
          prepared_for_rows("batch = 8\n" + divided + model + more, precision, keeper.of("kept"), steps);
      encoded(*run);
      trained(*run);
      return run->metrics("dit");
    };
    const auto one = lines("");
    for (const char* divided : {"accumulate = 4\n", "accumulate = 4\nbatches = 'buckets'\n"}) {
      const auto four = lines(divided);
      for (size_t i = 0; i < steps; ++i)
        for (const char* name : {"loss", "gradient_norm"})
          EXPECT_NEAR(four[i].at(name).get<double>() / one[i].at(name).get<double>(), 1, 1e-10)
              << divided << name << i;
    }
  }
}

// Packed rows refuse these: each sample has its own draws, however the step is divided.
TEST(PackedTraining, InBucketsHasLevelsByFrameAndTeacherForcing) {
  for (const char* more : {"levels = 'frame'\n", "teacher_forcing = true\n"}) {
    const auto loss = [&](const char* divided) {
      const auto run = prepared_for_rows(std::string("batch = 8\nbatches = 'buckets'\n") + divided + more);
      encoded(*run);
      trained(*run);
      return run->metrics("dit").at(1).at("loss").get<double>();
    };
    EXPECT_NEAR(loss("accumulate = 4\n") / loss("accumulate = 8\n"), 1, 1e-10) << more;
  }
}

TEST(PackedTraining, ReportsTheMeanEfficiencyOfItsSteps) {
  for (const char* more : {"", "batches = 'buckets'\n"}) {
    const auto run = prepared_for_rows(std::string("batch = 8\naccumulate = 4\n") + more);
    encoded(*run);
    const json summary = trained(*run);
    double mean = 0;
    for (const auto& line : run->metrics("dit")) mean += line.at("efficiency").get<double>() / 2;
    EXPECT_NEAR(summary.at("efficiency").get<double>(), mean, 1e-12);
    EXPECT_GT(run->metrics("dit").at(0).at("flops_per_second").get<double>(), 0);
  }
}

TEST(PackedTraining, ResumesBucketsBitForBit) {
  const std::string dit =
      "batch = 8\naccumulate = 4\nbatches = 'buckets'\ncheckpoint_every = 1\nkeep = 9\nasync_checkpoints = "
      "false\n";
  const auto whole = prepared_for_rows(dit), resumed = prepared_for_rows(dit);
  encoded(*whole), encoded(*resumed);
  trained(*whole);
  const fs::path kept = fs::path("checkpoints") / "step-000001";
  fs::create_directories(resumed->of("dit") / "checkpoints");
  fs::copy(whole->of("dit") / kept, resumed->of("dit") / kept, fs::copy_options::recursive);
  trained(*resumed);
  const auto a = read_tensors(whole->of("dit") / "weights.safetensors"),
             b = read_tensors(resumed->of("dit") / "weights.safetensors");
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, t] : a) EXPECT_TRUE(at::equal(t, b.at(name))) << name;
  ASSERT_EQ(resumed->metrics("dit").size(), 1u);
  for (const char* name : {"loss", "efficiency"})
    EXPECT_EQ(resumed->metrics("dit").at(0).at(name), whole->metrics("dit").at(1).at(name)) << name;
}

TEST(PackedTraining, RefusesWhatRowsCannotDo) {
  const auto said = [](const std::string& dit) {
    const auto run = prepared_for_rows("batch = 4\n" + dit);
    return test::refusal([&] {
      encoded(*run);
      trained(*run);
    });
  };
  for (const char* line : {"condition_frames = [1]\n", "levels = 'frame'\n"}) {
    const std::string option(line, std::string(line).find(' '));
    EXPECT_THAT(said(line),
                HasSubstr("leave " + option + " out, set batches = \"buckets\", or remove `sizes`"));
  }
  for (const char* buckets : {"", "accumulate = 4\nbatches = 'buckets'\n"})
    EXPECT_THAT(said(std::string("sample_every = 1\n") + buckets),
                HasSubstr("leave sample_every out, or remove `sizes`"));
}

TEST(PackedTraining, RefusesBucketsThatItCannotFill) {
  const auto said = [](const std::unique_ptr<ScratchRun>& run) {
    return test::refusal([&] {
      encoded(*run);
      trained(*run);
    });
  };
  EXPECT_THAT(
      said(prepared_for_rows("batch = 8\naccumulate = 2\nbatches = 'buckets'\n")),
      HasSubstr("3 sizes of windows need as many microbatches a step, and accumulate (2) times the ranks "
                "that hold different samples (1) is 2; accumulate = 3 would do"));
  EXPECT_THAT(said(prepared({{"dit", "batches = 'buckets'\n"}})),
              HasSubstr("is for windows of several sizes, and those of the encode job have one"));
}

}  // namespace
}  // namespace kinora::core
